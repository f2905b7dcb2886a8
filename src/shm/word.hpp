// The one way to touch shared memory.
//
// Every field that two processes can see is a Word. In the product a Word is a std::atomic and costs nothing
// more. In the simulator's build (MARU_STEPPED) the same name is a class whose accesses are steps of a
// scheduler; there is no way round it, since a Word gives away no reference to what it holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#ifdef MARU_STEPPED
#include "stepped_word.hpp"
#else

namespace maru::shm {

template <class T>
class Word {
    static_assert(std::is_unsigned_v<T>, "shared memory holds fixed-width unsigned words");
    static_assert(std::atomic<T>::is_always_lock_free, "a lock in shared memory would outlive its owner");

  public:
    T load(std::memory_order order) const { return value_.load(order); }
    void store(T value, std::memory_order order) { value_.store(value, order); }
    T exchange(T value, std::memory_order order) { return value_.exchange(value, order); }

    /// Strong compare-and-swap; true when `expected` was found and `desired` is in place.
    /// A failed one orders nothing unless `order` is seq_cst or acquire.
    bool compare_exchange(T expected, T desired, std::memory_order order = std::memory_order_seq_cst) {
        return value_.compare_exchange_strong(expected, desired, order, failure_order(order));
    }
    T fetch_or(T bits, std::memory_order order) { return value_.fetch_or(bits, order); }
    T fetch_and(T bits, std::memory_order order) { return value_.fetch_and(bits, order); }
    T fetch_add(T more, std::memory_order order) { return value_.fetch_add(more, order); }

    /// Adds to a word that only the calling thread writes: a load and a store, no locked instruction.
    void add_unshared(T more) {
        value_.store(static_cast<T>(value_.load(std::memory_order_relaxed) + more),
                     std::memory_order_relaxed);
    }
    /// Brings the word's cache line near; never faults, changes nothing.
    void prefetch() const { __builtin_prefetch(&value_, 0, 3); }

  private:
    static constexpr std::memory_order failure_order(std::memory_order order) {
        if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
        if (order == std::memory_order_release) return std::memory_order_relaxed;
        return order;
    }
    std::atomic<T> value_{};
};

#if defined(__SANITIZE_THREAD__)
#define MARU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MARU_TSAN 1
#endif
#endif

#ifdef MARU_TSAN
// ThreadSanitizer does not model fences: there the loads around a fence carry the order themselves.
inline constexpr std::memory_order fenced_load = std::memory_order_seq_cst;
inline void fence(std::memory_order) {}
#else
/// Order of a load whose ordering comes from a fence beside it.
inline constexpr std::memory_order fenced_load = std::memory_order_relaxed;
inline void fence(std::memory_order order) {
    std::atomic_thread_fence(order);
}
#endif

/// A polite turn of a bounded wait.
inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace maru::shm
#endif  // MARU_STEPPED

namespace maru::shm {
using Word8 = Word<std::uint8_t>;
using Word16 = Word<std::uint16_t>;
using Word32 = Word<std::uint32_t>;
using Word64 = Word<std::uint64_t>;

// Short names for the orders, so that a comment about the partner fits beside the access.
inline constexpr auto relaxed = std::memory_order_relaxed;
inline constexpr auto acquire = std::memory_order_acquire;
inline constexpr auto release = std::memory_order_release;
inline constexpr auto acq_rel = std::memory_order_acq_rel;
inline constexpr auto seq_cst = std::memory_order_seq_cst;
}  // namespace maru::shm
