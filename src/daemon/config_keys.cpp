#include "daemon/config_keys.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>
#include <initializer_list>
#include <limits>

#include "base/log.hpp"
#include "base/size.hpp"
#include "daemon/listen_address.hpp"
#include "daemon/principals.hpp"

namespace maru::daemon {
namespace {

using pool::PoolConfig;

bool read_text(const toml::node& value, std::string& out) {
    const auto* text = value.as_string();
    if (text == nullptr || text->get().find('\0') != std::string::npos) return false;
    out = text->get();
    return true;
}

bool read_path(const toml::node& value, std::string& out) {
    std::string path;
    if (!read_text(value, path) || (!path.empty() && path.front() != '/')) return false;
    out = path;
    return true;
}

/// Also the two ways to name devices without a path.
bool read_pool_path(const toml::node& value, std::string& out) {
    std::string path;
    if (!read_text(value, path)) return false;
    if (path != "any" && path.compare(0, 5, "uuid:") != 0) return read_path(value, out);
    out = path;
    return true;
}

template <class Number>
bool read_count(const toml::node& value, Number& out, std::uint64_t least, std::uint64_t most) {
    const auto* number = value.as_integer();
    if (number == nullptr || number->get() < 0) return false;
    const auto count = static_cast<std::uint64_t>(number->get());
    if (count < least || count > most || count > std::numeric_limits<Number>::max()) return false;
    out = static_cast<Number>(count);
    return true;
}

bool read_size(const toml::node& value, std::uint64_t& out) {
    if (value.is_integer()) return read_count(value, out, 0, std::uint64_t{1} << 62);
    const auto* text = value.as_string();
    if (text == nullptr) return false;
    const auto size = parse_size(text->get());
    if (size) out = *size;
    return bool(size);
}

bool read_duration(const toml::node& value, std::chrono::milliseconds& out) {
    constexpr double seconds_max = 10.0 * 365 * 86400;
    if (value.is_string()) {
        const auto span = parse_duration(value.as_string()->get());
        if (!span || *span > std::chrono::milliseconds(static_cast<std::int64_t>(seconds_max * 1e3)))
            return false;
        out = *span;
        return true;
    }
    const auto seconds = value.value<double>();
    if (!value.is_number() || !seconds || !(*seconds >= 0 && *seconds <= seconds_max)) return false;
    out = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1e3));
    return true;
}

bool read_percent(const toml::node& value, double& out) {
    double percent = -1;
    if (const auto* text = value.as_string()) {
        const auto& letters = text->get();
        const auto [end, problem] = std::from_chars(letters.data(), letters.data() + letters.size(), percent,
                                                    std::chars_format::fixed);
        if (problem != std::errc{} || std::string_view(end) != "%") return false;
    } else if (value.is_number()) {
        percent = *value.value<double>();
    }
    if (!(percent >= 0 && percent <= 100)) return false;
    out = percent;
    return true;
}

/// Octal is asked for by its spelling: 660 in decimal is another mode than the one that was meant.
bool read_mode(const toml::node& value, std::uint32_t& out) {
    std::uint32_t mode = 0;
    if (const auto* text = value.as_string()) {
        const auto& digits = text->get();
        const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), mode, 8);
        if (problem != std::errc{} || end != digits.data() + digits.size()) return false;
    } else if (const auto* number = value.as_integer();
               number != nullptr &&
               (number->flags() & toml::value_flags::format_as_octal) == toml::value_flags::format_as_octal) {
        if (!read_count(value, mode, 0, 0777)) return false;
    } else {
        return false;
    }
    if (mode > 0777 || (mode & 0600) != 0600) return false;
    out = mode;
    return true;
}

template <class Value>
struct Choice {
    const char* word;
    Value value;
};

template <class Value, std::size_t Count>
bool read_choice(const toml::node& value, Value& out, const Choice<Value> (&choices)[Count]) {
    const auto* text = value.as_string();
    if (text == nullptr) return false;
    for (const auto& choice : choices) {
        if (text->get() != choice.word) continue;
        out = choice.value;
        return true;
    }
    return false;
}

template <class Value, std::size_t Count>
std::string show_choice(const Value& value, const Choice<Value> (&choices)[Count]) {
    for (const auto& choice : choices)
        if (choice.value == value) return quoted(choice.word);
    return quoted("unknown");
}

bool read_word(const toml::node& value, std::string& out, std::initializer_list<const char*> words) {
    const auto* text = value.as_string();
    if (text == nullptr || std::find(words.begin(), words.end(), text->get()) == words.end()) return false;
    out = text->get();
    return true;
}

constexpr Choice<pool::HugePages> huge_pages_choices[] = {{"never", pool::HugePages::never},
                                                          {"advise", pool::HugePages::advise},
                                                          {"require", pool::HugePages::require}};
constexpr Choice<pool::Prefault> prefault_choices[] = {
    {"none", pool::Prefault::none}, {"background", pool::Prefault::background}, {"all", pool::Prefault::all}};
constexpr Choice<pool::Placement> placement_choices[] = {{"bind", pool::Placement::bind},
                                                         {"preferred", pool::Placement::preferred},
                                                         {"interleave", pool::Placement::interleave}};
constexpr Choice<table::ChecksumMode> checksum_choices[] = {{"off", table::ChecksumMode::off},
                                                            {"publish", table::ChecksumMode::publish},
                                                            {"verify", table::ChecksumMode::verify}};
constexpr Choice<table::Coherence> coherence_choices[] = {{"local", table::Coherence::local},
                                                          {"hardware", table::Coherence::hardware}};

/// A daemon beats once a second at least: less than three beats say nothing.
bool read_grace(const toml::node& value, std::chrono::milliseconds& out) {
    return read_duration(value, out) && out >= std::chrono::seconds(3) && out <= std::chrono::hours(24);
}

bool read_bool(const toml::node& value, bool& out) {
    if (!value.is_boolean()) return false;
    out = value.as_boolean()->get();
    return true;
}

bool read_host_id(const toml::node& value, std::string& out) {
    std::string text;
    const auto allowed = [](char letter) {
        return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
               (letter >= 'A' && letter <= 'Z') || letter == '-' || letter == '_' || letter == '.';
    };
    if (!read_text(value, text) || text.size() > 64 || !std::all_of(text.begin(), text.end(), allowed))
        return false;
    out = text;
    return true;
}

bool read_log_level(const toml::node& value, std::string& out) {
    std::string text;
    if (!read_text(value, text)) return false;
    const auto level = parse_log_level(text);
    if (level) out = *level;
    return bool(level);
}

bool read_listen(const toml::node& value, std::string& out) {
    std::string address;
    if (!read_text(value, address) || (!address.empty() && !parse_listen_address(address))) return false;
    out = address;
    return true;
}

bool read_region_size(const toml::node& value, std::uint64_t& out) {
    std::uint64_t size = 0;
    if (!read_size(value, size)) return false;
    if (size != 0 && (size < 4 * KiB || size > TiB || !std::has_single_bit(size))) return false;
    out = size;
    return true;
}

bool read_min_page(const toml::node& value, std::uint64_t& out) {
    std::uint64_t size = 0;
    if (!read_size(value, size) || size < table::page_align || size > GiB || size % table::page_align != 0)
        return false;
    out = size;
    return true;
}

bool read_pool_name(const toml::node& value, std::string& out) {
    std::string name;
    if (!read_text(value, name) || !pool::check_name(name)) return false;
    out = name;
    return true;
}

bool read_kind(const toml::node& value, pool::Kind& out) {
    std::string name;
    if (!read_text(value, name)) return false;
    const auto kind = pool::parse_kind(name);
    if (!kind || !pool::is_built(*kind)) return false;
    out = *kind;
    return true;
}

bool read_page_size(const toml::node& value, std::uint64_t& out) {
    std::uint64_t size = 0;
    if (!read_size(value, size) || (size != 0 && (size < 64 * KiB || !std::has_single_bit(size))))
        return false;
    out = size;
    return true;
}

bool read_nodes(const toml::node& value, std::vector<std::uint32_t>& out) {
    constexpr std::uint64_t node_max = 1023;
    std::vector<std::uint32_t> nodes;
    const auto take = [&](const toml::node& node) {
        std::uint32_t number = 0;
        if (!read_count(node, number, 0, node_max)) return false;
        nodes.push_back(number);
        return true;
    };
    if (const auto* list = value.as_array()) {
        for (const auto& node : *list)
            if (!take(node)) return false;
    } else if (!take(value)) {
        return false;
    }
    out = nodes;
    return true;
}

bool read_namespace_name(const toml::node& value, std::string& out) {
    std::string name;
    if (!read_text(value, name) || !table::check_namespace_name(name)) return false;
    out = name;
    return true;
}

/// One user or group, as a name or a number.
Result<std::uint32_t> principal_of(Principal kind, const toml::node& value) {
    if (const auto* number = value.as_integer()) return parse_principal(kind, std::to_string(number->get()));
    std::string text;
    if (read_text(value, text)) return parse_principal(kind, text);
    return Error{Code::invalid, "a member is neither a name nor a number"};
}

bool read_members(const toml::node& value, Principal kind, std::vector<std::uint32_t>& out) {
    const auto* list = value.as_array();
    if (list == nullptr) return false;
    std::vector<std::uint32_t> members;
    for (const auto& node : *list) {
        const auto member = principal_of(kind, node);
        if (!member) return false;
        if (std::find(members.begin(), members.end(), *member) == members.end()) members.push_back(*member);
    }
    out = members;
    return true;
}

bool read_pool_size(const toml::node& value, std::uint64_t& out) {
    std::uint64_t size = 0;
    if (!read_size(value, size) || size < 4 * KiB) return false;
    out = size;
    return true;
}

std::string number(std::uint64_t value) {
    return std::to_string(value);
}

/// The shortest text that reads back as the same size.
std::string size_text(std::uint64_t bytes) {
    constexpr const char* units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    if (bytes == 0) return "0";
    int unit = 0;
    for (; unit < 4 && bytes % 1024 == 0; ++unit)
        bytes /= 1024;
    return unit == 0 ? number(bytes) : quoted(number(bytes) + units[unit]);
}

std::string duration_text(std::chrono::milliseconds span) {
    if (span.count() % 1000 == 0)
        return quoted(number(static_cast<std::uint64_t>(span.count() / 1000)) + "s");
    return quoted(number(static_cast<std::uint64_t>(span.count())) + "ms");
}

std::string percent_text(double percent) {
    char text[32];
    const auto [end, problem] = std::to_chars(text, text + sizeof text, percent, std::chars_format::fixed);
    return quoted(std::string(text, problem == std::errc{} ? end : text) + "%");
}

std::string mode_text(std::uint32_t mode) {
    char text[16];
    std::snprintf(text, sizeof text, "0%03o", mode);
    return quoted(text);
}

std::string list_text(const std::vector<std::uint32_t>& numbers) {
    std::string text;
    for (const auto one : numbers)
        text += (text.empty() ? "" : ", ") + number(one);
    return "[" + text + "]";
}

std::string nodes_text(const std::vector<std::uint32_t>& nodes) {
    return nodes.size() == 1 ? number(nodes.front()) : list_text(nodes);
}

std::string range(std::uint64_t least, std::uint64_t most) {
    return "a number from " + number(least) + " to " + number(most);
}

constexpr std::uint64_t clients_least = 2, clients_most = table::max_clients - 1;
constexpr std::uint64_t objects_most = table::max_records - 2 * table::records_per_granule - 1;
constexpr std::uint64_t pins_least = table::pins_per_chunk;
constexpr std::uint64_t pins_most = std::uint64_t{table::max_pin_chunks} * table::pins_per_chunk;

const char* const path_allowed = "an absolute path, or \"\" for the default";
const char* const size_allowed = "a size: \"4GiB\", \"500M\" or a number of bytes";

using Node = const toml::node&;

const ConfigKey<Config> keys[] = {
    {"daemon.socket", path_allowed, [](Node v, Config& c) { return read_path(v, c.daemon.socket); },
     [](const Config& c) { return quoted(c.daemon.socket); }},
    {"daemon.socket_mode", "an octal mode that lets the owner read and write: \"0660\" or 0o660",
     [](Node v, Config& c) { return read_mode(v, c.daemon.socket_mode); },
     [](const Config& c) { return mode_text(c.daemon.socket_mode); }},
    {"daemon.group", "the name of a group",
     [](Node v, Config& c) { return read_text(v, c.daemon.group) && !c.daemon.group.empty(); },
     [](const Config& c) { return quoted(c.daemon.group); }},
    {"daemon.log_level", "trace, debug, info, warn or error",
     [](Node v, Config& c) { return read_log_level(v, c.daemon.log_level); },
     [](const Config& c) { return quoted(c.daemon.log_level); }},
    {"daemon.log_file", "an absolute path, or \"\" for stderr",
     [](Node v, Config& c) { return read_path(v, c.daemon.log_file); },
     [](const Config& c) { return quoted(c.daemon.log_file); }},
    {"daemon.host_id", "up to 64 letters, digits, '-', '_' and '.', or \"\" for the machine-id",
     [](Node v, Config& c) { return read_host_id(v, c.daemon.host_id); },
     [](const Config& c) { return quoted(c.daemon.host_id); }},
    {"daemon.event_backend", "auto, io_uring or epoll",
     [](Node v, Config& c) {
         return read_word(v, c.daemon.event_backend, {"auto", "io_uring", "epoll"});
     },
     [](const Config& c) { return quoted(c.daemon.event_backend); }},
    {"control.pool", "the name of a pool, or \"\" for the first",
     [](Node v, Config& c) { return read_text(v, c.control.pool); },
     [](const Config& c) { return quoted(c.control.pool); }},
    {"control.max_objects", range(0, objects_most) + " (0: by the size of the pools)",
     [](Node v, Config& c) { return read_count(v, c.control.max_objects, 0, objects_most); },
     [](const Config& c) { return number(c.control.max_objects); }},
    {"control.max_clients", range(clients_least, clients_most),
     [](Node v, Config& c) { return read_count(v, c.control.max_clients, clients_least, clients_most); },
     [](const Config& c) { return number(c.control.max_clients); }},
    {"control.max_hosts", range(1, table::max_hosts),
     [](Node v, Config& c) { return read_count(v, c.control.max_hosts, 1, table::max_hosts); },
     [](const Config& c) { return number(c.control.max_hosts); }},
    {"control.max_namespaces", range(1, table::max_namespaces),
     [](Node v, Config& c) { return read_count(v, c.control.max_namespaces, 1, table::max_namespaces); },
     [](const Config& c) { return number(c.control.max_namespaces); }},
    {"control.max_pins", range(pins_least, pins_most),
     [](Node v, Config& c) { return read_count(v, c.control.max_pins, pins_least, pins_most); },
     [](const Config& c) { return number(c.control.max_pins); }},
    {"control.region_size", "a power of two from 4 KiB to 1 TiB, or 0 for a 64th of the pools",
     [](Node v, Config& c) { return read_region_size(v, c.control.region_size); },
     [](const Config& c) { return size_text(c.control.region_size); }},
    {"control.max_pool_bytes", std::string(size_allowed) + ", or 0 for twice the pools of the format",
     [](Node v, Config& c) { return read_size(v, c.control.max_pool_bytes); },
     [](const Config& c) { return size_text(c.control.max_pool_bytes); }},
    {"control.min_page", "a multiple of 4 KiB up to 1 GiB",
     [](Node v, Config& c) { return read_min_page(v, c.control.min_page); },
     [](const Config& c) { return size_text(c.control.min_page); }},
    {"control.key_pin_ttl", "a duration up to ten years (\"300s\", \"500ms\" or seconds), 0 for no end",
     [](Node v, Config& c) { return read_duration(v, c.control.key_pin_ttl); },
     [](const Config& c) { return duration_text(c.control.key_pin_ttl); }},
    {"control.coherence", "local (one host) or hardware (hosts whose caches the fabric keeps coherent)",
     [](Node v, Config& c) { return read_choice(v, c.control.coherence, coherence_choices); },
     [](const Config& c) { return show_choice(c.control.coherence, coherence_choices); }},
    {"eviction.policy", "clock or none",
     [](Node v, Config& c) {
         return read_word(v, c.eviction.policy, {"clock", "none"});
     },
     [](const Config& c) { return quoted(c.eviction.policy); }},
    {"eviction.low_free", "a percentage from 0 to 100: \"2%\"",
     [](Node v, Config& c) { return read_percent(v, c.eviction.low_free_percent); },
     [](const Config& c) { return percent_text(c.eviction.low_free_percent); }},
    {"eviction.high_free", "a percentage from 0 to 100: \"5%\"",
     [](Node v, Config& c) { return read_percent(v, c.eviction.high_free_percent); },
     [](const Config& c) { return percent_text(c.eviction.high_free_percent); }},
    {"checksum.mode", "off, publish or verify",
     [](Node v, Config& c) { return read_choice(v, c.checksum.mode, checksum_choices); },
     [](const Config& c) { return show_choice(c.checksum.mode, checksum_choices); }},
    {"host.grace", "a duration from 3 seconds to a day",
     [](Node v, Config& c) { return read_grace(v, c.host.grace); },
     [](const Config& c) { return duration_text(c.host.grace); }},
    {"metrics.listen",
     "an address and a port by number (\"127.0.0.1:9464\", \"[::1]:9464\"), or \"\" for none",
     [](Node v, Config& c) { return read_listen(v, c.metrics.listen); },
     [](const Config& c) { return quoted(c.metrics.listen); }},
};

const ConfigKey<PoolConfig> keys_of_pool[] = {
    {"pool.name", "1 to " + number(pool::name_length_max) + " letters, digits, '-', '_' and '.'",
     [](Node v, PoolConfig& p) { return read_pool_name(v, p.name); },
     [](const PoolConfig& p) { return quoted(p.name); }},
    {"pool.kind", pool::built_kinds() + " (the kinds of this build)",
     [](Node v, PoolConfig& p) { return read_kind(v, p.kind); },
     [](const PoolConfig& p) { return quoted(pool::name_of(p.kind)); }},
    {"pool.path", std::string(path_allowed) + ", of kind devdax also \"uuid:...\" and \"any\"",
     [](Node v, PoolConfig& p) { return read_pool_path(v, p.path); },
     [](const PoolConfig& p) { return quoted(p.path); }},
    {"pool.size", std::string(size_allowed) + ", at least 4 KiB",
     [](Node v, PoolConfig& p) { return read_pool_size(v, p.size); },
     [](const PoolConfig& p) { return size_text(p.size); }},
    {"pool.page_size", "a power of two from 64 KiB on, as a size (\"2MiB\", \"1GiB\"), or 0 for 2 MiB",
     [](Node v, PoolConfig& p) { return read_page_size(v, p.page_size); },
     [](const PoolConfig& p) { return size_text(p.page_size); }},
    {"pool.numa_node", "the number of a node, or several as [0, 1]",
     [](Node v, PoolConfig& p) { return read_nodes(v, p.numa_nodes); },
     [](const PoolConfig& p) { return nodes_text(p.numa_nodes); }},
    {"pool.placement", "bind, preferred or interleave",
     [](Node v, PoolConfig& p) { return read_choice(v, p.placement, placement_choices); },
     [](const PoolConfig& p) { return show_choice(p.placement, placement_choices); }},
    {"pool.hugepages", "never, advise or require",
     [](Node v, PoolConfig& p) { return read_choice(v, p.huge_pages, huge_pages_choices); },
     [](const PoolConfig& p) { return show_choice(p.huge_pages, huge_pages_choices); }},
    {"pool.prefault", "none, background or all",
     [](Node v, PoolConfig& p) { return read_choice(v, p.prefault, prefault_choices); },
     [](const PoolConfig& p) { return show_choice(p.prefault, prefault_choices); }},
    {"pool.reserve", "true or false", [](Node v, PoolConfig& p) { return read_bool(v, p.reserve); },
     [](const PoolConfig& p) { return std::string(p.reserve ? "true" : "false"); }},
    {"pool.allow_page_cache", "true or false",
     [](Node v, PoolConfig& p) { return read_bool(v, p.allow_page_cache); },
     [](const PoolConfig& p) { return std::string(p.allow_page_cache ? "true" : "false"); }},
};

const char* const users_allowed = "a list of users by name or number: [\"alice\", 1001]";
const char* const groups_allowed = "a list of groups by name or number: [\"engines\", 2000]";

const ConfigKey<NamespaceConfig> keys_of_namespace[] = {
    {"namespace.name",
     "1 to " + number(table::namespace_name_max) + " bytes without blanks and control characters",
     [](Node v, NamespaceConfig& n) { return read_namespace_name(v, n.name); },
     [](const NamespaceConfig& n) { return quoted(n.name); }},
    {"namespace.quota", std::string(size_allowed) + ", or 0 for none",
     [](Node v, NamespaceConfig& n) { return read_size(v, n.policy.quota); },
     [](const NamespaceConfig& n) { return size_text(n.policy.quota); }},
    {"namespace.uids", users_allowed,
     [](Node v, NamespaceConfig& n) { return read_members(v, Principal::user, n.policy.rules.users); },
     [](const NamespaceConfig& n) { return list_text(n.policy.rules.users); }},
    {"namespace.gids", groups_allowed,
     [](Node v, NamespaceConfig& n) { return read_members(v, Principal::group, n.policy.rules.groups); },
     [](const NamespaceConfig& n) { return list_text(n.policy.rules.groups); }},
    {"namespace.readonly_gids", groups_allowed,
     [](Node v, NamespaceConfig& n) { return read_members(v, Principal::group, n.policy.rules.readers); },
     [](const NamespaceConfig& n) { return list_text(n.policy.rules.readers); }},
};

const std::string keys_of_later[] = {"listen.tcp", "listen.key_file", "remote"};

std::string last_part(const std::string& name) {
    return name.substr(name.rfind('.') + 1);
}
std::string first_part(const std::string& name) {
    return name.substr(0, name.find('.'));
}

}  // namespace

std::span<const ConfigKey<Config>> config_keys() {
    return keys;
}
std::span<const ConfigKey<PoolConfig>> pool_keys() {
    return keys_of_pool;
}
std::span<const ConfigKey<NamespaceConfig>> namespace_keys() {
    return keys_of_namespace;
}
std::optional<std::string> wrong_member(const std::string& key, const toml::node& value) {
    const bool users = key == "namespace.uids";
    const auto* list = value.as_array();
    if (list == nullptr || !(users || key == "namespace.gids" || key == "namespace.readonly_gids")) return {};
    for (const auto& node : *list)
        if (const auto member = principal_of(users ? Principal::user : Principal::group, node); !member)
            return member.error().text;
    return {};
}
std::span<const std::string> later_keys() {
    return keys_of_later;
}

std::size_t edit_distance(const std::string& left, const std::string& right) {
    std::vector<std::vector<std::size_t>> cost(left.size() + 1, std::vector<std::size_t>(right.size() + 1));
    for (std::size_t i = 0; i <= left.size(); ++i) {
        for (std::size_t j = 0; j <= right.size(); ++j) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            const bool same = left[i - 1] == right[j - 1];
            cost[i][j] =
                std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0u : 1u)});
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
                cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[left.size()][right.size()];
}

std::string nearest_key(const std::string& unknown) {
    constexpr std::size_t length_max = 100;  // a longer one is near to nothing, and costs its square
    if (unknown.size() > length_max) return {};
    std::string nearest;
    std::size_t least = std::max<std::size_t>(3, last_part(unknown).size() / 2) + 1;
    const auto look = [&](const std::string& known) {
        const std::size_t elsewhere = first_part(known) == first_part(unknown) ? 0 : 1;
        const auto distance = std::min(edit_distance(unknown, known),
                                       edit_distance(last_part(unknown), last_part(known)) + elsewhere);
        if (distance >= least) return;
        least = distance;
        nearest = known;
    };
    for (const auto& key : keys)
        look(key.name);
    for (const auto& key : keys_of_pool)
        look(key.name);
    for (const auto& key : keys_of_namespace)
        look(key.name);
    return nearest;
}

std::string nearest_table(const std::string& unknown) {
    std::string nearest;
    std::size_t least = 4;  // a name with more than three wrong letters is another name
    const auto look = [&](const std::string& key) {
        const std::string table(first_part(key));
        const auto distance = edit_distance(unknown, table);
        if (unknown.size() > 100 || distance >= least) return;
        least = distance;
        const bool is_list = table == "pool" || table == "namespace";
        nearest = is_list ? "[[" + table + "]]" : "[" + table + "]";
    };
    for (const auto& key : keys)
        look(key.name);
    look("pool.");
    look("namespace.");
    return nearest;
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char letter : text) {
        const auto code = static_cast<unsigned char>(letter);
        if (letter == '"' || letter == '\\') {
            out += '\\';
            out += letter;
        } else if (code < 0x20 || code == 0x7f) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04X", static_cast<unsigned>(code));
            out += escaped;
        } else {
            out += letter;
        }
    }
    return out + "\"";
}

}  // namespace maru::daemon
