// An administrator ends a client's session.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "daemon/json.hpp"
#include "daemon/requests.hpp"

namespace maru::daemon {
namespace {

struct DisconnectWish {
    std::string client;
    bool kill = false;
};

Result<DisconnectWish> disconnect_wish(const std::string& arguments) {
    const auto json = Json::parse(arguments, nullptr, false);
    const bool whole =
        json.is_object() && json.contains("client") && json["client"].is_string() &&
        std::all_of(json.items().begin(), json.items().end(), [](const auto& item) {
            return item.key() == "client" || (item.key() == "kill" && item.value().is_boolean());
        });
    if (!whole)
        return Error{
            Code::invalid,
            "\"disconnect\" takes {\"client\": an instance id or slot:NUMBER, \"kill\": true or false}"};
    return DisconnectWish{json["client"].get<std::string>(), json.value("kill", false)};
}

/// The one client of this name.
Result<table::ClientView> find_named(const table::Control& control, const std::string& name) {
    std::vector<table::ClientView> found;
    std::string slots;
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        auto view = table::read_client(control, slot);
        if (!view || view->facts.is_daemon) continue;
        if (view->facts.instance_id != name && "slot:" + std::to_string(slot) != name) continue;
        slots += (slots.empty() ? "" : ", ") + std::string("slot:") + std::to_string(slot);
        found.push_back(std::move(*view));
    }
    if (found.size() == 1) return std::move(found.front());
    if (found.empty())
        return Error{Code::unavailable, "no client is called \"" + name +
                                            "\": `maructl clients` lists them by instance and slot"};
    return Error{Code::invalid,
                 std::to_string(found.size()) + " clients are called \"" + name + "\": name one by " + slots};
}

}  // namespace

Result<void> Requests::disconnect(Session& session, const wire::Frame& frame, const std::string& arguments) {
    const auto wish = disconnect_wish(arguments);
    if (!wish) return wish.error();
    const auto view = find_named(control_, wish->client);
    if (!view) return view.error();
    if (view->facts.host != parts_.facts.host)
        return Error{Code::invalid, "'" + view->facts.instance_id + "' is a client of host " +
                                        std::to_string(view->facts.host) +
                                        ": disconnect it there (`maructl hosts` lists the hosts)"};
    // The daemon's right to kill is lent only to who could kill that process without it.
    const std::uint32_t asker = session.peer().uid;
    if (wish->kill && asker != 0 && asker != ::geteuid() && asker != view->facts.uid)
        return Error{Code::denied, "process " + std::to_string(view->facts.pid) + " of '" +
                                       view->facts.instance_id + "' belongs to user " +
                                       std::to_string(view->facts.uid) +
                                       ": only that user, the daemon's and root may have it killed"};
    if (Session* connected = parts_.session_of_client(view->identity)) {
        connected->client.reset();  // the verdict is given here
        connected->close();
    }
    const auto done = parts_.reaper.disconnect(view->identity, wish->kill);
    if (!done) return done.error();
    spdlog::info("'{}', process {}, was disconnected by user {}{}", view->facts.instance_id, view->facts.pid,
                 asker, wish->kill ? " and killed" : "");
    session.send(wire::encode_frame(
        frame.request, wire::AdminAnswer{Json{{"instance_id", view->facts.instance_id},
                                              {"slot", view->identity.slot},
                                              {"pid", view->facts.pid},
                                              {"killed", wish->kill}}
                                             .dump(-1, ' ', false, Json::error_handler_t::replace)}));
    return {};
}

}  // namespace maru::daemon
