#include "daemon.hpp"

#include "fields.hpp"
#include "output.hpp"
#include "wire/socket_path.hpp"

namespace maru::ctl {
namespace {

constexpr std::chrono::milliseconds connect_limit{2000};
constexpr std::chrono::milliseconds answer_limit{10'000};
// A check looks at every table of the domain, twice; memory is made as fast as the kernel clears it.
constexpr std::chrono::milliseconds long_limit{300'000};
constexpr std::chrono::milliseconds count_limit{60'000};

Error not_understood(const std::string& command) {
    return Error{Code::version, "the daemon's answer to \"" + command +
                                    "\" is not understood: is it of another version than this maructl?"};
}

}  // namespace

std::string how_to_start() {
    return "start one with `maru` (or `systemctl start maru`), or name the socket with --socket PATH or "
           "MARU_SOCKET=PATH";
}

Result<Daemon> Daemon::find(const std::string& wanted_socket) {
    std::string tried;
    for (const auto& path : wire::socket_candidates_to_connect(wanted_socket)) {
        auto stream = wire::Stream::connect(path, deadline_after(connect_limit));
        if (stream) return Daemon(path, std::move(*stream));
        tried += (tried.empty() ? "" : "\n  ") + stream.error().text;
    }
    return Error{Code::unavailable, "no daemon answers:\n  " + tried + "\n" + how_to_start()};
}

Result<Json> Daemon::ask(const std::string& command, const Json& arguments) {
    const auto limit = command == "check" || command == "pool_add" ? long_limit : answer_limit;
    const wire::Admin admin{command, arguments.dump(-1, ' ', false, Json::error_handler_t::replace)};
    const auto frame = stream_.ask(wire::encode_frame(++request_, admin), deadline_after(limit));
    if (!frame) return frame.error();
    const auto answer = wire::open<wire::AdminAnswer>(*frame);
    if (!answer) return answer.error();
    auto json = Json::parse(answer->json, nullptr, false);
    if (!json.is_object()) return not_understood(command);
    return json;
}

Result<Json> Daemon::ask_complete(const std::string& command, Json arguments) {
    const auto deadline = deadline_after(count_limit);
    while (true) {
        auto json = ask(command, arguments);
        if (!json || json->value("complete", true)) return json;
        if (MonotonicClock::now() >= deadline)
            return Error{Code::timeout, "the daemon did not finish counting within " +
                                            std::to_string(count_limit.count() / 1000) + " s"};
    }
}

Result<void> Daemon::ask_list(const std::string& command, const std::string& name, Json arguments,
                              const std::function<bool(const Json&)>& take) {
    Progress progress;
    while (true) {
        const auto json = ask_complete(command, arguments);
        if (!json) return json.error();
        if (!json->contains(name) || !json->at(name).is_array()) return not_understood(command);
        if (!take(json->at(name))) return {};
        const auto next = json->value("next", Json(nullptr));
        if (next.is_null()) return {};
        // A cursor that stands still would never end.
        if (!next.is_number_unsigned() ||
            next.get<std::uint64_t>() <= arguments.value("cursor", std::uint64_t{0}))
            return not_understood(command);
        arguments["cursor"] = next;
        // Where the daemon says how far its cursor goes.
        if (const auto end = number(*json, "of"); end != 0)
            progress.show(command + ": " + std::to_string(next.get<std::uint64_t>() * 100 / end) + " %");
    }
}

}  // namespace maru::ctl
