// marutop without a terminal: tables, CSV and JSON.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>

#include "base/size.hpp"
#include "fields.hpp"
#include "output.hpp"
#include "top/lines.hpp"
#include "top/top.hpp"

namespace maru::ctl::top {
namespace {

constexpr std::size_t plain_width = 100;  // of tables in a file

/// Calls `show` with each look: once, unless an interval or a count asks for more.
int repeat(const Request& request, const std::function<void(const Subject&, bool first)>& show) {
    auto daemon = Daemon::find(request.options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const bool once = request.once || (!request.interval && !request.count);
    std::optional<Look> before;
    for (std::uint64_t number = 1;; ++number) {
        auto look = look_at(*daemon);
        if (!look) return fail(look.error(), exit_cannot);
        show({*look, before ? &*before : nullptr}, number == 1);
        if (once || (request.count && number >= *request.count)) return exit_done;
        before = std::move(*look);
        ::poll(nullptr, 0, static_cast<int>(request.pause().count()));
    }
}

std::string percent_of(std::uint64_t part, std::uint64_t whole) {
    char text[16];
    std::snprintf(text, sizeof text, "%.2f",
                  whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

/// A field of a CSV line, quoted where it must be.
std::string csv_field(const std::string& value) {
    if (value.find_first_of(",\"\n\r") == std::string::npos) return value;
    std::string quoted = "\"";
    for (const char letter : value)
        quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
    return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& fields) {
    std::string line;
    for (const auto& value : fields)
        line += (line.empty() ? "" : ",") + csv_field(value);
    return line + "\n";
}

std::string text_of(const std::vector<Line>& lines) {
    std::string text;
    for (const auto& line : lines)
        text += line.text.substr(0, line.text.find_last_not_of(' ') + 1) + "\n";
    return text;
}

Json json_of_devices(const Look& look) {
    auto rows = Json::array();
    for (const auto& device : look.devices)
        rows.push_back({{"name", device.name},
                        {"dax_path", device.path},
                        {"dax_type", device.type},
                        {"total_bytes", device.total},
                        {"free_bytes", device.free},
                        {"used_bytes", device.used}});
    return rows;
}

Json json_of_instances(const Subject& subject) {
    auto rows = Json::array();
    for (const auto* instance : sorted(subject)) {
        const auto pace = pace_of(*instance, subject.now, subject.before);
        rows.push_back({{"instance_id", instance->name},
                        {"slot", instance->slot},
                        {"regions", instance->regions},
                        {"allocated_bytes", instance->allocated},
                        {"used_bytes", instance->used},
                        {"slack_bytes", instance->slack},
                        {"pinned", instance->pinned()},
                        {"operations_per_second", pace.operations_a_second},
                        {"hit_percent", pace.hit_percent ? Json(*pace.hit_percent) : Json(nullptr)}});
    }
    return rows;
}

void print_json(const Look& look, Json rest) {
    Json json{{"timestamp", top::text_of(look.time)}};
    json.update(rest);
    print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

// -- stats

struct Operation {
    std::string name;
    std::optional<std::uint64_t> count, hits, bytes;
    std::optional<double> average_s, median_s, p99_s;
};

/// The span that a share of all samples stays within, read from a histogram: between the ends of the bucket
/// in which it lies, in proportion. Beyond the last end it is that end.
std::optional<double> quantile(const Json& bounds, const Json& counts, double share) {
    if (!bounds.is_array() || !counts.is_array() || counts.size() != bounds.size() + 1) return {};
    double total = 0;
    for (const auto& bucket : counts)
        total += bucket.get<double>();
    if (total == 0) return {};
    double below = 0, from = 0;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        const double inside = counts[i].get<double>(), end = bounds[i].get<double>();
        if (inside > 0 && below + inside >= share * total)
            return from + (end - from) * (share * total - below) / inside;
        below += inside;
        from = end;
    }
    return from;
}

std::vector<Operation> operations_of(const Json& status) {
    const auto counter = [&](const char* name) { return number(status, "counters", name); };
    std::vector<Operation> operations{
        {"lookup", counter("lookups"), counter("hits"), {}, {}, {}, {}},
        {"store", counter("stores"), {}, number(status, "objects", "value_bytes"), {}, {}, {}},
        {"duplicate", counter("duplicates"), {}, {}, {}, {}, {}},
        {"delete", counter("deletes"), {}, {}, {}, {}, {}},
        {"evict", counter("evictions"), {}, {}, {}, {}, {}}};
    const auto& requests = field(status, "daemon", "requests_by_kind");
    const auto& bounds = field(status, "daemon", "request_bounds_s");
    for (const auto& [kind, request] : requests.items()) {
        Operation operation{
            "request " + kind, number(request, "ok") + number(request, "refused"), {}, {}, {}, {}, {}};
        const auto& seconds = field(request, "seconds");
        if (*operation.count > 0 && seconds.is_number())
            operation.average_s = seconds.get<double>() / static_cast<double>(*operation.count);
        operation.median_s = quantile(bounds, field(request, "buckets"), 0.5);
        operation.p99_s = quantile(bounds, field(request, "buckets"), 0.99);
        operations.push_back(std::move(operation));
    }
    return operations;
}

std::string count_text(const std::optional<std::uint64_t>& value) {
    return value ? std::to_string(*value) : "-";
}

std::string span_text(const std::optional<double>& seconds) {
    if (!seconds) return "-";
    char text[32];
    if (*seconds < 1e-3)
        std::snprintf(text, sizeof text, "%.1f us", *seconds * 1e6);
    else if (*seconds < 1)
        std::snprintf(text, sizeof text, "%.1f ms", *seconds * 1e3);
    else
        std::snprintf(text, sizeof text, "%.1f s", *seconds);
    return text;
}

Json json_of(const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
}
Json json_of(const std::optional<std::uint64_t>& value) {
    return value ? Json(*value) : Json(nullptr);
}

}  // namespace

int run_live(const Request& request) {
    if (!request.once && !request.options.json && ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDIN_FILENO) != 0)
        return run_screen(request);
    return repeat(request, [&](const Subject& subject, bool first) {
        if (request.options.json)
            return print_json(subject.now, {{"devices", json_of_devices(subject.now)},
                                            {"instances", json_of_instances(subject)}});
        print((first ? "" : "\n") + top::text_of(subject.now.time) + "  " + summary(subject).text + "\n\n" +
              text_of(device_lines(subject, plain_width)) + "\n" +
              text_of(instance_lines(subject, plain_width)));
    });
}

int run_pool(const Request& request) {
    return repeat(request, [&](const Subject& subject, bool first) {
        const auto& look = subject.now;
        if (request.options.json) return print_json(look, {{"devices", json_of_devices(look)}});
        if (!request.csv) return print((first ? "" : "\n") + text_of(device_lines(subject, plain_width)));
        if (first) print("timestamp,dax_path,dax_type,total_bytes,free_bytes,used_bytes,usage_pct\n");
        for (const auto& device : look.devices)
            print(csv_line({top::text_of(look.time), device.path, device.type, std::to_string(device.total),
                            std::to_string(device.free), std::to_string(device.used),
                            percent_of(device.used, device.total)}));
    });
}

int run_usage(const Request& request) {
    return repeat(request, [&](const Subject& subject, bool first) {
        const auto& look = subject.now;
        if (request.options.json) return print_json(look, {{"instances", json_of_instances(subject)}});
        if (!request.csv) return print((first ? "" : "\n") + text_of(instance_lines(subject, plain_width)));
        if (first)
            print(
                "timestamp,instance_id,regions,allocated_bytes,used_bytes,slack_bytes,pool_total_bytes,"
                "pool_free_bytes\n");
        for (const auto* instance : sorted(subject))
            print(csv_line({top::text_of(look.time), instance->name, std::to_string(instance->regions),
                            std::to_string(instance->allocated), std::to_string(instance->used),
                            std::to_string(instance->slack), std::to_string(look.total()),
                            std::to_string(look.free())}));
    });
}

int run_stats(const Request& request) {
    return repeat(request, [&](const Subject& subject, bool first) {
        const auto operations = operations_of(subject.now.status);
        if (request.options.json) {
            auto rows = Json::array();
            for (const auto& operation : operations)
                rows.push_back({{"operation", operation.name},
                                {"count", json_of(operation.count)},
                                {"hits", json_of(operation.hits)},
                                {"bytes", json_of(operation.bytes)},
                                {"average_s", json_of(operation.average_s)},
                                {"p50_s", json_of(operation.median_s)},
                                {"p99_s", json_of(operation.p99_s)}});
            return print_json(subject.now, {{"operations", rows}});
        }
        Table table({{"OPERATION"},
                     {"COUNT", true},
                     {"HITS", true},
                     {"BYTES", true},
                     {"AVERAGE", true},
                     {"P50", true},
                     {"P99", true}});
        for (const auto& operation : operations)
            table.add({operation.name, count_text(operation.count), count_text(operation.hits),
                       operation.bytes ? format_size(*operation.bytes) : "-", span_text(operation.average_s),
                       span_text(operation.median_s), span_text(operation.p99_s)});
        print((first ? "" : "\n") + table.take());
    });
}

}  // namespace maru::ctl::top
