// What the daemon does by the clock.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/evictor.hpp"
#include "daemon/hosts.hpp"
#include "daemon/loop.hpp"
#include "daemon/reaper.hpp"
#include "table/sweep.hpp"

namespace maru::daemon {

/// Shows that this host lives and moves the epoch (ten times a second while anybody is at work, else once),
/// counts the domain's seconds, ages key pins, finishes deletions that readers held up, looks at locks, at
/// other hosts and, while anybody is at work, at how much memory is free.
///
/// Threads: the loop's.
class Maintenance {
  public:
    Maintenance(Loop& loop, table::Worker& worker, Reaper& reaper, Hosts& hosts, Evictor& evictor,
                const Config& config, DaemonFacts& facts);
    ~Maintenance();
    Maintenance(const Maintenance&) = delete;
    Maintenance& operator=(const Maintenance&) = delete;

    /// Called once when this host's entry is not its own any more; the clock stands still from then on.
    std::function<void(Standing)> on_lost;

    void start();
    /// Somebody connected or wants memory, or the config has changed: the epoch is to move at its quick pace
    /// from now on.
    void wake();

  private:
    void arm();
    void beat();
    void each_second(std::uint64_t now_s);
    void look_for_work();
    void expire_key_pins(std::uint64_t now_s);

    Loop& loop_;
    table::Worker& worker_;
    Reaper& reaper_;
    Hosts& hosts_;
    Evictor& evictor_;
    const Config& config_;
    DaemonFacts& facts_;
    table::KeyPinExpiry expiry_;
    std::vector<std::uint64_t> expired_of_;
    std::uint64_t last_second_ = 0;
    std::uint64_t work_done_ = 0;  // calls of all clients, as of the last second
    bool is_quiet_ = false;        // there were none for a second
    bool is_idle_ = false;
    Operation timer_ = 0;
};

}  // namespace maru::daemon
