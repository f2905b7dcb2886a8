#include "daemon/admin.hpp"

#include "daemon/admin/answers.hpp"

namespace maru::daemon {
namespace {

// Names of an object are looked up one by one: 64 KiB of them would hold the loop for 100 ms.
constexpr std::size_t arguments_bytes_max = 4 * KiB;

struct Command {
    const char* name;
    bool counts_pages, takes_cursor, takes_limit, chooses_keys;
};
constexpr Command commands[] = {
    {"ping", false, false, false, false}, {"status", true, false, false, false},
    {"pools", true, false, false, false}, {"regions", true, true, true, false},
    {"clients", true, true, true, false}, {"namespaces", true, false, false, false},
    {"hosts", true, false, false, false}, {"keys", false, true, true, true},
    {"dump", false, true, true, false},
};

Error invalid(const std::string& text) {
    return Error{Code::invalid, text};
}

Result<const Command*> find_command(const std::string& name) {
    std::string known;
    for (const auto& command : commands) {
        if (name == command.name) return &command;
        known += (known.empty() ? "" : ", ") + std::string(command.name);
    }
    return invalid(
        "unknown admin command \"" + wire::printable(name.substr(0, 64)) + "\"; this daemon knows " + known +
        ", check, disconnect, release, evict, trace, log_level, pool_add, pool_drain, pool_remove, "
        "rescan, namespace_create, namespace_set, namespace_rm and flush");
}

/// A value of an argument, for an error. What has values of its own is not shown: text would be made of it by
/// recursion, as deep as whoever asks likes.
std::string shown(const Json& value) {
    return value.is_structured() ? value.type_name() : text_of(value).substr(0, 64);
}

Result<std::uint64_t> number_of(const std::string& name, const Json& value, std::uint64_t smallest) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() >= smallest)
        return value.get<std::uint64_t>();
    return invalid("argument \"" + name + "\" is " + shown(value) + "; it takes a whole number from " +
                   std::to_string(smallest) + " on");
}

Result<std::string> prefix_of(const Json& value) {
    if (!value.is_string())
        return invalid("argument \"prefix_hex\" is " + shown(value) + "; it takes a string of digits");
    auto bytes = wire::bytes_of_hex(value.get_ref<const std::string&>());
    if (!bytes) return invalid("argument \"prefix_hex\": " + bytes.error().text);
    if (bytes->size() > table::key_inline_max)
        return invalid("a prefix of " + std::to_string(bytes->size()) +
                       " bytes cannot be compared: the first " + std::to_string(table::key_inline_max) +
                       " bytes of a key are kept; give a shorter prefix");
    return bytes;
}

Result<Arguments> arguments_of(const Command& command, const std::string& text) {
    Arguments arguments;
    if (text.empty()) return arguments;
    if (text.size() > arguments_bytes_max)
        return invalid("arguments of " + format_size(text.size()) + " are more than the " +
                       format_size(arguments_bytes_max) + " allowed");
    const auto json = Json::parse(text, nullptr, false);
    if (!json.is_object())
        return invalid("arguments of \"" + std::string(command.name) + "\" are not a JSON object");
    for (const auto& [name, value] : json.items()) {
        if (name == "cursor" && command.takes_cursor) {
            const auto number = number_of(name, value, 0);
            if (!number) return number.error();
            arguments.cursor = *number;
        } else if (name == "limit" && command.takes_limit) {
            const auto number = number_of(name, value, 1);
            if (!number) return number.error();
            arguments.limit = std::min(*number, list_limit);
        } else if (name == "prefix_hex" && command.chooses_keys) {
            auto prefix = prefix_of(value);
            if (!prefix) return prefix.error();
            arguments.prefix = std::move(*prefix);
        } else if (name == "namespace" && command.chooses_keys) {
            if (!value.is_string())
                return invalid("argument \"namespace\" is " + shown(value) + "; it takes a name");
            arguments.name_space = value.get<std::string>();
        } else {
            return invalid("\"" + std::string(command.name) + "\" takes no argument \"" +
                           wire::printable(name.substr(0, 64)) + "\"");
        }
    }
    return arguments;
}

Json answer_ping(const table::Control& control, const DaemonFacts& facts) {
    return {{"version", facts.version},
            {"pid", facts.pid},
            {"domain", control.domain().text()},
            {"page_bytes_max", table::page_bytes_max(control)}};
}

}  // namespace

Admin::Admin(const Config& config, const table::Control& control, const DaemonFacts& facts)
    : config_(config), control_(control), facts_(facts), census_(std::make_unique<Census>(control)) {}

Admin::~Admin() = default;

Result<std::string> Admin::answer(const std::string& command, const std::string& arguments) {
    const auto found = find_command(command);
    if (!found) return found.error();
    const auto checked = arguments_of(**found, arguments);
    if (!checked) return checked.error();
    if (command == "ping") return text_of(answer_ping(control_, facts_));
    if (command == "keys") {
        const auto keys = answer_keys(control_, *checked);
        if (!keys) return keys.error();
        return text_of(*keys);
    }
    if (command == "dump") return dump_part(control_, checked->cursor, checked->limit);

    const bool complete = census_->refresh(deadline_after(census_budget));
    const Subject subject{config_, control_, facts_, census_->latest(), complete, census_->records_done()};
    Json json;
    if (command == "status") json = answer_status(subject);
    if (command == "pools") json = answer_pools(subject);
    if (command == "regions") json = answer_regions(subject, *checked);
    if (command == "clients") json = answer_clients(subject, *checked);
    if (command == "namespaces") json = answer_namespaces(subject);
    if (command == "hosts") json = answer_hosts(subject);
    json["complete"] = complete;
    if (!complete) json["counting"] = {{"done", census_->records_done()}, {"of", control_.record_count()}};
    return text_of(json);
}

}  // namespace maru::daemon
