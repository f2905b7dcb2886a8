// The domain that this daemon owns: its pools, its control region, and the lock that says so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/exit_code.hpp"
#include "daemon/lock_file.hpp"
#include "shm/mapping.hpp"

namespace maru::daemon {

/// Client slots beyond control.max_clients: for the daemon of each host, and for its successor while it
/// sweeps the one before.
constexpr std::uint32_t daemon_slots(table::Coherence coherence, std::uint32_t hosts) {
    return coherence == table::Coherence::local ? 2 : 2 * hosts;
}
/// Client slots that clients can have.
inline std::uint32_t slots_for_clients(const table::Control& control) {
    return control.client_count() - 1 - daemon_slots(control.coherence(), control.host_count());
}

enum class Decision { attach, format, refuse };

/// What lies at the head of a control pool.
struct Head {
    bool blank = false;          // no control region, or one whose format was cut short
    std::optional<Error> fault;  // of a control region that cannot be attached
};

/// What a starting daemon does with what it found. `reason` says why it refuses, with the remedy.
/// Attaching never loses anything; formatting unasked is for blank memory of one host alone; `asked` is
/// --format.
Decision decide(const Head& head, table::Coherence wanted, bool asked, std::string* reason);

/// An opened domain.
///
/// Promise: while it is held, no other daemon on this host serves the domain.
/// Death:   frees the lock; memory and clients stay as they are.
/// Threads: one; `control` is for any.
struct Domain {
    std::vector<LockFile> locks;                     // one a pool; the first is the domain's
    std::vector<std::unique_ptr<pool::Pool>> pools;  // by the number of their entry; nullptr: none is open
    std::vector<pool::PoolConfig> configs;           // what each was opened by
    shm::Mapping mapping;
    std::optional<table::Control> control;
    bool formatted = false;             // by this open
    std::vector<std::string> warnings;  // what the config says and the domain does not

    const LockFile& lock() const { return locks.front(); }
};

using OpenPool = std::function<Result<std::unique_ptr<pool::Pool>>(const pool::PoolConfig&)>;

/// Takes the domain's locks, opens its pools and attaches or formats. `exit` tells how a failure ends the
/// daemon.
Result<Domain> open_domain(
    const Config& config, ExitCode* exit,
    const OpenPool& open = [](const auto& pool) { return pool::open(pool); });

/// The UUID in a pool entry of the control region.
Uuid uuid_of_pool(const table::Control& control, std::uint32_t pool);

// -- parts of it, also for --format and --remove

/// A DAX device named by "any" or by UUID that is not there now.
bool is_absent_device(const pool::PoolConfig& config);
/// The pool configs with every path filled in.
std::vector<pool::PoolConfig> located_pools(const Config& config);
/// Locks every pool.
Result<std::vector<LockFile>> lock_pools(const std::vector<pool::PoolConfig>& pools, ExitCode* exit);
/// The file whose byte 0 a daemon locks, whose other bytes clients lock.
std::string lock_path_of(const pool::PoolConfig& pool);
/// Looks at the head of a control pool; attaches when that is possible.
Head look_at_head(const pool::Pool& pool, shm::Mapping* mapping, std::optional<table::Control>* control);
/// Whether no other process has a device of these pools open or mapped, as far as this user can see. Before
/// the first byte is written to a device: from then on clients hold it as they should. Errors name process
/// and program.
Result<void> check_unheld(const std::vector<std::unique_ptr<pool::Pool>>& pools);
/// Formats the pools for this config.
Result<void> format_domain(const Config& config, Domain* domain);

}  // namespace maru::daemon
