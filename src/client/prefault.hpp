// Claimed memory, touched in the background so that the first store does not pay for it.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <span>

namespace maru::client {

/// Ranges that wait to be populated, taken piece by piece.
/// Threads: `add` and `stop` any; `step` one.
class Prefault {
  public:
    void add(std::span<std::byte> range);
    bool pending() const;
    /// Populates one piece, a few milliseconds at most. Changes no byte; a kernel that cannot do it ends the
    /// whole.
    void step();
    void stop();
    /// What lies in this memory is not populated from here on, so that it may be unmapped; waits for a step
    /// that is under way.
    void forget(std::span<const std::byte> memory);

  private:
    std::mutex working_;  // held during a step; taken before the other one
    mutable std::mutex mutex_;
    std::deque<std::span<std::byte>> ranges_;
    bool stopped_ = false;
};

}  // namespace maru::client
