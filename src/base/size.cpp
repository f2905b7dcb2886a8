#include "base/size.hpp"

#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>

namespace maru {
namespace {

std::string_view trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();  // what a file offset holds

struct Quantity {
    std::uint64_t whole;
    double fraction;  // below 1
    std::string_view unit;

    /// Whole units exactly: a number of bytes must not pass through a double.
    std::optional<std::uint64_t> times(std::uint64_t scale) const {
        const auto part = static_cast<std::uint64_t>(fraction * static_cast<double>(scale));
        if (whole > (largest - part) / scale) return std::nullopt;
        return whole * scale + part;
    }
};

Result<Quantity> split(std::string_view text, const char* what) {
    const auto body = trim(text);
    const char* const end = body.data() + body.size();
    Quantity parts{0, 0, {}};
    const auto whole = std::from_chars(body.data(), end, parts.whole);
    if (whole.ec == std::errc::result_out_of_range)
        return Error{Code::invalid, "\"" + std::string(text) + "\" is too large for a " + what};
    const char* at = whole.ptr;
    if (whole.ec == std::errc{} && at != end && *at == '.') {
        const auto fraction = std::from_chars(at, end, parts.fraction, std::chars_format::fixed);
        if (fraction.ec == std::errc::result_out_of_range) parts.fraction = 0;  // smaller than any double
        if (fraction.ec == std::errc::invalid_argument)
            at = nullptr;
        else
            at = fraction.ptr;
    }
    if (whole.ec != std::errc{} || at == nullptr)
        return Error{Code::invalid, "\"" + std::string(text) + "\" is not a " + what};
    parts.unit = trim(body.substr(static_cast<std::size_t>(at - body.data())));
    return parts;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
    const auto parts = split(text, "size (write 4GiB, 500M or a number of bytes)");
    if (!parts) return parts.error();
    std::string unit;
    for (const char letter : parts->unit)
        unit += static_cast<char>(letter & ~0x20);
    int power = -1;
    constexpr std::string_view prefixes = "KMGTP";
    if (unit.empty() || unit == "B") {
        power = 0;
    } else if (const auto at = prefixes.find(unit[0]); at != std::string_view::npos) {
        const auto rest = unit.substr(1);
        if (rest.empty() || rest == "B" || rest == "IB") power = static_cast<int>(at) + 1;
    }
    if (power < 0)
        return Error{Code::invalid,
                     "\"" + std::string(text) + "\" is not a size: unknown unit (use KiB, MiB, GiB or TiB)"};
    const auto bytes = parts->times(std::uint64_t{1} << (10 * power));
    if (!bytes) return Error{Code::invalid, "\"" + std::string(text) + "\" is too large for a size"};
    return *bytes;
}

std::string format_size(std::uint64_t bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < KiB) return std::to_string(bytes) + " B";
    double number = static_cast<double>(bytes);
    int unit = 0;
    while (number >= 1024 && unit < 6) {
        number /= 1024;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %s", number, units[unit]);
    return text;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
    const auto parts = split(text, "duration (write 500ms, 30s, 5m or 1h)");
    if (!parts) return parts.error();
    std::uint64_t scale = 0;
    if (parts->unit == "ms") scale = 1;
    if (parts->unit == "s" || parts->unit.empty()) scale = 1'000;
    if (parts->unit == "m" || parts->unit == "min") scale = 60'000;
    if (parts->unit == "h") scale = 3'600'000;
    if (parts->unit == "d") scale = 86'400'000;
    if (scale == 0)
        return Error{Code::invalid,
                     "\"" + std::string(text) + "\" is not a duration: unknown unit (use ms, s, m, h or d)"};
    const auto span = parts->times(scale);
    if (!span) return Error{Code::invalid, "\"" + std::string(text) + "\" is too large for a duration"};
    return std::chrono::milliseconds(static_cast<std::int64_t>(*span));
}

}  // namespace maru
