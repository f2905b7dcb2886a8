// The daemon and its domain on one screen.
#include <cstdio>

#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

std::string line(const std::string& title, const std::string& value) {
    std::string text = title;
    text.resize(std::max<std::size_t>(12, title.size() + 1), ' ');
    return text + value + "\n";
}

std::string share(std::uint64_t part, std::uint64_t whole) {
    if (whole == 0) return "-";
    char text[16];
    std::snprintf(text, sizeof text, "%.1f%%",
                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

std::string hits_text(const Json& status) {
    const auto lookups = number(status, "counters", "lookups"), hits = number(status, "counters", "hits");
    if (lookups == 0) return "no lookup yet";
    return share(hits, lookups) + " of " + std::to_string(lookups) + " lookups";
}

std::string bytes_table(const Json& status) {
    const auto total = number(status, "bytes", "total");
    Table table({{"BYTES"}, {"SIZE", true}, {"SHARE", true}});
    for (const char* state :
         {"unclaimed", "free", "reserved", "published", "retired", "quarantined", "bad", "slack"}) {
        const auto bytes = number(status, "bytes", state);
        const bool rare = std::string_view(state) == "bad" || std::string_view(state) == "slack";
        if (rare && bytes == 0) continue;
        table.add({state, format_size(bytes), share(bytes, total)});
    }
    table.add({"total", format_size(total), ""});
    table.add({"pinned", size(status, "bytes", "pinned"), share(number(status, "bytes", "pinned"), total)});
    return table.take();
}

std::string pools_table(const Json& status) {
    Table table({{"POOL"}, {"KIND"}, {"SIZE", true}, {"UNCLAIMED", true}, {"PUBLISHED", true}, {"PATH"}});
    for (const auto& pool : field(status, "pools"))
        table.add({text(pool, "name"), text(pool, "kind"), size(pool, "size"),
                   size(pool, "bytes", "unclaimed"), size(pool, "bytes", "published"), text(pool, "path")});
    return table.take();
}

std::string warnings_text(const Json& status) {
    std::string lines;
    for (const auto& warning : field(status, "warnings"))
        lines += "warning: " + text(warning, "text") + "\n         remedy: " + text(warning, "remedy") + "\n";
    return lines;
}

std::string status_text(const Json& status) {
    const auto quarantined = number(status, "clients", "quarantined");
    std::string lines =
        line("daemon", "maru " + text(status, "daemon", "version") + ", pid " +
                           count(status, "daemon", "pid") + ", up " +
                           format_age(number(status, "daemon", "uptime_s")) + ", on " +
                           text(status, "daemon", "event_backend")) +
        line("log", "level " + text(status, "daemon", "log_level") +
                        (field(status, "daemon", "trace") == Json(true) ? ", requests traced" : "")) +
        line("socket", text(status, "daemon", "socket")) +
        line("metrics", field(status, "daemon", "metrics").is_string()
                            ? "http://" + text(status, "daemon", "metrics") + "/metrics"
                            : "none") +
        line("domain", text(status, "domain", "uuid") + ", coherence " + text(status, "domain", "coherence") +
                           ", checksums " + text(status, "domain", "checksum")) +
        line("objects", count(status, "objects", "count") + " of at most " +
                            count(status, "objects", "limit") + ", values " +
                            size(status, "objects", "value_bytes")) +
        line("hit rate", hits_text(status)) +
        line("stores",
             count(status, "counters", "stores") + ", duplicates " + count(status, "counters", "duplicates") +
                 ", deletes " + count(status, "counters", "deletes") + ", evictions " +
                 count(status, "counters", "evictions") + " (" + count(status, "evictions", "demand") +
                 " on demand, " + count(status, "evictions", "watermark") + " ahead of it, " +
                 count(status, "evictions", "admin") + " by administrators)") +
        line("clients", count(status, "clients", "active") + " active" +
                            (quarantined == 0 ? "" : ", " + std::to_string(quarantined) + " quarantined") +
                            ", " + count(status, "clients", "slots") + " slots") +
        line("regions", count(status, "regions") + ", unit " + size(status, "domain", "region_unit")) +
        line("pins",
             count(status, "pins", "leases") + " leases, " + count(status, "pins", "key_pins") + " key pins");
    return lines + "\n" + pools_table(status) + "\n" + bytes_table(status);
}

}  // namespace

int show_status(const Options& options) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const auto status = daemon->ask_complete("status", Json::object());
    if (!status) return fail(status.error(), exit_cannot);
    if (options.json) {
        print(status->dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        return exit_done;
    }
    const auto warnings = warnings_text(*status);
    print(status_text(*status) + (warnings.empty() ? "" : "\n" + warnings));
    return exit_done;
}

}  // namespace maru::ctl
