// When an object was published, in the domain's seconds, and how long ago that is.
#pragma once

#include <cstdint>

#include "table/layout.hpp"

namespace maru::table {

// A record has room for 24 bits of the tick. The upper ones are stored plus one: a record without them (0)
// was published by an earlier build, and tells its age modulo 2^16 seconds alone.
inline constexpr std::uint64_t tick_low_range = 1u << 16;
inline constexpr std::uint64_t tick_high_range = 255;
inline constexpr std::uint64_t tick_range = tick_low_range * tick_high_range;
/// A publisher may have read a later tick than who asks for the age.
inline constexpr std::uint64_t tick_slack = 3600;
/// Ages are right up to here, 193 days; an older object's age begins anew.
inline constexpr std::uint64_t age_max_s = tick_range - tick_slack;

inline std::uint16_t tick_low(std::uint64_t tick) {
    return static_cast<std::uint16_t>(tick % tick_low_range);
}
inline std::uint8_t tick_high(std::uint64_t tick) {
    return static_cast<std::uint8_t>(1 + tick / tick_low_range % tick_high_range);
}

/// Seconds since the publication of what the record holds, as of `now`; never more than there are. Seconds in
/// which no daemon ran are not counted. The caller looks at the record's generation afterwards.
inline std::uint64_t age_of(const PageRecord& record, std::uint64_t now) {
    // Relaxed: pairs with nothing; the state word that the caller reads orders it.
    const std::uint64_t low = record.publication_tick.load(shm::relaxed);
    const std::uint64_t high = record.publication_high.load(shm::relaxed);
    if (high == 0) return static_cast<std::uint16_t>(now - low);
    const std::uint64_t then = (high - 1) * tick_low_range + low;
    const std::uint64_t age = (now % tick_range + tick_range - then % tick_range) % tick_range;
    return age > age_max_s ? 0 : age;
}

}  // namespace maru::table
