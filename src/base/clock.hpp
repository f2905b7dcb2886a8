// Durations come from the monotonic clock; wall-clock time is for people only.
#pragma once

#include <chrono>
#include <cstdint>

namespace maru {

using MonotonicClock = std::chrono::steady_clock;
using Deadline = MonotonicClock::time_point;

inline Deadline deadline_after(std::chrono::milliseconds span) {
    return MonotonicClock::now() + span;
}

/// Milliseconds left until a deadline, never negative: what poll(2) takes.
inline int milliseconds_left(Deadline deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - MonotonicClock::now()).count();
    return left < 0 ? 0 : static_cast<int>(left > 3600'000 ? 3600'000 : left);
}

}  // namespace maru
