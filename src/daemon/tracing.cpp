// What an administrator sees of the daemon's work in its log: maructl trace and log-level.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/log.hpp"
#include "daemon/json.hpp"
#include "daemon/requests.hpp"
#include "table/clients.hpp"
#include "wire/key_text.hpp"

namespace maru::daemon {
namespace {

std::string asker(const table::Control& control, Session* session) {
    if (session == nullptr) return "a connection that has ended";
    std::string text =
        "process " + std::to_string(session->peer().pid) + ", user " + std::to_string(session->peer().uid);
    if (!session->client) return text;
    const auto client = table::read_client(control, session->client->slot);
    return text + ", client slot " + std::to_string(session->client->slot) +
           (client ? " ('" + wire::printable(client->facts.instance_id) + "')" : std::string());
}

/// The log is the daemon's: who may read it decides how much is written.
Result<void> may_set(Session& session, const char* what) {
    const std::uint32_t user = session.peer().uid;
    if (user == 0 || user == ::geteuid()) return {};
    return Error{Code::denied, std::string("only root and the daemon's own user (") +
                                   std::to_string(::geteuid()) + ") may change " + what + ", this is user " +
                                   std::to_string(user)};
}

}  // namespace

Result<void> Requests::set_trace(Session& session, const wire::Frame& frame, const std::string& arguments) {
    const auto json = Json::parse(arguments, nullptr, false);
    if (!json.is_object() || json.size() != 1 || !json.contains("on") || !json["on"].is_boolean())
        return Error{Code::invalid, "\"trace\" takes {\"on\": true or false}"};
    if (auto allowed = may_set(session, "the trace"); !allowed) return allowed;
    parts_.facts.trace = json["on"].get<bool>();
    spdlog::info("user {} switched the trace of requests {}", session.peer().uid,
                 parts_.facts.trace ? "on" : "off");
    session.send(wire::encode_frame(
        frame.request,
        wire::AdminAnswer{Json{{"trace", parts_.facts.trace}, {"log_level", log_level()}}.dump()}));
    return {};
}

Result<void> Requests::change_log_level(Session& session, const wire::Frame& frame,
                                        const std::string& arguments) {
    const auto json = Json::parse(arguments, nullptr, false);
    if (!json.is_object() || json.size() != 1 || !json.contains("level") || !json["level"].is_string())
        return Error{Code::invalid, "\"log_level\" takes {\"level\": text}"};
    const auto level = parse_log_level(json["level"].get_ref<const std::string&>().substr(0, 64));
    if (!level) return Error{Code::invalid, wire::printable(level.error().text)};
    if (auto allowed = may_set(session, "the log level"); !allowed) return allowed;
    const std::string before = log_level();
    if (auto set = set_log_level(*level); !set) return set;
    // As loud as the quieter of both levels needs it: whoever reads the log sees why it has changed.
    spdlog::log(spdlog::get_level(), "user {} changed the log level from {} to {}", session.peer().uid,
                before, *level);
    session.send(wire::encode_frame(
        frame.request, wire::AdminAnswer{Json{{"log_level", *level}, {"before", before}}.dump()}));
    return {};
}

void Requests::trace(const wire::Frame& frame, Session& session, MonotonicClock::time_point began,
                     const Result<void>& done) const {
    std::string what = wire::name_of(frame.type);
    if (frame.type == wire::Type::admin)
        if (const auto asked = wire::open<wire::Admin>(frame))
            what += " " + wire::printable(asked->command.substr(0, 64));
    trace(what, &session, began, done);
}

void Requests::trace(const std::string& what, Session* session, MonotonicClock::time_point began,
                     const Result<void>& done) const {
    const auto spent = MonotonicClock::now() - began;
    spdlog::info("trace: {} of {}: {}, {} us", what, asker(control_, session),
                 done ? "ok" : "refused (" + wire::printable(done.error().text) + ")",
                 std::chrono::duration_cast<std::chrono::microseconds>(spent).count());
}

}  // namespace maru::daemon
