// Namespaces: made, changed, removed and flushed by an administrator.
#include <unistd.h>

#include <string>

#include "commands.hpp"
#include "daemon.hpp"
#include "daemon/principals.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

int not_changed(const Error& error) {
    return fail(error,
                error.code == Code::unavailable || error.code == Code::timeout ? exit_cannot : exit_no);
}

/// The numbers of users or groups; "none" alone is nobody.
Result<Json> numbers_of(daemon::Principal kind, const std::vector<std::string>& words) {
    Json numbers = Json::array();
    if (words.size() == 1 && words.front() == "none") return numbers;
    for (const auto& word : words) {
        const auto number = daemon::parse_principal(kind, word);
        if (!number) return number.error();
        numbers.push_back(*number);
    }
    return numbers;
}

/// What the command line says, as the daemon takes it.
Result<Json> arguments_of(const std::string& name, const NamespaceWish& wish) {
    Json arguments{{"name", name}};
    if (!wish.quota.empty()) {
        const auto bytes =
            wish.quota == "none" ? Result<std::uint64_t>(std::uint64_t{0}) : parse_size(wish.quota);
        if (!bytes) return Error{Code::invalid, "--quota: " + bytes.error().text};
        arguments["quota"] = *bytes;
    }
    struct List {
        const char *option, *field;
        daemon::Principal kind;
        const std::vector<std::string>& words;
    };
    for (const auto& list :
         {List{"--uid", "uids", daemon::Principal::user, wish.uids},
          List{"--gid", "gids", daemon::Principal::group, wish.gids},
          List{"--readonly-gid", "readonly_gids", daemon::Principal::group, wish.readonly_gids}}) {
        if (list.words.empty()) continue;
        auto numbers = numbers_of(list.kind, list.words);
        if (!numbers) return Error{Code::invalid, std::string(list.option) + ": " + numbers.error().text};
        arguments[list.field] = std::move(*numbers);
    }
    return arguments;
}

std::string ids_text(const Json& row, const char* name) {
    std::string text;
    for (const auto& id : row.value(name, Json::array()))
        if (id.is_number_unsigned())
            text += (text.empty() ? "" : ",") + std::to_string(id.get<std::uint64_t>());
    return text;
}

int change(const Options& options, const char* command, const std::string& name, const NamespaceWish& wish) {
    const auto arguments = arguments_of(name, wish);
    if (!arguments) return fail(arguments.error(), exit_cannot);
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const auto answer = daemon->ask(command, *arguments);
    if (!answer) return not_changed(answer.error());
    if (options.json) {
        print(answer->dump(2) + "\n");
        return exit_done;
    }
    const auto quota = number(*answer, "quota"), used = number(*answer, "used_bytes");
    std::string said = "namespace " + text(*answer, "name") + ": " +
                       (quota == 0 ? std::string("no quota") : "quota " + format_size(quota)) + ", " +
                       access_text(*answer) + "\n";
    if (quota != 0 && used > quota)
        said += "it uses " + format_size(used) +
                ", more than that: nothing is lost now, each store evicts until it fits\n";
    if (answer->value("in_config", false))
        said += "the config lists it: the next start or reload puts the config's values in force\n";
    print(said);
    return exit_done;
}

std::string objects_text(const Json& answer) {
    return count(answer, "objects") + " objects (" + size(answer, "bytes") + ")";
}

/// Whether to go on, of a namespace that holds what `counted` says.
bool agreed_to(const std::string& what, const std::string& name, const Json& counted) {
    return agreed(what + " namespace '" + name + "' takes its " + objects_text(counted) +
                  " away from everybody. Go on?");
}

void say_flushed(const Json& answer) {
    std::string said =
        std::string(answer.value("dry_run", false) ? "would flush " : "flushed ") + objects_text(answer);
    if (number(answer, "held") != 0)
        said += "; " + count(answer, "held") + " of them (" + size(answer, "held_bytes") +
                ") are still read or pinned: their memory comes back when they are let go";
    print(said + "\n");
}

}  // namespace

std::string access_text(const Json& row) {
    const auto uids = ids_text(row, "uids"), gids = ids_text(row, "gids"),
               readers = ids_text(row, "readonly_gids");
    std::string said;
    const auto add = [&](const char* what, const std::string& ids) {
        if (!ids.empty()) said += (said.empty() ? "" : " ") + std::string(what) + ids;
    };
    add("uid:", uids);
    add("gid:", gids);
    if (said.empty()) said = "everybody";
    add("read:", readers);
    return said;
}

int create_namespace(const Options& options, const std::string& name, const NamespaceWish& wish) {
    return change(options, "namespace_create", name, wish);
}

int set_namespace(const Options& options, const std::string& name, const NamespaceWish& wish) {
    if (wish.quota.empty() && wish.uids.empty() && wish.gids.empty() && wish.readonly_gids.empty())
        return fail({Code::invalid,
                     "nothing to set: give --quota, --uid, --gid or --readonly-gid (\"none\" takes "
                     "one away)"},
                    exit_cannot);
    return change(options, "namespace_set", name, wish);
}

int remove_namespace(const Options& options, const std::string& name, bool yes, bool dry_run) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    auto answer = daemon->ask("namespace_rm", Json{{"name", name}, {"flush", false}, {"dry_run", true}});
    if (!answer) return not_changed(answer.error());
    const bool is_empty = number(*answer, "objects") == 0;
    if (!dry_run && !is_empty && !yes) {
        if (::isatty(STDIN_FILENO) == 0)
            return not_changed({Code::pinned, "namespace '" + name + "' holds " + objects_text(*answer) +
                                                  ": say -y to flush them with it"});
        if (!agreed_to("Removing", name, *answer)) return exit_no;
    }
    if (!dry_run)
        answer = daemon->ask("namespace_rm", Json{{"name", name}, {"flush", !is_empty}, {"dry_run", false}});
    if (!answer) return not_changed(answer.error());
    if (options.json) {
        print(answer->dump(2) + "\n");
        return exit_done;
    }
    print((dry_run ? "would remove namespace " : "removed namespace ") + name +
          (is_empty ? std::string() : " with " + objects_text(*answer)) +
          (!dry_run && answer->value("in_config", false)
               ? ": the config still lists it, so a restart or reload brings it back; take it out there\n"
               : "\n"));
    return exit_done;
}

int flush_namespace(const Options& options, const std::string& name, bool yes, bool dry_run) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    if (!dry_run && !yes) {
        const auto counted = daemon->ask("flush", Json{{"name", name}, {"dry_run", true}});
        if (!counted) return not_changed(counted.error());
        if (::isatty(STDIN_FILENO) == 0)
            return not_changed({Code::invalid, "namespace '" + name + "' holds " + objects_text(*counted) +
                                                   ": say -y to flush them"});
        if (!agreed_to("Flushing", name, *counted)) return exit_no;
    }
    const auto answer = daemon->ask("flush", Json{{"name", name}, {"dry_run", dry_run}});
    if (!answer) return not_changed(answer.error());
    if (options.json)
        print(answer->dump(2) + "\n");
    else
        say_flushed(*answer);
    return exit_done;
}

}  // namespace maru::ctl
