// 128-bit identifiers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace maru {

struct Uuid {
    std::array<std::uint8_t, 16> bytes{};

    /// A random version-4 UUID from the kernel's generator.
    static Uuid random();
    static Result<Uuid> parse(std::string_view text);

    std::string text() const;  ///< lower case with hyphens
    bool empty() const { return *this == Uuid{}; }
    friend bool operator==(const Uuid&, const Uuid&) = default;
};

/// 64 random bits from the kernel's generator.
std::uint64_t random_bits();

}  // namespace maru
