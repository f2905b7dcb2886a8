// What administrators ask about pools: maructl pool add, drain and remove, and rescan.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>

#include "daemon/config_check.hpp"
#include "daemon/json.hpp"
#include "daemon/kept_pools.hpp"
#include "daemon/pools.hpp"
#include "table/clients.hpp"

namespace maru::daemon {
namespace {

std::string text_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct PoolWish {
    std::string what;
    bool flag = false;
};

/// {"NAME": text, "FLAG": true or false}; the latter where one is taken.
Result<PoolWish> pool_wish(const std::string& command, const std::string& arguments, const std::string& name,
                           const std::string& flag) {
    const auto json = Json::parse(arguments, nullptr, false);
    const bool whole =
        json.is_object() && json.contains(name) && json[name].is_string() &&
        std::all_of(json.items().begin(), json.items().end(), [&](const auto& item) {
            return item.key() == name || (!flag.empty() && item.key() == flag && item.value().is_boolean());
        });
    if (!whole)
        return Error{Code::invalid, "\"" + command + "\" takes {\"" + name + "\": text" +
                                        (flag.empty() ? "}" : ", \"" + flag + "\": true or false}")};
    return PoolWish{json[name].get<std::string>(), !flag.empty() && json.value(flag, false)};
}

Json json_of(const table::PoolContent& content) {
    return {{"regions", content.regions},
            {"published", content.published},
            {"reserved", content.reserved},
            {"retired", content.retired},
            {"bad", content.bad}};
}

Json holders(const table::Control& control, std::uint32_t number) {
    auto rows = Json::array();
    for (const auto& holder : table::holders_of(control, number)) {
        const auto client = table::read_client(control, holder.slot);
        rows.push_back({{"slot", holder.slot},
                        {"instance_id", client ? client->facts.instance_id : std::string()},
                        {"pages", holder.pages}});
    }
    return rows;
}

}  // namespace

bool Pools::knows(const std::string& command) {
    return command == "pool_drain" || command == "pool_remove" || command == "rescan";
}

Result<std::string> Pools::answer(const std::string& command, const std::string& arguments,
                                  std::uint32_t user) {
    // Memory is made and deleted by the daemon's right: lent only to who has it.
    if (auto allowed = check_administrator(user, "change pools"); !allowed) return allowed.error();
    if (command == "rescan") return answer_rescan();
    const bool removes = command == "pool_remove";
    const auto wish = pool_wish(command, arguments, "name", removes ? "evict" : "cancel");
    if (!wish) return wish.error();
    return removes ? answer_remove(wish->what, wish->flag) : answer_drain(wish->what, wish->flag);
}

Result<void> Pools::answer_later(const std::string& arguments, std::uint32_t user, Then then) {
    if (auto allowed = check_administrator(user, "change pools"); !allowed) return allowed;
    const auto wish = pool_wish("pool_add", arguments, "pool", "");
    if (!wish) return wish.error();
    if (joining_) {
        wanted_.push_back({wish->what, std::move(then)});
        return {};
    }
    const auto joining = begin_wanted(wish->what);
    if (!joining) return joining.error();
    make(*joining, std::move(then));
    return {};
}

void Pools::make(const Joining& joining, Then then) {
    joining_ = joining;
    beside_.run(
        [this, config = joining.config] {
            try {
                opened_ = open_pool(config);
            } catch (const std::bad_alloc&) {
                opened_ = Error{Code::full, "pool '" + config.name + "': no memory is left to open it"};
            }
        },
        [this, then = std::move(then)](const std::string& why_not) {
            OpenedPool opened = std::exchange(opened_, Error{Code::ok, ""});
            if (!why_not.empty()) opened = Error{Code::full, "no thread to make a pool: " + why_not};
            const Joining done = *std::exchange(joining_, std::nullopt);
            then(end_wanted(done, std::move(opened)));
            make_next();
        });
}

/// Of those that waited: what is refused is answered, up to the first that is not.
void Pools::make_next() {
    while (!wanted_.empty() && !joining_) {
        const Wanted next = std::move(wanted_.front());
        wanted_.pop_front();
        const auto joining = begin_wanted(next.argument);
        if (joining)
            make(*joining, next.then);
        else
            next.then(joining.error());
    }
}

Result<Pools::Joining> Pools::begin_wanted(const std::string& argument) {
    // A kind that has no name of its own gets the first number that is free.
    std::size_t position = 0;
    Result<PoolSource> source = Error{Code::invalid, ""};
    for (bool taken = true; taken; ++position) {
        source = parse_pool_argument(argument, position);
        if (!source) return source.error();
        taken = named(source->config.name) && position < table::max_pools &&
                source->config.kind != pool::Kind::shm;
    }
    if (source->config.path == "any")
        return Error{Code::invalid,
                     "--pool " + argument +
                         ": \"any\" is for the config, where it goes on looking; name one device "
                         "(maructl device list)"};
    return begin_add(source->config, argument);
}

Result<std::string> Pools::end_wanted(const Joining& joining, OpenedPool opened) {
    const auto number = end_add(joining, std::move(opened));
    if (!number) return number.error();
    const auto view = table::read_pool(control_, *number);
    const auto& pool = *parts_.domain.pools[*number];
    return text_of({{"pool", *number},
                    {"name", joining.config.name},
                    {"kind", pool::name_of(pool.kind())},
                    {"size", view ? view->bytes : 0},
                    {"units", view ? view->unit_count : 0},
                    {"path", pool.path()}});
}

Result<std::string> Pools::answer_drain(const std::string& name, bool cancel) {
    const auto number = named(name);
    if (!number) return number.error();
    if (auto allowed = may_leave(*number); !allowed) return allowed.error();
    if (cancel) {
        if (!table::cancel_drain(parts_.worker, *number))
            return Error{Code::invalid, "pool '" + name + "' is not draining (" +
                                            table::name_of(table::read_pool(control_, *number)->state) +
                                            "): there is nothing to call back"};
        spdlog::info("the drain of pool '{}' was called back", name);
    } else {
        (void)table::begin_drain(parts_.worker, *number);
        if (draining_ == 0) drain_on();
    }
    return text_of({{"pool", *number},
                    {"name", name},
                    {"state", cancel ? "active" : "draining"},
                    {"left", json_of(table::content_of(control_, *number))},
                    {"holders", holders(control_, *number)}});
}

Result<std::string> Pools::answer_remove(const std::string& name, bool evict) {
    const auto number = named(name);
    if (!number) return number.error();
    const bool listed = std::any_of(parts_.config.pools.begin(), parts_.config.pools.end(),
                                    [&](const auto& pool) { return pool.name == name; });
    const auto removal = remove(*number, evict);
    if (!removal) return removal.error();
    return text_of({{"pool", *number},
                    {"name", name},
                    {"removed", removal->removed},
                    {"over", removal->pass_is_over},
                    {"in_config", listed},
                    {"left", json_of(table::content_of(control_, *number))},
                    {"holders", removal->removed ? Json::array() : holders(control_, *number)}});
}

std::string Pools::answer_rescan() {
    const auto result = rescan();
    auto refused = Json::array();
    for (const auto& [name, reason] : result.refused)
        refused.push_back({{"name", name}, {"reason", reason}});
    return text_of({{"added", result.added}, {"refused", refused}});
}

}  // namespace maru::daemon
