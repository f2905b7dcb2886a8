// Lists of the daemon as tables.
#include "base/size.hpp"
#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

using Row = std::function<std::vector<std::string>(const Json&)>;

struct Listing {
    const char* command;  // its rows stand under the same name
    std::vector<Table::Column> columns;
    Row row;
};

int show_list(const Options& options, const RowChoice& choice, const Listing& listing) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    Json all = Json::array();
    const auto asked =
        daemon->ask_list(listing.command, listing.command, Json::object(), [&](const Json& rows) {
            all.insert(all.end(), rows.begin(), rows.end());
            return true;
        });
    if (!asked) return fail(asked.error(), exit_cannot);
    if (auto chosen = choose_rows(choice, &all); !chosen) return fail(chosen.error(), exit_cannot);
    if (options.json) {
        print(Json{{listing.command, all}}.dump(2) + "\n");
        return exit_done;
    }
    Table table(listing.columns);
    for (const auto& row : all)
        table.add(listing.row(row));
    print(table.take());
    return exit_done;
}

std::string holder_text(const Json& region) {
    if (!region.contains("holder") || !region["holder"].is_object()) return "-";
    return text(region, "holder", "instance_id") + " (" + count(region, "holder", "slot") + ")";
}

}  // namespace

int show_pools(const Options& options, const RowChoice& choice) {
    return show_list(options, choice,
                     {"pools",
                      {{"POOL"},
                       {"KIND"},
                       {"STATE"},
                       {"SIZE", true},
                       {"UNCLAIMED", true},
                       {"FREE", true},
                       {"RESERVED", true},
                       {"PUBLISHED", true},
                       {"RETIRED", true},
                       {"PINNED", true},
                       {"REGIONS", true},
                       {"PATH"}},
                      [](const Json& row) -> std::vector<std::string> {
                          return {text(row, "name"),
                                  text(row, "kind"),
                                  text(row, "state"),
                                  size(row, "size"),
                                  size(row, "bytes", "unclaimed"),
                                  size(row, "bytes", "free"),
                                  size(row, "bytes", "reserved"),
                                  size(row, "bytes", "published"),
                                  size(row, "bytes", "retired"),
                                  size(row, "bytes", "pinned"),
                                  count(row, "regions"),
                                  text(row, "path")};
                      }});
}

int show_regions(const Options& options, const RowChoice& choice) {
    return show_list(options, choice,
                     {"regions",
                      {{"REGION", true},
                       {"POOL", true},
                       {"STATE"},
                       {"SIZE", true},
                       {"PAGE", true},
                       {"PAGES", true},
                       {"FREE", true},
                       {"RESERVED", true},
                       {"PUBLISHED", true},
                       {"RETIRED", true},
                       {"PINNED", true},
                       {"SLACK", true},
                       {"HOLDER"}},
                      [](const Json& row) -> std::vector<std::string> {
                          return {count(row, "region"),
                                  count(row, "pool"),
                                  text(row, "state"),
                                  size(row, "bytes"),
                                  size(row, "page_bytes"),
                                  count(row, "page_count"),
                                  count(row, "pages", "free"),
                                  count(row, "pages", "reserved"),
                                  count(row, "pages", "published"),
                                  count(row, "pages", "retired"),
                                  count(row, "pages", "pinned"),
                                  size(row, "slack_bytes"),
                                  holder_text(row)};
                      }});
}

int show_clients(const Options& options, const RowChoice& choice) {
    return show_list(options, choice,
                     {"clients",
                      {{"SLOT", true},
                       {"INSTANCE"},
                       {"STATE"},
                       {"PID", true},
                       {"UID", true},
                       {"AGE", true},
                       {"REGIONS", true},
                       {"CLAIMED", true},
                       {"RESERVED", true},
                       {"LEASES", true},
                       {"PINS", true},
                       {"STORES", true},
                       {"LOOKUPS", true},
                       {"HITS", true}},
                      [](const Json& row) -> std::vector<std::string> {
                          const auto reserved =
                              number(row, "reserved_bytes") + number(row, "quarantined_bytes");
                          const bool is_daemon = row.value("is_daemon", Json(false)) == Json(true);
                          return {count(row, "slot"),
                                  text(row, "instance_id") + (is_daemon ? " (daemon)" : ""),
                                  text(row, "state"),
                                  count(row, "pid"),
                                  count(row, "uid"),
                                  format_age(number(row, "connected_s")),
                                  count(row, "regions"),
                                  size(row, "region_bytes"),
                                  format_size(reserved),
                                  count(row, "leases"),
                                  count(row, "key_pins"),
                                  count(row, "counters", "stores"),
                                  count(row, "counters", "lookups"),
                                  count(row, "counters", "hits")};
                      }});
}

int show_hosts(const Options& options, const RowChoice& choice) {
    return show_list(
        options, choice,
        {"hosts",
         {{"HOST", true}, {"NAME"}, {"STATE"}, {"CLIENTS", true}, {"BEAT", true}, {"ENTERED", true}},
         [](const Json& row) -> std::vector<std::string> {
             const bool own = row.value("own", Json(false)) == Json(true);
             return {count(row, "host"), text(row, "host_id") + (own ? " (this)" : ""),
                     text(row, "state"), count(row, "clients"),
                     count(row, "beat"), count(row, "generation")};
         }});
}

int show_namespaces(const Options& options, const RowChoice& choice) {
    return show_list(options, choice,
                     {"namespaces",
                      {{"NAMESPACE"},
                       {"OBJECTS", true},
                       {"VALUES", true},
                       {"PUBLISHED", true},
                       {"REGIONS", true},
                       {"CLAIMED", true},
                       {"USED", true},
                       {"QUOTA", true},
                       {"CLIENTS", true},
                       {"ACCESS"}},
                      [](const Json& row) -> std::vector<std::string> {
                          const bool limited = number(row, "quota") != 0;
                          return {text(row, "name"),        count(row, "objects"),
                                  size(row, "value_bytes"), size(row, "published_bytes"),
                                  count(row, "regions"),    size(row, "claimed_bytes"),
                                  size(row, "used_bytes"),  limited ? size(row, "quota") : "none",
                                  count(row, "clients"),    access_text(row)};
                      }});
}

namespace {

std::vector<std::string> key_row(const Json& row) {
    const bool whole = row.value("key_complete", Json(true)) == Json(true);
    const auto pins_of = [&](const char* name) {
        return row.contains(name) && row[name].is_number() ? count(row, name) : std::string("?");
    };
    return {size(row, "size"),
            format_age(number(row, "age_s")),
            pins_of("leases"),
            pins_of("key_pins"),
            count(row, "region") + "/" + count(row, "page"),
            text(row, "state"),
            text(row, "key") + (whole ? "" : "... (" + count(row, "key_length") + " bytes)")};
}

}  // namespace

int show_keys(const Options& options, const KeyChoice& choice) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    Table table(
        {{"SIZE", true}, {"AGE", true}, {"LEASES", true}, {"PINS", true}, {"PAGE"}, {"STATE"}, {"KEY"}});
    Json arguments = Json::object();
    if (!choice.prefix.empty()) arguments["prefix_hex"] = wire::hex_of(choice.prefix);
    if (!choice.name_space.empty()) arguments["namespace"] = choice.name_space;
    const std::uint64_t limit = choice.limit;
    if (limit != 0) arguments["limit"] = limit;
    std::uint64_t shown = 0;
    // A domain may have millions of keys: each part is written as it comes.
    const auto asked = daemon->ask_list("keys", "keys", arguments, [&](const Json& rows) {
        std::string part;
        for (const auto& row : rows) {
            if (limit != 0 && shown == limit) break;
            if (options.json)
                part += (shown == 0 ? "{\"keys\": [\n" : ",\n") +
                        row.dump(-1, ' ', false, Json::error_handler_t::replace);
            else
                table.add(key_row(row));
            ++shown;
        }
        print(options.json ? part : table.take());
        return limit == 0 || shown < limit;
    });
    // What the daemon refuses with a namespace is that there is none of this name.
    const bool absent = !asked && !choice.name_space.empty() && asked.error().code == Code::invalid;
    if (!asked) return fail(asked.error(), absent ? exit_no : exit_cannot);
    if (options.json) print(shown == 0 ? "{\"keys\": []}\n" : "\n]}\n");
    return exit_done;
}

int show_ping(const Options& options) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const auto begin = MonotonicClock::now();
    auto answer = daemon->ask("ping", Json::object());
    if (!answer) return fail(answer.error(), exit_cannot);
    const auto us =
        std::chrono::duration_cast<std::chrono::microseconds>(MonotonicClock::now() - begin).count();
    if (options.json) {
        (*answer)["socket"] = daemon->socket();
        (*answer)["round_trip_us"] = us;
        print(answer->dump(2) + "\n");
    } else {
        print("maru " + text(*answer, "version") + " (pid " + count(*answer, "pid") + ") answers at " +
              daemon->socket() + " in " + std::to_string(us) + " us\n");
    }
    return exit_done;
}

}  // namespace maru::ctl
