// Stackful fibers on one thread: the actors of a simulation.
#pragma once

#include <cstddef>
#include <memory>

namespace maru::sim {

/// A context of execution with a stack of its own. Not for several threads.
class Fiber {
  public:
    /// Prepares `body(argument)` to run at the first switch to it. `body` must never return.
    void prepare(void (*body)(void*), void* argument);
    /// Leaves the running context, kept in `from`, for `to`.
    static void change(Fiber& from, Fiber& to);

  private:
    static constexpr std::size_t stack_bytes = 128 * 1024;
    void* stack_pointer_ = nullptr;
    std::unique_ptr<std::byte[]> stack_;
};

}  // namespace maru::sim
