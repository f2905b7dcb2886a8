// Pool memory made ready before its first use: touched once, and gathered into large pages where it came in
// small ones.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "pool/pool.hpp"
#include "table/limits.hpp"

namespace maru::daemon {

/// When the log gets a line about work that goes on: a tenth further than the last one and `least` later, or
/// `most` later.
class Progress {
  public:
    struct Beat {
        std::chrono::milliseconds least{1000}, most{5000};
    };
    Progress(std::uint64_t total, Beat beat, MonotonicClock::time_point now)
        : total_(total), beat_(beat), said_(now) {}
    bool is_due(std::uint64_t done, MonotonicClock::time_point now);

  private:
    std::uint64_t total_, tenths_ = 0;
    Beat beat_;
    MonotonicClock::time_point said_;
};

/// Touches each reserved pool, piece by piece: the kernel clears the memory now and not under the first
/// store. Of pools on a tmpfs it asks the kernel to gather the pieces into 2 MiB pages on the way
/// (MADV_COLLAPSE, Linux 6.1; it needs no switch in /sys). The log tells the start, the progress and the end.
///
/// Promise: no byte changes, and what has memory already costs a look. Devices are left out: their memory is
///          there.
/// Cost:    for gathered pieces a copy, once; an access to the very piece that is being gathered waits for
/// it. Errors:  are logged; what cannot be made ready is as it was. Death:   of the daemon leaves some pieces
/// ready and some not; they hold the same bytes. Threads: the owner's, and some of its own that the
/// destructor stops (within one piece) and joins.
class Prefault {
  public:
    /// By the number of a pool's entry: what the config says of pools[i] is configs[i]. A pool with prefault
    /// "all" is made ready here and now, unless a signal to end is pending, with "background" in a thread,
    /// with "none" not at all. `in_use`: clients wait for a daemon; then "all" is done in the background,
    /// too.
    ///
    /// `locked` is a mapping that outlives this (MemoryLock): it is touched last, in the background and
    /// unless the first pool has "none", since its lock begins for each page with that.
    Prefault(const std::vector<std::unique_ptr<pool::Pool>>& pools,
             const std::vector<pool::PoolConfig>& configs, bool in_use, std::span<std::byte> locked = {},
             Progress::Beat beat = {});
    ~Prefault();
    Prefault(const Prefault&) = delete;
    Prefault& operator=(const Prefault&) = delete;

    /// A pool that was added, in a thread of its own, whether "background" or "all".
    void add(std::size_t number, const pool::Pool& pool, const pool::PoolConfig& wanted);
    /// A pool that leaves: its memory is let go of.
    void forget(std::size_t number);

    /// Bytes of a pool that lie in large pages, as far as they were gathered here.
    std::uint64_t gathered(std::size_t pool) const;

  private:
    struct Source;  // what is needed of a pool, apart from the pool's own life
    struct Run;     // one pool's being made ready
    void run(std::vector<std::unique_ptr<Source>>& sources, pool::Prefault when, bool serving);
    void make_ready(const Source& source, bool serving);
    void touch(std::span<std::byte> locked) const;
    bool is_stopped(const Source& source, bool serving) const;

    Progress::Beat beat_;
    std::array<std::atomic<std::uint64_t>, table::max_pools> gathered_{};
    std::array<std::atomic<bool>, table::max_pools> forgotten_{};
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

}  // namespace maru::daemon
