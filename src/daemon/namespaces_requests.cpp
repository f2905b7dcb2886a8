// What administrators ask about namespaces: maructl namespace create, set and rm, and flush.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <initializer_list>

#include "base/size.hpp"
#include "daemon/json.hpp"
#include "daemon/namespaces.hpp"
#include "daemon/principals.hpp"

namespace maru::daemon {
namespace {

using Json = nlohmann::ordered_json;
using PrincipalLists = std::initializer_list<std::pair<const char*, std::vector<std::uint32_t>*>>;

std::string namespace_text(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error wrong_argument(const std::string& text) {
    return Error{Code::invalid, text};
}

/// An object with a name; every other field is one of `others`.
Result<Json> named_object(const std::string& arguments, std::initializer_list<const char*> others) {
    auto json = Json::parse(arguments, nullptr, false);
    if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
        return wrong_argument("the arguments are no JSON object with a \"name\"");
    for (const auto& [name, value] : json.items())
        if (name != "name" && std::none_of(others.begin(), others.end(),
                                           [&, field = name](const char* other) { return field == other; }))
            return wrong_argument("there is no argument \"" + name.substr(0, 64) + "\" here");
    return json;
}

bool read_principals(const Json& value, std::vector<std::uint32_t>* ids) {
    if (!value.is_array()) return false;
    ids->clear();
    for (const auto& one : value) {
        if (!one.is_number_unsigned() || one.get<std::uint64_t>() > principal_max) return false;
        const auto id = one.get<std::uint32_t>();
        if (std::find(ids->begin(), ids->end(), id) == ids->end()) ids->push_back(id);
    }
    return true;
}

/// What the object says of quota and rules, over what is there.
Result<table::NamespacePolicy> wished_policy(const Json& json, table::NamespacePolicy policy) {
    policy.by_administrator = true;
    if (json.contains("quota")) {
        if (!json["quota"].is_number_unsigned())
            return wrong_argument("\"quota\" takes a number of bytes, 0 for none");
        policy.quota = json["quota"].get<std::uint64_t>();
    }
    for (auto [name, ids] : PrincipalLists{{"uids", &policy.rules.users},
                                           {"gids", &policy.rules.groups},
                                           {"readonly_gids", &policy.rules.readers}})
        if (json.contains(name) && !read_principals(json[name], ids))
            return wrong_argument("\"" + std::string(name) + "\" takes a list of numbers of users or groups");
    if (auto fits = table::check_namespace_rules(policy.rules); !fits) return fits.error();
    return policy;
}

bool is_set(const Json& json, const char* name) {
    return json.contains(name) && json[name].is_boolean() && json[name].get<bool>();
}

}  // namespace

bool Namespaces::knows(const std::string& command) {
    return command == "namespace_create" || command == "namespace_set" || command == "namespace_rm" ||
           command == "flush";
}

std::optional<Result<std::string>> Namespaces::answer(const std::string& command,
                                                      const std::string& arguments, std::uint32_t user,
                                                      Answer later) {
    if (auto allowed = check_administrator(user, "change namespaces"); !allowed)
        return Result<std::string>(allowed.error());
    if (command == "namespace_create") return answer_create(arguments);
    if (command == "namespace_set") return answer_set(arguments);
    if (command == "namespace_rm") return answer_rm(arguments, std::move(later));
    return answer_flush(arguments, std::move(later));
}

bool Namespaces::is_in_config(const std::string& name) const {
    const auto& listed = parts_.config.namespaces;
    return std::any_of(listed.begin(), listed.end(), [&](const auto& one) { return one.name == name; });
}

std::string Namespaces::describe(std::uint32_t id) const {
    const auto view = table::read_namespace(control_, id);
    if (!view) return "{}";
    const auto& rules = view->policy.rules;
    return namespace_text({{"namespace", id},
                           {"name", view->name},
                           {"quota", view->policy.quota},
                           {"used_bytes", table::used_bytes(control_, id)},
                           {"claimed_bytes", table::claimed_bytes(control_, id)},
                           {"uids", rules.users},
                           {"gids", rules.groups},
                           {"readonly_gids", rules.readers},
                           {"in_config", is_in_config(view->name)}});
}

Result<std::string> Namespaces::answer_create(const std::string& arguments) {
    const auto json = named_object(arguments, {"quota", "uids", "gids", "readonly_gids"});
    if (!json) return json.error();
    const auto name = (*json)["name"].get<std::string>();
    const auto policy = wished_policy(*json, {});
    if (!policy) return policy.error();
    if (table::find_namespace(control_, name))
        return Error{Code::invalid,
                     "namespace '" + name + "' is there already: change it with maructl namespace set"};
    const auto id = table::make_namespace(control_, name, *policy);
    if (!id) return id.error();
    spdlog::info("namespace '{}' was made by an administrator", name);
    return describe(*id);
}

Result<std::string> Namespaces::answer_set(const std::string& arguments) {
    const auto json = named_object(arguments, {"quota", "uids", "gids", "readonly_gids"});
    if (!json) return json.error();
    const auto id = table::named_namespace(control_, (*json)["name"].get<std::string>());
    if (!id) return id.error();
    const auto view = table::read_namespace(control_, *id);
    if (!view) return wrong_argument("the namespace has gone");
    const auto policy = wished_policy(*json, view->policy);
    if (!policy) return policy.error();
    table::set_policy(control_, *id, *policy);
    settle_all(*id);
    spdlog::info("namespace '{}' was changed by an administrator", view->name);
    return describe(*id);
}

std::optional<Result<std::string>> Namespaces::answer_flush(const std::string& arguments, Answer later) {
    using Now = Result<std::string>;
    const auto json = named_object(arguments, {"dry_run"});
    if (!json) return Now(json.error());
    const auto id = table::named_namespace(control_, (*json)["name"].get<std::string>());
    if (!id) return Now(id.error());
    if (is_set(*json, "dry_run")) {
        Job& job = counts_[*id];
        job.dry = true;
        job.waiting.push_back(std::move(later));
        arm(std::chrono::milliseconds(0));
        return {};
    }
    spdlog::info("namespace '{}' is flushed", (*json)["name"].get<std::string>());
    begin(*id, false, std::move(later));
    return {};
}

std::optional<Result<std::string>> Namespaces::answer_rm(const std::string& arguments, Answer later) {
    using Now = Result<std::string>;
    const auto json = named_object(arguments, {"flush", "dry_run"});
    if (!json) return Now(json.error());
    const auto name = (*json)["name"].get<std::string>();
    const auto id = table::named_namespace(control_, name);
    if (!id) return Now(id.error());
    if (*id == 0)
        return Now(Error{Code::denied,
                         "namespace 'default' is that of clients that name none, and stays: "
                         "maructl flush empties it"});
    const auto clients = clients_of(*id);
    if (!clients.empty()) {
        std::string list;
        for (std::size_t i = 0; i < std::min<std::size_t>(clients.size(), 8); ++i)
            list += (i == 0 ? "" : ", ") + clients[i];
        return Now(Error{Code::pinned, std::to_string(clients.size()) + " clients use namespace '" + name +
                                           "': " + list + (clients.size() > 8 ? ", ..." : "") +
                                           ": end them first (maructl client disconnect)"});
    }
    if (is_set(*json, "dry_run") || !is_set(*json, "flush")) {
        // Counted first: what holds objects goes only with their flush.
        Job& job = counts_[*id];
        job.dry = true;
        if (is_set(*json, "dry_run")) {
            job.waiting.push_back(std::move(later));
        } else {
            job.waiting.push_back(
                [this, id = *id, name, later = std::move(later)](Result<std::string> counted) {
                    const auto count = counted ? Json::parse(*counted, nullptr, false) : Json::object();
                    const auto objects = count.value("objects", std::uint64_t{0});
                    if (!counted) return later(std::move(counted));
                    if (objects != 0)
                        return later(
                            Error{Code::pinned, "namespace '" + name + "' holds " + std::to_string(objects) +
                                                    " objects: say -y (--flush) to flush them with it"});
                    begin(id, true, later);
                });
        }
        arm(std::chrono::milliseconds(0));
        return {};
    }
    begin(*id, true, std::move(later));
    return {};
}

std::string Namespaces::describe(std::uint32_t id, const Job& job) const {
    const auto view = table::read_namespace(control_, id);
    const std::string name = view ? view->name : "";
    Json json{{"namespace", id},
              {"name", name},
              {"dry_run", job.dry},
              {"objects", job.all.gone + job.all.held},
              {"bytes", job.all.gone_bytes + job.all.held_bytes},
              {"held", job.dry ? Json() : Json(job.all.held)},
              {"held_bytes", job.dry ? Json() : Json(job.all.held_bytes)},
              {"removed", job.removes},
              {"in_config", is_in_config(name)}};
    return namespace_text(json);
}

Error Namespaces::not_removed(std::uint32_t id, const Job& job) const {
    const auto view = table::read_namespace(control_, id);
    return Error{Code::pinned,
                 "namespace '" + (view ? view->name : std::string()) +
                     "' is flushed and not removed: " + std::to_string(job.all.held) +
                     " objects are still read or pinned, or pages of it reserved; when they are let go, ask "
                     "again"};
}

}  // namespace maru::daemon
