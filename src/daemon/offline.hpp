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
    std::vector<FoundPool> pools;  // in the order of the config; the first carries the control region
    shm::Mapping mapping;          // of the control region, when that could be attached
    std::optional<table::Control> control;
    Head head;
    std::string client;  // one that is not proven dead, for people; empty: there is none
};

/// Takes the locks of the pools and opens what is there. `exit` tells how a failure ends a program: owned
/// when a daemon serves one of them.
Result<OfflineDomain> open_offline(const std::vector<pool::PoolConfig>& pools, ExitCode* exit);

}  // namespace maru::daemon
