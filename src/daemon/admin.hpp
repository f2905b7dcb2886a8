// Answers to administrators: what maructl asks over the wire, as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/measures.hpp"
#include "table/sweep.hpp"
#include "table/worker.hpp"

namespace maru::daemon {

/// What the daemon knows beyond the control region; the daemon keeps it current.
struct DaemonFacts {
    std::string version, commit, socket, host_id, event_backend;
    std::string metrics;                     // where the metrics endpoint listens; empty: nowhere
    std::string domain;                      // its UUID, as it was at the start
    std::uint64_t started_monotonic_ms = 0;  // MonotonicClock
    std::uint32_t pid = 0;
    std::uint32_t host = 0;  // number of this host's entry
    std::vector<std::unique_ptr<pool::Pool>>* pools = nullptr;
    std::function<std::uint64_t(std::size_t)> large_page_bytes;  // of a pool, gathered so far
    std::uint64_t control_locked_bytes = 0;                      // of the control region (mlock)
    std::string control_not_locked;  // why the kernel refused that although it could be swapped out; or empty
    std::uint64_t sessions = 0;      // connected now
    std::uint64_t reconnects = 0, sweeps_gone = 0, sweeps_dead = 0, expired_key_pins = 0, requests = 0,
                  refused = 0, hosts_fenced = 0;
    Measures measures;
    table::SweepReport swept;  // since the start
    bool first_sweep_done = false;
    bool trace = false;  // requests go to the log, one by one
    // For who counts by client, when somebody does:
    std::function<void(table::Identity)> leaving;  // before its counts are folded into the domain's
    std::function<void(std::uint32_t slot, std::uint64_t count)> key_pins_expired;
};

class Census;

/// Executes one admin command: ping, status, pools, regions, clients, namespaces, hosts, keys, dump. They
/// only look. The result is a JSON value, or an Error (invalid for an unknown command or argument, with what
/// would be valid).
///
/// Threads: one, the daemon's loop.
/// Bound:   no call holds the loop for more than about 15 ms. Lists come in parts: `next` in an answer is the
///          `cursor` of the next request, null at the end. Counts of pages go on where the call before
///          stopped: while `complete` is false the numbers are those of the last whole count and the caller
///          asks again; a count that took several calls is good for a second.
/// "check" is not here: it takes longer, `check_domain` runs in a thread; nor are "disconnect", "release",
/// "evict", "trace" and "log_level", which change something.
class Admin {
  public:
    Admin(const Config& config, const table::Control& control, const DaemonFacts& facts);
    ~Admin();
    Result<std::string> answer(const std::string& command, const std::string& arguments);

  private:
    const Config& config_;
    const table::Control& control_;
    const DaemonFacts& facts_;
    std::unique_ptr<Census> census_;
};

/// The answer to "check". In use: two looks with 100 ms between them, and what both found counts; called from
/// a thread that the daemon joins. Else one look, which is exact.
std::string check_domain(const table::Control& control, bool in_use = true);

/// One part of the answer to "dump": {"rows": [...], "next": cursor or null}. A row is an entry of one table
/// that is not all zero. Text from shared memory is escaped.
std::string dump_part(const table::Control& control, std::uint64_t cursor, std::uint64_t limit);

}  // namespace maru::daemon
