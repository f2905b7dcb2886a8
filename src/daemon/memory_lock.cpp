#include "daemon/memory_lock.hpp"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/size.hpp"

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif

namespace maru::daemon {
namespace {

bool has_swap(const std::string& meminfo) {
    const auto at = meminfo.find("SwapTotal:");
    return at == std::string::npos || std::strtoull(meminfo.c_str() + at + 10, nullptr, 10) != 0;
}

std::string why_refused(std::uint64_t bytes, int reason) {
    rlimit limit{};
    const bool known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    const std::string need = "the control region of " + format_size(bytes) + " is not locked in memory";
    // EPERM: a limit of 0. ENOMEM: more than the limit leaves.
    if ((reason == ENOMEM || reason == EPERM) && known && limit.rlim_cur < bytes)
        return need + ": the limit of locked memory (RLIMIT_MEMLOCK) is " + format_size(limit.rlim_cur);
    return need + ": " + std::strerror(reason);
}

}  // namespace

MemoryLock lock_memory(std::span<std::byte> memory, const std::string& meminfo) {
    MemoryLock lock;
    if (::mlock2(memory.data(), memory.size(), MLOCK_ONFAULT) == 0) {
        lock.bytes = memory.size();
        return lock;
    }
    const std::string refusal = why_refused(memory.size(), errno);
    if (!has_swap(meminfo)) {
        spdlog::info("{}; without swap on this machine that makes no difference", refusal);
        return lock;
    }
    lock.refusal = refusal;
    spdlog::warn(
        "{}; lookups wait for the disk when the kernel swaps it out: raise the limit (LimitMEMLOCK= in "
        "the unit, ulimit -l), or turn swap off",
        refusal);
    return lock;
}

MemoryLock lock_control(const Domain& domain) {
    const auto& pool = *domain.pools.front();
    const bool can_be_swapped = pool.kind() == pool::Kind::shm || pool.kind() == pool::Kind::numa;
    if (!can_be_swapped || domain.configs.empty() || !domain.configs.front().reserve) return {};
    std::ifstream file("/proc/meminfo");
    const std::string meminfo{std::istreambuf_iterator<char>(file), {}};
    return lock_memory(domain.mapping.bytes().first(domain.control->control_bytes()), meminfo);
}

}  // namespace maru::daemon
