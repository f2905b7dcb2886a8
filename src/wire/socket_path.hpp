// Where the daemon's socket is: one search order for the daemon, the library and the tools.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace maru::wire {

namespace detail {
inline std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}
}  // namespace detail

/// Path without a "unix://" in front.
inline std::string plain_socket_path(const std::string& path) {
    constexpr const char* scheme = "unix://";
    return path.rfind(scheme, 0) == 0 ? path.substr(7) : path;
}

/// Places of the socket in the order of preference; never empty. A path that somebody named (`wanted`, else
/// $MARU_SOCKET) is the only one. The daemon listens at the first.
inline std::vector<std::string> socket_candidates(const std::string& wanted = {}) {
    if (!wanted.empty()) return {plain_socket_path(wanted)};
    if (const auto named = detail::environment("MARU_SOCKET"); !named.empty())
        return {plain_socket_path(named)};
    std::vector<std::string> paths;
    // systemd gives a list with colons when the unit has several runtime directories.
    if (const auto runtime = detail::environment("RUNTIME_DIRECTORY"); !runtime.empty())
        paths.push_back(runtime.substr(0, runtime.find(':')) + "/maru.sock");
    const std::string system = "/run/maru/maru.sock";
    if (::geteuid() == 0) paths.push_back(system);
    if (const auto user = detail::environment("XDG_RUNTIME_DIR"); !user.empty())
        paths.push_back(user + "/maru.sock");
    paths.push_back("/tmp/maru-" + std::to_string(::geteuid()) + "/maru.sock");
    return paths;
}

/// The same for who connects: at the end the system's daemon, which only root listens for by default.
inline std::vector<std::string> socket_candidates_to_connect(const std::string& wanted = {}) {
    auto paths = socket_candidates(wanted);
    const bool named = !wanted.empty() || !detail::environment("MARU_SOCKET").empty();
    if (!named && ::geteuid() != 0) paths.push_back("/run/maru/maru.sock");
    return paths;
}

}  // namespace maru::wire
