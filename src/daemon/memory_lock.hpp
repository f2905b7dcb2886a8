// The control region kept from being swapped out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/domain.hpp"

namespace maru::daemon {

struct MemoryLock {
    std::uint64_t bytes = 0;  // locked
    std::string refusal;      // why not, with the limit and the need; empty: locked, or nothing to fear
};

/// Locks memory (mlock2, on fault) as long as it is mapped here: what is present of it at once, the rest as
/// it is touched. Does not wait for anything. A refusal on a machine without swap is only a line in the log.
///
/// `meminfo` is the text of /proc/meminfo.
MemoryLock lock_memory(std::span<std::byte> memory, const std::string& meminfo);
/// The control region of a domain, where it lies on a tmpfs and is reserved: other kinds are never swapped.
MemoryLock lock_control(const Domain& domain);

}  // namespace maru::daemon
