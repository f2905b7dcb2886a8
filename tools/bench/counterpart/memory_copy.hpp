// Counterparts: the C library's copy, and a loop of non-temporal stores as wide as the processor has them.
#pragma once

#include <cstddef>
#include <cstring>

namespace maru::bench {

inline void copy_plain(void* to, const void* from, std::size_t size) {
    std::memcpy(to, from, size);
    asm volatile("" : : "r"(to) : "memory");
}

/// `to` on a cache line, `size` a multiple of 256.
void copy_non_temporal(void* to, const void* from, std::size_t size);

}  // namespace maru::bench
