// Answers to administrators: what maructl asks over the wire, as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config.hpp"
#include "table/sweep.hpp"
#include "table/worker.hpp"

namespace maru::daemon {

/// What the daemon knows beyond the control region; the daemon keeps it current.
struct DaemonFacts {
    std::string version, socket, host_id, event_backend;
    std::uint64_t started_monotonic_ms = 0;
    std::uint32_t pid = 0;
    std::vector<std::unique_ptr<pool::Pool>>* pools = nullptr;
    std::uint64_t sessions = 0;  // connected now
    std::uint64_t reconnects = 0, sweeps_gone = 0, sweeps_dead = 0, expired_key_pins = 0, requests = 0, refused = 0;
    table::SweepReport swept;  // since the start
    bool first_sweep_done = false;
};

/// Executes one admin command; read-only commands only look. The result is a JSON value, or an Error (invalid for an
/// unknown command or argument). Must stay within a few milliseconds: long listings come in parts, with a cursor that the
/// caller sends back; "check" runs in a thread of its own (`check_domain`).
class Admin {
  public:
    Admin(const Config& config, const table::Control& control, const DaemonFacts& facts);
    Result<std::string> answer(const std::string& command, const std::string& arguments) const;

  private:
    const Config& config_;
    const table::Control& control_;
    const DaemonFacts& facts_;
};

/// The answer to "check": takes at least the 100 ms between its two looks. Called from a thread that the daemon joins.
std::string check_domain(const table::Control& control);

}  // namespace maru::daemon
