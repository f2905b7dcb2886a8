// Cache-line flushes over ranges of shared memory, for hosts that no fabric keeps coherent: payload of
// `software` domains, and the device header always. A `local` or `hardware` domain needs none of this.
//
// The range is widened to whole lines: its start is rounded down, its end up; length 0 does nothing. Each
// function ends with the fence that it needs. The instruction is the best that the processor has (clwb,
// clflushopt or clflush; dc cvac, dc civac), chosen at run time.
//
// Threads: any. Errors: none; the range must be mapped. A crash in the middle leaves some lines flushed,
// which is what the memory may look like at any time anyway.
#pragma once

#include <cstddef>

#include "shm/cache_line.hpp"

namespace maru::shm {

/// The writer's half: what this host stored in the range is in the memory itself, where other hosts find it,
/// before any later store or message of this thread. The lines may stay cached.
void write_back(const void* at, std::size_t size);

/// Before memory changes hands: no line of the range is left in this host's caches, so none can land on the
/// next owner's data later. Ordered before any later load or store of this thread.
void write_back_and_invalidate(const void* at, std::size_t size);

/// The reader's half, before it loads: the next loads come from the memory itself. The processor may fetch
/// lines again at any time, so a reader validates a generation or a checksum after it has loaded.
/// No instruction that a process may use drops a dirty line: this one would write it back.
void invalidate_before_read(const void* at, std::size_t size);

/// Stores `size` bytes where other hosts will read them: stores, then write_back.
void store_across(void* to, const void* from, std::size_t size);

/// Loads `size` bytes that other hosts may have written: invalidate_before_read, then loads. What it returns
/// may be torn; the caller validates it (a checksum, or a generation read afterwards).
void load_across(void* to, const void* from, std::size_t size);

}  // namespace maru::shm
