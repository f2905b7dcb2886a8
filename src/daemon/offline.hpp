// A domain that no daemon serves: locked, and looked at as it lies there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/domain.hpp"

namespace maru::daemon {

/// One configured pool as it was found.
struct FoundPool {
    pool::PoolConfig config;           // size: what is there, 0 when nothing is
    std::unique_ptr<pool::Pool> pool;  // empty when it is not there or cannot be opened
    std::optional<Error> fault;        // why it cannot be opened
};

/// Promise: while it is held, no daemon serves the domain; nothing in the pools was made or changed.
/// Death:   frees the locks; a lock file that was made here may stay.
/// Threads: one.
struct OfflineDomain {
    std::vector<LockFile> locks;   // one a pool; the first is the domain's. One made here goes with this
    std::vector<FoundPool> pools;  // in the order of the config, the first carries the control region; then
                                   // those that were added at run time
    shm::Mapping mapping;          // of the control region, when that could be attached
    std::optional<table::Control> control;
    Head head;
    std::string user;  // a client that is not proven dead, or a host that may serve, for people; or empty
};

/// Takes the locks of the pools and opens what is there. `exit` tells how a failure ends a program: owned
/// when a daemon serves one of them. Waits up to host.grace for a sign of life where another host may serve.
Result<OfflineDomain> open_offline(const Config& config, const std::vector<pool::PoolConfig>& pools,
                                   ExitCode* exit);

}  // namespace maru::daemon
