#include "offline.hpp"

#include <algorithm>
#include <cstdlib>

#include "daemon/config.hpp"
#include "fields.hpp"

namespace maru::ctl {
namespace {

/// --pool as the daemon takes it. Without a size a file that is there has its own.
std::string with_size(const std::string& argument) {
    const auto colon = argument.find(':');
    if (colon == std::string::npos || argument.find(':', colon + 1) != std::string::npos) return argument;
    const auto kind = pool::parse_kind(argument.substr(0, colon));
    if (!kind || *kind != pool::Kind::shm) return argument;
    pool::PoolConfig named;
    named.name = argument.substr(colon + 1);
    if (!pool::check_name(named.name)) return argument;
    named.path = pool::default_shm_path(named.name);
    // A file that is not there gets any size: it is missed by its path later.
    return argument + ":" + std::to_string(pool::existing_bytes(named).value_or(MiB));
}

Result<daemon::Config> config_of(const Options& options, const Where& where) {
    daemon::CommandLine line;
    line.config_file = where.config;
    line.socket = options.socket;
    for (const auto& pool : where.pools)
        line.pools.push_back(with_size(pool));
    return daemon::load_config(line);
}

bool serves(Daemon& found, const std::string& path) {
    const auto pools = found.ask_complete("pools", Json::object());
    if (!pools) return false;
    const auto& rows = field(*pools, "pools");
    return std::any_of(rows.begin(), rows.end(),
                       [&](const Json& row) { return text(row, "path") == wire::printable(path); });
}

/// The daemon that holds the lock of these pools.
Result<Target> through_daemon(const daemon::Config& config, const std::string& path, const Error& locked) {
    const auto socket = daemon::socket_path(config);
    if (!socket) return socket.error();
    auto found = Daemon::find(*socket);
    if (!found) return Error{Code::unavailable, locked.text + "; " + found.error().text};
    if (!serves(*found, path))
        return Error{Code::unavailable, locked.text + "; the daemon on " + found->socket() +
                                            " serves another domain: name the right one with --socket"};
    Target target;
    target.daemon.emplace(std::move(*found));
    target.path = path;
    return target;
}

Result<Target> without_daemon(const Options& options, const Where& where) {
    const auto config = config_of(options, where);
    if (!config) return config.error();
    const auto pools = daemon::located_pools(*config);
    const std::string path = pools.front().path;
    if (pool::existing_bytes(pools.front()).value_or(0) == 0)
        return Error{Code::unavailable, "pool '" + pools.front().name + "' (" + path +
                                            ") does not exist: name the domain's pools with --pool "
                                            "KIND:WHAT, or its config with --config FILE"};
    auto exit = daemon::ExitCode::clean;
    auto opened = daemon::open_offline(*config, pools, &exit);
    if (!opened && exit == daemon::ExitCode::owned) return through_daemon(*config, path, opened.error());
    if (!opened) return opened.error();
    Target target;
    target.offline.emplace(std::move(*opened));
    target.path = path;
    return target;
}

}  // namespace

Result<Target> find_target(const Options& options, const Where& where) {
    if (!where.config.empty() || !where.pools.empty()) return without_daemon(options, where);
    auto found = Daemon::find(options.socket);
    if (found) {
        Target target;
        target.daemon.emplace(std::move(*found));
        return target;
    }
    // Who names a socket means that domain, and its pools are not known.
    const bool named = !options.socket.empty() || std::getenv("MARU_SOCKET") != nullptr;
    if (named)
        return Error{Code::unavailable,
                     found.error().text +
                         "\nTo look at its domain without a daemon name its pools with --pool "
                         "KIND:WHAT, or its config with --config FILE"};
    auto offline = without_daemon(options, where);
    if (!offline) return Error{Code::unavailable, found.error().text + "\n" + offline.error().text};
    return offline;
}

}  // namespace maru::ctl
