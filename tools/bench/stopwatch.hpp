// Times of batches. Reading a clock costs more than a cached lookup, so single operations are never timed.
#pragma once

#include <chrono>
#include <cstdint>

namespace maru::bench {

inline std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
}

/// Adds up several timed stretches with untimed work between them.
class Stopwatch {
  public:
    void start() { started_ns_ = now_ns(); }
    void stop() { total_ns_ += now_ns() - started_ns_; }
    double ns() const { return static_cast<double>(total_ns_); }
    double ns_each(std::uint64_t count) const { return ns() / static_cast<double>(count); }
    double per_second(std::uint64_t count) const { return static_cast<double>(count) * 1e9 / ns(); }

  private:
    std::uint64_t started_ns_ = 0, total_ns_ = 0;
};

/// Runs `work` and returns nanoseconds for each of its `count` operations.
template <class Work>
double time_each_ns(std::uint64_t count, Work&& work) {
    Stopwatch watch;
    watch.start();
    work();
    watch.stop();
    return watch.ns_each(count);
}

/// Keeps the compiler from dropping a computation whose result nobody uses.
template <class T>
inline void keep(const T& value) {
    asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace maru::bench
