// The simulator's shared memory: each access is a step of its scheduler.
//
// Takes the place of the product's Word when MARU_STEPPED is defined. A Word gives away neither a reference
// nor a pointer to what it holds and converts to nothing, so that shared memory cannot be reached around the
// scheduler (compile_fail/ shows that).
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace maru::sim {

/// One access, as the scheduler sees it. Values are widened to 64 bits.
std::uint64_t stepped_load(const void* place, unsigned bytes, std::memory_order order);
void stepped_store(void* place, unsigned bytes, std::uint64_t value, std::memory_order order);
enum class Change { exchange, fetch_or, fetch_and, fetch_add };
std::uint64_t stepped_change(void* place, unsigned bytes, Change change, std::uint64_t operand,
                             std::memory_order order);
bool stepped_compare_exchange(void* place, unsigned bytes, std::uint64_t expected, std::uint64_t desired,
                              std::memory_order order);
void stepped_fence(std::memory_order order);
void stepped_pause();

}  // namespace maru::sim

namespace maru::shm {

template <class T>
class Word {
    static_assert(std::is_unsigned_v<T>, "shared memory holds fixed-width unsigned words");

  public:
    Word() = default;
    Word(const Word&) = delete;
    Word& operator=(const Word&) = delete;

    T load(std::memory_order order) const {
        return static_cast<T>(sim::stepped_load(&value_, sizeof(T), order));
    }
    void store(T value, std::memory_order order) { sim::stepped_store(&value_, sizeof(T), value, order); }
    T exchange(T value, std::memory_order order) { return change(sim::Change::exchange, value, order); }
    bool compare_exchange(T expected, T desired, std::memory_order order = std::memory_order_seq_cst) {
        return sim::stepped_compare_exchange(&value_, sizeof(T), expected, desired, order);
    }
    T fetch_or(T bits, std::memory_order order) { return change(sim::Change::fetch_or, bits, order); }
    T fetch_and(T bits, std::memory_order order) { return change(sim::Change::fetch_and, bits, order); }
    T fetch_add(T more, std::memory_order order) { return change(sim::Change::fetch_add, more, order); }
    void add_unshared(T more) {
        store(static_cast<T>(load(std::memory_order_relaxed) + more), std::memory_order_relaxed);
    }
    void prefetch() const {}

  private:
    T change(sim::Change what, T operand, std::memory_order order) {
        return static_cast<T>(sim::stepped_change(&value_, sizeof(T), what, operand, order));
    }
    T value_{};
};

inline constexpr std::memory_order fenced_load = std::memory_order_relaxed;
inline void fence(std::memory_order order) {
    sim::stepped_fence(order);
}
inline void pause() {
    sim::stepped_pause();
}

}  // namespace maru::shm
