// What the daemon counts and times of its own work.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace maru::daemon {

/// How often something took how long. Threads: one.
struct Durations {
    /// Upper ends of the buckets, in seconds; the last bucket has none.
    static constexpr std::array<double, 13> bounds_s{1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2,
                                                     3e-2, 0.1,  0.3,  1,    3,    10};
    std::array<std::uint64_t, bounds_s.size() + 1> counts{};
    double sum_s = 0;

    void add(MonotonicClock::duration span) {
        const double seconds = std::chrono::duration<double>(span).count();
        std::size_t bucket = 0;
        while (bucket < bounds_s.size() && seconds > bounds_s[bucket])
            ++bucket;
        ++counts[bucket];
        sum_s += seconds;
    }
};

/// The kinds of requests, as metrics name them; the last is for frames that are no request.
inline constexpr std::array<const char*, 8> request_kinds{"hello", "resume", "claim", "give_back",
                                                          "bye",   "ping",   "admin", "unknown"};

/// Requests of one kind, from the frame's arrival to its answer.
struct RequestMeasure {
    std::uint64_t done = 0, refused = 0;
    Durations seconds;
};

struct Measures {
    std::array<RequestMeasure, request_kinds.size()> requests;
    std::uint64_t goodbyes = 0;  // sweeps after an orderly end
    Durations sweep_seconds;     // of one client's sweep
};

}  // namespace maru::daemon
