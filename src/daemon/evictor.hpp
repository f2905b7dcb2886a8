// Memory that is free ahead of demand.
#pragma once

#include "daemon/hosts.hpp"
#include "daemon/loop.hpp"
#include "table/regions.hpp"

namespace maru::daemon {

/// Evicts when less than eviction.low_free of the domain's memory is free, until eviction.high_free is.
///
/// Promise: no request waits for longer than one slice, a millisecond or two. What is leased or pinned stays.
/// Hosts:   only the one that leads (Hosts::leads) evicts, so that several do not evict the same shortage
///          away twice; its config counts. While it stands still, stores evict for themselves.
/// Bound:   two rounds of the hand without an eviction are one warning, then rest for `rest_when_stuck`.
/// Death:   at any instruction: a victim is decided or stays, as with every evictor (sweep.hpp).
/// Threads: the loop's.
class Evictor {
  public:
    Evictor(Loop& loop, table::Worker& worker, const Hosts& hosts, const Config& config);
    ~Evictor();
    Evictor(const Evictor&) = delete;
    Evictor& operator=(const Evictor&) = delete;

    /// Looks how much is free. Called while clients are at work: without work nothing becomes less.
    void look();

  private:
    static constexpr std::chrono::seconds rest_when_stuck{10};

    bool is_wanted() const;
    std::uint64_t part_of(const table::Room& room, double percent) const;
    void slice();
    void stuck(const table::Room& room);
    void ended();

    Loop& loop_;
    table::Worker& worker_;
    const Hosts& hosts_;
    const Config& config_;
    Operation timer_ = 0;   // the next slice; 0: enough is free
    table::Evicted done_;   // in this run of slices
    table::Evicted round_;  // since the last eviction, or the last whole round of the hand
    int rounds_ = 0;        // of those, without an eviction
    bool warned_ = false;   // since something could be evicted last
    Deadline resting_until_{};
};

}  // namespace maru::daemon
