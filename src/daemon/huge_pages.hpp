// Large pages behind pools whose memory came in small ones.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "pool/pool.hpp"
#include "table/limits.hpp"

namespace maru::daemon {

/// Asks the kernel, piece by piece and beside the loop, to gather each reserved pool into 2 MiB pages
/// (MADV_COLLAPSE, Linux 6.1; it needs no switch in /sys). What cannot be gathered stays as it is.
///
/// Cost:    a copy of the pool, once; an access to the very piece that is being gathered waits for it.
/// Death:   of the daemon leaves some pieces gathered and some not; both hold the same bytes.
/// Threads: the owner's, and some of its own that the destructor stops and joins.
class HugePages {
  public:
    /// By the number of a pool's entry: what the config says of pools[i] is configs[i]. With prefault "all"
    /// the pool is gathered here and now, with "none" not at all. `in_use`: the domain was there before, and
    /// its clients wait for a daemon; then nothing is gathered now that can be gathered later.
    HugePages(const std::vector<std::unique_ptr<pool::Pool>>& pools,
              const std::vector<pool::PoolConfig>& configs, bool in_use);
    ~HugePages();
    HugePages(const HugePages&) = delete;
    HugePages& operator=(const HugePages&) = delete;

    /// A pool that was added, in a thread of its own.
    void add(std::size_t number, const pool::Pool& pool, const pool::PoolConfig& wanted);
    /// A pool that leaves: its memory is let go of.
    void forget(std::size_t number);

    /// Bytes of a pool that lie in large pages, as far as they were gathered here.
    std::uint64_t gathered(std::size_t pool) const;

  private:
    struct Source;  // what is needed of a pool, apart from the pool's own life
    void run(std::vector<std::unique_ptr<Source>>& sources, pool::Prefault when);
    void gather(const Source& source);

    std::array<std::atomic<std::uint64_t>, table::max_pools> gathered_{};
    std::array<std::atomic<bool>, table::max_pools> forgotten_{};
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

}  // namespace maru::daemon
