// Which program a process runs, as a number that changes with exec.
#pragma once

#include <cstdint>
#include <cstring>

namespace maru {

inline constexpr int exec_random_bytes = 16;  // that the kernel draws at each exec (AT_RANDOM)

/// A digest of the first half of these bytes: they also seed the stack protector, so that no more of them
/// leaves the process.
inline std::uint64_t exec_stamp_from(const unsigned char (&random)[exec_random_bytes]) {
    std::uint64_t stamp = 0;
    std::memcpy(&stamp, random, sizeof stamp);
    stamp ^= stamp >> 33;
    stamp *= 0xff51afd7ed558ccdULL;
    return (stamp >> 32 ^ stamp) & 0xffffffff;
}

}  // namespace maru
