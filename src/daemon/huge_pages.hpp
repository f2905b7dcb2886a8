// Large pages behind pools whose memory came in small ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "pool/pool.hpp"

namespace maru::daemon {

/// Asks the kernel, piece by piece and beside the loop, to gather each reserved pool into 2 MiB pages
/// (MADV_COLLAPSE, Linux 6.1; it needs no switch in /sys). What cannot be gathered stays as it is.
///
/// Cost:    a copy of the pool, once; an access to the very piece that is being gathered waits for it.
/// Death:   of the daemon leaves some pieces gathered and some not; both hold the same bytes.
/// Threads: the owner's, and one of its own that the destructor stops and joins.
class HugePages {
  public:
    /// `pools` outlives this. `wanted[i]` tells what the config says of pools[i]: with prefault "all" the
    /// pool is gathered here and now, with "none" not at all. `in_use`: the domain was there before, and its
    /// clients wait for a daemon; then nothing is gathered now that can be gathered later.
    HugePages(const std::vector<std::unique_ptr<pool::Pool>>& pools, std::vector<pool::PoolConfig> wanted,
              bool in_use);
    ~HugePages();
    HugePages(const HugePages&) = delete;
    HugePages& operator=(const HugePages&) = delete;

    /// Bytes of a pool that lie in large pages, as far as they were gathered here.
    std::uint64_t gathered(std::size_t pool) const;

  private:
    void run(pool::Prefault when);
    void gather(std::size_t pool);

    const std::vector<std::unique_ptr<pool::Pool>>& pools_;
    const std::vector<pool::PoolConfig> wanted_;
    std::vector<std::atomic<std::uint64_t>> gathered_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace maru::daemon
