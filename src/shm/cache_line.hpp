// One cache line at a time: the instructions that flush.hpp and the protocols across hosts are made of.
//
// Memory that several hosts map without a fabric that keeps them coherent is touched through these functions
// and no others. In the simulator's build (MARU_SIMULATED_CACHES) the same names work on caches of simulated
// hosts (tests/sim/caches), so that the code above them is the code that ships.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maru::shm {
/// The unit in which hosts see each other's writes. Fields that different hosts write never share one.
inline constexpr std::size_t cache_line = 64;
}  // namespace maru::shm

#ifdef MARU_SIMULATED_CACHES
#include "simulated_line.hpp"
#else

#include <cstring>

namespace maru::shm {

/// What this processor writes lines back with; found once, at the first use.
struct FlushInstructions {
    enum class Kind : std::uint8_t { clwb, clflushopt, clflush, dc_cvac, dc_civac };
    Kind write_back;     ///< leaves the line in the cache where the processor can
    Kind invalidate;     ///< writes the line back if it is dirty, then drops it
    std::size_t stride;  ///< one instruction for each so many bytes; cache_line or less
    const char* names;   ///< of both, for people: "clwb, clflushopt"
};
const FlushInstructions& flush_instructions();

namespace line {

/// Ordinary loads and stores; they meet whatever the caches of this host hold.
inline void load(void* to, const void* from, std::size_t size) {
    std::memcpy(to, from, size);
}
inline void store(void* to, const void* from, std::size_t size) {
    std::memcpy(to, from, size);
}

/// Stores whole lines past the caches where the processor can; returns how many bytes, from the start: a
/// multiple of cache_line, 0 where it cannot. `to` is aligned to cache_line. Not ordered before a
/// store_fence.
std::size_t stream(void* to, const void* from, std::size_t size);

/// One instruction on the line that holds `byte`.
inline void flush(const volatile char* byte, FlushInstructions::Kind kind) {
    using Kind = FlushInstructions::Kind;
#if defined(__x86_64__)
    if (kind == Kind::clwb)
        asm volatile("clwb %0" ::"m"(*byte) : "memory");
    else if (kind == Kind::clflushopt)
        asm volatile("clflushopt %0" ::"m"(*byte) : "memory");
    else
        asm volatile("clflush %0" ::"m"(*byte) : "memory");
#elif defined(__aarch64__)
    if (kind == Kind::dc_cvac)
        asm volatile("dc cvac, %0" ::"r"(byte) : "memory");
    else
        asm volatile("dc civac, %0" ::"r"(byte) : "memory");
#else
#error "maru knows how to flush cache lines on x86-64 and AArch64 only"
#endif
}

/// Begins to write the line at `at` back, which is aligned to cache_line. Not complete before a fence.
inline void write_back(const void* at) {
    const FlushInstructions& with = flush_instructions();
    for (std::size_t part = 0; part < cache_line; part += with.stride)
        flush(static_cast<const volatile char*>(at) + part, with.write_back);
}

/// Begins to write the line at `at` back and to drop it. Not complete before a fence; a load before a
/// full_fence may still meet the line.
inline void invalidate(const void* at) {
    const FlushInstructions& with = flush_instructions();
    for (std::size_t part = 0; part < cache_line; part += with.stride)
        flush(static_cast<const volatile char*>(at) + part, with.invalidate);
}

/// Orders earlier stores, streams and write-backs of this thread before its later stores.
inline void store_fence() {
#if defined(__x86_64__)
    asm volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
    asm volatile("dsb sy" ::: "memory");  // a dmb does not wait for cache maintenance
#endif
}

/// Completes earlier loads of this thread before its later loads, stores and messages.
inline void load_fence() {
#if defined(__x86_64__)
    asm volatile("" ::: "memory");  // loads stay in order, and before later stores
#elif defined(__aarch64__)
    asm volatile("dmb ld" ::: "memory");
#endif
}

/// Orders everything earlier before everything later, loads too: a load after it meets no line that an
/// invalidation before it has dropped.
inline void full_fence() {
#if defined(__x86_64__)
    asm volatile("mfence" ::: "memory");
#elif defined(__aarch64__)
    asm volatile("dsb sy" ::: "memory");
#endif
}

}  // namespace line
}  // namespace maru::shm
#endif  // MARU_SIMULATED_CACHES
