// A domain without its daemon, for the commands that work on both.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "commands.hpp"
#include "daemon.hpp"
#include "daemon/offline.hpp"

namespace maru::ctl {

/// Either a daemon that serves the domain, or the domain itself, locked.
struct Target {
    std::optional<Daemon> daemon;
    std::optional<daemon::OfflineDomain> offline;
    std::string path;  // of the control pool, when offline
};

/// Finds what `where` names: the pools of --pool or --config, else the daemon of --socket, else the daemon or
/// the default pool of this user.
Result<Target> find_target(const Options& options, const Where& where);

}  // namespace maru::ctl
