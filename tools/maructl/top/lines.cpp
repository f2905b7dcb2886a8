#include "top/lines.hpp"

#include <algorithm>
#include <cstdio>

#include "base/size.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl::top {
namespace {

constexpr std::size_t name_width_least = 8, bar_width_least = 6;

std::string decimal(double value, int digits) {
    char text[48];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string rate(double value) {
    if (value >= 1e9) return decimal(value / 1e9, 1) + "G";
    if (value >= 1e6) return decimal(value / 1e6, 1) + "M";
    if (value >= 1e4) return decimal(value / 1e3, 1) + "k";
    return decimal(value, value < 100 ? 1 : 0);
}

std::string percent(const std::optional<double>& value) {
    return value ? decimal(*value, 1) : "-";
}

std::string change_text(std::int64_t bytes) {
    if (bytes == 0) return "0 B";
    const auto size = static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes);
    return (bytes < 0 ? "-" : "+") + format_size(size);
}

std::string bar(std::uint64_t used, std::uint64_t total, std::size_t width) {
    const std::size_t inside = width - 2;
    const double share = total == 0 ? 0 : static_cast<double>(used) / static_cast<double>(total);
    auto filled = static_cast<std::size_t>(share * static_cast<double>(inside) + 0.5);
    if (used > 0 && filled == 0) filled = 1;
    filled = std::min(filled, inside);
    return "[" + std::string(filled, '#') + std::string(inside - filled, '-') + "]";
}

/// Cells of fixed widths behind one that takes what is left.
std::string row(const std::string& name, std::size_t name_width,
                const std::vector<std::pair<std::string, std::size_t>>& cells) {
    std::string text = fit(name, name_width);
    for (const auto& [cell, width] : cells)
        text += " " + fit(cell, width, true);
    return text;
}

}  // namespace

Load load_of(std::uint64_t used, std::uint64_t total) {
    if (total == 0) return Load::none;
    const double share = static_cast<double>(used) / static_cast<double>(total);
    return share >= 0.9 ? Load::full : share >= 0.7 ? Load::high : Load::low;
}

const char* name_of(Sort sort) {
    switch (sort) {
        case Sort::allocated:
            return "allocated";
        case Sort::used:
            return "used";
        case Sort::slack:
            return "slack";
        case Sort::pinned:
            return "pinned";
        case Sort::operations:
            return "ops/s";
        case Sort::hits:
            return "hit %";
        case Sort::name:
            return "name";
    }
    return "?";
}

Sort next(Sort sort) {
    return sort == Sort::name ? Sort::allocated : static_cast<Sort>(static_cast<int>(sort) + 1);
}

std::vector<const Instance*> sorted(const Subject& subject) {
    struct Entry {
        const Instance* instance;
        double value;
    };
    const auto value_of = [&](const Instance& instance) {
        switch (subject.sort) {
            case Sort::allocated:
                return static_cast<double>(instance.allocated);
            case Sort::used:
                return static_cast<double>(instance.used);
            case Sort::slack:
                return static_cast<double>(instance.slack);
            case Sort::pinned:
                return static_cast<double>(instance.pinned());
            case Sort::operations:
                return pace_of(instance, subject.now, subject.before).operations_a_second;
            case Sort::hits:
                return pace_of(instance, subject.now, subject.before).hit_percent.value_or(-1);
            case Sort::name:
                break;
        }
        return 0.0;
    };
    std::vector<Entry> entries;
    for (const auto& instance : subject.now.instances)
        entries.push_back({&instance, value_of(instance)});
    std::sort(entries.begin(), entries.end(), [](const Entry& left, const Entry& right) {
        if (left.value != right.value) return left.value > right.value;
        if (left.instance->name != right.instance->name) return left.instance->name < right.instance->name;
        return left.instance->slot < right.instance->slot;
    });
    std::vector<const Instance*> order;
    for (const auto& entry : entries)
        order.push_back(entry.instance);
    return order;
}

Line summary(const Subject& subject) {
    const auto& status = subject.now.status;
    const auto lookups = number(status, "counters", "lookups"), hits = number(status, "counters", "hits");
    const auto used = subject.now.total() - subject.now.free();
    std::string text = format_size(used) + " of " + format_size(subject.now.total()) + " in use, " +
                       count(status, "objects", "count") + " objects, " + count(status, "clients", "active") +
                       " clients, hits ";
    text += lookups == 0 ? "-"
                         : decimal(100.0 * static_cast<double>(hits) / static_cast<double>(lookups), 1) + "%";
    const auto warnings = field(status, "warnings").size();
    if (warnings > 0) text += ", " + std::to_string(warnings) + " warning(s): maructl status";
    return {text, load_of(used, subject.now.total())};
}

std::vector<Line> device_lines(const Subject& subject, std::size_t width) {
    constexpr std::size_t type = 7, size = 10, change = 11;
    constexpr std::size_t fixed = type + 3 * size + change + 6;
    const std::size_t left = width > fixed ? width - fixed : 0;
    const std::size_t bar_width = std::clamp<std::size_t>(left / 2, bar_width_least, 40);
    const std::size_t name_width = std::max(name_width_least, left - std::min(left, bar_width));
    const auto cells = [&](const std::string& name, const std::string& kind, const std::string& used,
                           const std::string& free, const std::string& total, const std::string& more,
                           const std::string& bar_text) {
        return fit(fit(name, name_width) + " " + fit(kind, type) + " " + fit(used, size, true) + " " +
                       fit(free, size, true) + " " + fit(total, size, true) + " " + fit(more, change, true) +
                       " " + bar_text,
                   width);
    };
    std::vector<Line> lines;
    lines.push_back({cells("DEVICES", "TYPE", "USED", "FREE", "TOTAL", "CHANGE", ""), Load::none, true});
    for (const auto& device : subject.now.devices)
        lines.push_back({cells(device.name, device.type, format_size(device.used), format_size(device.free),
                               format_size(device.total), change_text(change_of(device, subject.before)),
                               bar(device.used, device.total, bar_width)),
                         load_of(device.used, device.total)});
    return lines;
}

std::vector<Line> instance_lines(const Subject& subject, std::size_t width) {
    constexpr std::size_t regions = 7, size = 10, pinned = 6, operations = 8, hits = 6;
    constexpr std::size_t fixed = regions + 3 * size + pinned + operations + hits + 7;
    const std::size_t name_width = std::max(name_width_least, width > fixed ? width - fixed : 0);
    std::vector<Line> lines;
    lines.push_back({fit(row("INSTANCES", name_width,
                             {{"REGIONS", regions},
                              {"ALLOCATED", size},
                              {"USED", size},
                              {"SLACK", size},
                              {"PINNED", pinned},
                              {"OPS/S", operations},
                              {"HIT %", hits}}),
                         width),
                     Load::none, true});
    for (const auto* instance : sorted(subject)) {
        const auto pace = pace_of(*instance, subject.now, subject.before);
        lines.push_back({fit(row(instance->name, name_width,
                                 {{std::to_string(instance->regions), regions},
                                  {format_size(instance->allocated), size},
                                  {format_size(instance->used), size},
                                  {format_size(instance->slack), size},
                                  {std::to_string(instance->pinned()), pinned},
                                  {rate(pace.operations_a_second), operations},
                                  {percent(pace.hit_percent), hits}}),
                             width),
                         load_of(instance->used, instance->allocated)});
    }
    return lines;
}

std::vector<Line> lines_of(const Instance& instance, const Subject& subject, std::size_t width) {
    const auto pace = pace_of(instance, subject.now, subject.before);
    std::vector<Line> lines;
    lines.push_back({fit("INSTANCE " + instance.name, width), Load::none, true});
    const auto fact = [&](const std::string& title, const std::string& value, Load load = Load::none) {
        lines.push_back({fit(fit(title, 14) + value, width), load});
    };
    fact("state", instance.state + ", slot " + std::to_string(instance.slot) + ", connected for " +
                      format_age(instance.connected_s));
    fact("process", std::to_string(instance.pid) + " of user " + std::to_string(instance.uid));
    fact("namespace", instance.name_space);
    fact("regions", std::to_string(instance.regions));
    fact("allocated", format_size(instance.allocated));
    fact("used", format_size(instance.used), load_of(instance.used, instance.allocated));
    fact("slack", format_size(instance.slack));
    fact("leases", std::to_string(instance.leases));
    fact("key pins", std::to_string(instance.key_pins));
    fact("lookups", std::to_string(instance.lookups) + ", " + std::to_string(instance.hits) + " hits");
    fact("stores", std::to_string(instance.stores) + ", " + std::to_string(instance.duplicates) +
                       " of keys that were there");
    fact("deletes", std::to_string(instance.deletes));
    fact("evictions", std::to_string(instance.evictions));
    fact("ops/s", rate(pace.operations_a_second));
    fact("hit %", percent(pace.hit_percent));
    return lines;
}

std::string fit(const std::string& text, std::size_t width, bool right) {
    const auto is_begin = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
    const auto columns = static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_begin));
    if (columns <= width) {
        const std::string space(width - columns, ' ');
        return right ? space + text : text + space;
    }
    if (width == 0) return {};
    std::string cut;
    std::size_t taken = 0;
    for (const char byte : text) {
        if (is_begin(byte) && taken++ == width - 1) break;
        cut += byte;
    }
    return cut + "~";
}

}  // namespace maru::ctl::top
