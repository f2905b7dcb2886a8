// Sizes and durations as people write them: "4GiB", "4G", "1.5TiB", "30s", "500ms".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace maru {

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
constexpr std::uint64_t GiB = 1024 * MiB;
constexpr std::uint64_t TiB = 1024 * GiB;

/// Bytes from "4GiB", "4G", "1.5 TiB", "4096", "100MB". A suffix is binary with or without the "iB"
/// ("G", "GB" and "GiB" all mean 2^30). Fails on anything else, on negative values and on overflow.
Result<std::uint64_t> parse_size(std::string_view text);

/// "1.0 GiB", "64.0 MiB", "512 B": for people, rounded to one decimal.
std::string format_size(std::uint64_t bytes);

/// "500ms", "30s", "5m", "1h"; a bare number is seconds.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
    return value / unit * unit;
}

}  // namespace maru
