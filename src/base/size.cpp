#include "base/size.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace maru {
namespace {

std::string_view trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

struct Quantity {
    double number;
    std::string_view unit;
};

Result<Quantity> split(std::string_view text, const char* what) {
    const auto body = trim(text);
    double number = 0;
    const auto [end, problem] = std::from_chars(body.data(), body.data() + body.size(), number,
                                                std::chars_format::fixed);
    if (problem != std::errc{} || !std::isfinite(number) || number < 0)
        return Error{Code::invalid, "\"" + std::string(text) + "\" is not a " + what};
    return Quantity{number, trim(body.substr(static_cast<std::size_t>(end - body.data())))};
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
    const auto parts = split(text, "size (write 4GiB, 500M or a number of bytes)");
    if (!parts) return parts.error();
    std::string unit;
    for (const char letter : parts->unit) unit += static_cast<char>(letter & ~0x20);
    int power = -1;
    constexpr std::string_view prefixes = "KMGTP";
    if (unit.empty() || unit == "B") {
        power = 0;
    } else if (const auto at = prefixes.find(unit[0]); at != std::string_view::npos) {
        const auto rest = unit.substr(1);
        if (rest.empty() || rest == "B" || rest == "IB") power = static_cast<int>(at) + 1;
    }
    if (power < 0)
        return Error{Code::invalid, "\"" + std::string(text) +
                                        "\" is not a size: unknown unit (use KiB, MiB, GiB or TiB)"};
    const double bytes = std::ldexp(parts->number, 10 * power);
    if (bytes >= 9.2e18) return Error{Code::invalid, "\"" + std::string(text) + "\" is too large for a size"};
    return static_cast<std::uint64_t>(bytes);
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
    double scale = 0;
    if (parts->unit == "ms") scale = 1;
    if (parts->unit == "s" || parts->unit.empty()) scale = 1e3;
    if (parts->unit == "m" || parts->unit == "min") scale = 60e3;
    if (parts->unit == "h") scale = 3600e3;
    if (parts->unit == "d") scale = 86400e3;
    if (scale == 0)
        return Error{Code::invalid,
                     "\"" + std::string(text) + "\" is not a duration: unknown unit (use ms, s, m, h or d)"};
    if (parts->number * scale >= 9.2e18)
        return Error{Code::invalid, "\"" + std::string(text) + "\" is too large for a duration"};
    return std::chrono::milliseconds(static_cast<std::int64_t>(parts->number * scale));
}

}  // namespace maru
