// Copies of payload into and out of shared memory.
#pragma once

#include <cstddef>

namespace maru::shm {

/// From this many bytes on `copy_in` writes past the caches. Measured with `maru-bench put --sweep`: below it
/// the target usually still is in the cache and a reader profits; above it write-allocate traffic costs more.
inline constexpr std::size_t streaming_copy_min = 256 * 1024;

/// Copies into shared memory. Large copies use non-temporal stores and end with the store fence they need, so
/// that a publication that follows (a release operation) orders them.
void copy_in(void* to, const void* from, std::size_t size);

/// The streaming part alone, for any size; ends with a store fence.
void copy_streaming(void* to, const void* from, std::size_t size);

}  // namespace maru::shm
