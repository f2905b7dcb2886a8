// Keys as people write and read them. The bytes of a key are free; three spellings cover them all:
//   text      the bytes as they stand: UTF-8 without control characters, not beginning with "hex:" or "int:"
//   hex:...   any bytes, two digits each
//   int:...   a signed 64-bit number: the key is "\0i" and eight bytes, little-endian
// What `key_text` writes, `parse_key` reads back.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace maru::wire {

inline constexpr std::string_view integer_key_prefix{"\0i", 2};
inline constexpr std::size_t integer_key_bytes = 10;

inline std::string hex_of(std::string_view bytes) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes.size());
    for (const char byte : bytes) {
        text += digits[static_cast<unsigned char>(byte) >> 4];
        text += digits[static_cast<unsigned char>(byte) & 15];
    }
    return text;
}

inline Result<std::string> bytes_of_hex(std::string_view digits) {
    const auto value_of = [](char digit) {
        if (digit >= '0' && digit <= '9') return digit - '0';
        if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
        if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
        return -1;
    };
    if (digits.size() % 2 != 0)
        return Error{Code::invalid,
                     "hex: takes two digits for each byte, not " + std::to_string(digits.size()) + " digits"};
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        const int high = value_of(digits[i]), low = value_of(digits[i + 1]);
        if (high < 0 || low < 0)
            return Error{Code::invalid, "digits " + std::to_string(i + 1) + " and " + std::to_string(i + 2) +
                                            " after hex: are not hexadecimal (0-9, a-f)"};
        bytes += static_cast<char>(high << 4 | low);
    }
    return bytes;
}

inline std::string integer_key(std::int64_t number) {
    std::string bytes(integer_key_prefix);
    const auto bits = static_cast<std::uint64_t>(number);
    for (int b = 0; b < 8; ++b)
        bytes += static_cast<char>(bits >> (8 * b) & 0xff);
    return bytes;
}

/// The bytes of a key that a person wrote. Does not judge the length.
inline Result<std::string> parse_key(std::string_view text) {
    if (text.substr(0, 4) == "hex:") return bytes_of_hex(text.substr(4));
    if (text.substr(0, 4) != "int:") return std::string(text);
    const auto digits = text.substr(4);
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (problem != std::errc{} || end != digits.data() + digits.size())
        return Error{
            Code::invalid,
            "int: takes a whole number from -9223372036854775808 to 9223372036854775807; for a text that "
            "begins with \"int:\" write hex:"};
    return integer_key(number);
}

/// Length of the UTF-8 character at the head of `text` when a terminal shows it as one visible character or a
/// space and does nothing else with it; 0 for control characters, text direction marks and broken sequences.
inline std::size_t printable_length(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
    };
    const std::uint32_t first = byte(0);
    if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
    const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                               : first >= 0xe0 && first < 0xf0 ? 3
                               : first >= 0xf0 && first < 0xf5 ? 4
                                                               : 0;
    if (length == 0 || text.size() < length) return 0;
    std::uint32_t point = first & (0xffu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        point = point << 6 | (byte(i) & 0x3f);
    }
    constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[length] || point > 0x10ffff) return 0;
    const auto within = [point](std::uint32_t from, std::uint32_t to) {
        return point >= from && point <= to;
    };
    if (within(0x80, 0xa0) || within(0xd800, 0xdfff) || within(0xe000, 0xf8ff) || within(0xfff0, 0xffff))
        return 0;
    if (point == 0xad || point == 0x61c || point == 0xfeff || within(0x200b, 0x200f) ||
        within(0x2028, 0x202f) || within(0x2060, 0x206f) || within(0xe0000, 0xe0fff))
        return 0;
    return length;
}

/// Any bytes as a line that is safe on a terminal: what is not printable becomes \xNN, a backslash two.
inline std::string printable(std::string_view bytes) {
    std::string text;
    while (!bytes.empty()) {
        const auto length = printable_length(bytes);
        if (bytes[0] == '\\') {
            text += "\\\\";
        } else if (length == 0) {
            text += "\\x" + hex_of(bytes.substr(0, 1));
        } else {
            text += bytes.substr(0, length);
        }
        bytes.remove_prefix(length == 0 ? 1 : length);
    }
    return text;
}

inline bool is_printable(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto length = printable_length(bytes);
        if (length == 0) return false;
        bytes.remove_prefix(length);
    }
    return true;
}

/// A key as a person would write it.
inline std::string key_text(std::string_view bytes) {
    if (bytes.size() == integer_key_bytes && bytes.substr(0, 2) == integer_key_prefix) {
        std::uint64_t bits = 0;
        for (std::size_t b = 0; b < 8; ++b)
            bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[2 + b])) << (8 * b);
        return "int:" + std::to_string(static_cast<std::int64_t>(bits));
    }
    const auto head = bytes.substr(0, 4);
    if (!bytes.empty() && head != "hex:" && head != "int:" && is_printable(bytes)) return std::string(bytes);
    return "hex:" + hex_of(bytes);
}

}  // namespace maru::wire
