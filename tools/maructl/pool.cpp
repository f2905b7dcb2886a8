// Pools of a running domain: add, drain, remove; and devices that the config names.
#include <unistd.h>

#include <string>

#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

std::string holders(const Json& answer) {
    std::string list;
    for (const auto& holder : answer.value("holders", Json::array()))
        list += (list.empty() ? "" : ", ") + std::string("'") + text(holder, "instance_id") +
                "' (slot:" + count(holder, "slot") + ", " + count(holder, "pages") + " pages)";
    return list;
}

std::string content(const Json& answer) {
    const Json left = answer.value("left", Json::object());
    return count(left, "published") + " objects, " + count(left, "reserved") + " reserved pages in " +
           count(left, "regions") + " regions";
}

bool is_empty(const Json& answer) {
    return answer.value("left", Json::object()).value("regions", 0u) == 0;
}

std::string question(const std::string& name, const Json& answer) {
    return "Removing pool '" + name + "' evicts what is in it: " + content(answer) + ". Go on?";
}

}  // namespace

int add_pool(const Options& options, const std::string& pool) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const auto answer = daemon->ask("pool_add", Json{{"pool", pool}});
    if (!answer) return fail(answer.error(), exit_no);
    print(options.json ? answer->dump(2) + "\n"
                       : "added pool " + text(*answer, "name") + " (" + text(*answer, "kind") + ", " +
                             size(*answer, "size") + ")\n");
    return exit_done;
}

int drain_pool(const Options& options, const std::string& name, bool cancel) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const auto answer = daemon->ask("pool_drain", Json{{"name", name}, {"cancel", cancel}});
    if (!answer) return fail(answer.error(), exit_no);
    if (options.json) {
        print(answer->dump(2) + "\n");
        return exit_done;
    }
    if (cancel) {
        print("pool " + name + " serves again, with " + content(*answer) + "\n");
        return exit_done;
    }
    print("pool " + name + " is draining: " +
          (is_empty(*answer) ? std::string("it is empty, remove it with maructl pool remove ") + name
                             : content(*answer) + " are left") +
          "\n");
    return exit_done;
}

int remove_pool(const Options& options, const std::string& name, bool evict) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    auto answer = daemon->ask("pool_remove", Json{{"name", name}, {"evict", false}});
    if (!answer) return fail(answer.error(), exit_no);
    if (!answer->value("removed", false)) {
        if (!evict && ::isatty(STDIN_FILENO) == 0)
            return fail({Code::invalid, "pool '" + name + "' is not empty: " + content(*answer) +
                                            ". Let it drain (maructl pool drain " + name +
                                            "), or say -y to evict what nobody holds"},
                        exit_no);
        if (!evict && !agreed(question(name, *answer))) return exit_no;
        // A slice at a time, so that the daemon serves others meanwhile; two whole passes without an end mean
        // that somebody holds the rest.
        for (int passes = 0; passes < 2 && answer && !answer->value("removed", false);) {
            answer = daemon->ask("pool_remove", Json{{"name", name}, {"evict", true}});
            if (answer && answer->value("over", false)) ++passes;
        }
        if (!answer) return fail(answer.error(), exit_no);
    }
    const bool removed = answer->value("removed", false);
    if (options.json) {
        print(answer->dump(2) + "\n");
        return removed ? exit_done : exit_no;
    }
    if (!removed) {
        const std::string who = holders(*answer);
        return fail({Code::pinned, "pool '" + name + "' is draining and still holds " + content(*answer) +
                                       (who.empty() ? std::string() : ", kept by " + who) +
                                       ": nothing new goes in; when they let go, or after maructl client "
                                       "disconnect, ask again"},
                    exit_no);
    }
    print("removed pool " + name +
          (answer->value("in_config", false)
               ? ": the config still lists it, so a restart or reload brings it back; take it out there\n"
               : "\n"));
    return exit_done;
}

int rescan(const Options& options) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const auto answer = daemon->ask("rescan", Json::object());
    if (!answer) return fail(answer.error(), exit_no);
    const Json refused = answer->value("refused", Json::array());
    if (options.json) {
        print(answer->dump(2) + "\n");
        return refused.empty() ? exit_done : exit_no;
    }
    const Json added = answer->value("added", Json::array());
    for (const auto& name : added)
        print("added pool " + name.get<std::string>() + "\n");
    for (const auto& one : refused)
        complain("pool '" + text(one, "name") + "' was not added: " + text(one, "reason"));
    if (added.empty() && refused.empty()) print("nothing new\n");
    return refused.empty() ? exit_done : exit_no;
}

}  // namespace maru::ctl
