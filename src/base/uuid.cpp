#include "base/uuid.hpp"

#include <sys/random.h>

#include <cstdlib>

namespace maru {
namespace {

void fill_random(void* memory, std::size_t size) {
    auto* at = static_cast<std::uint8_t*>(memory);
    while (size > 0) {
        const ssize_t got = getrandom(at, size, 0);
        if (got < 0) continue;  // EINTR only: the flags are 0 and the pointer is ours
        at += got;
        size -= static_cast<std::size_t>(got);
    }
}

int hex_digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return -1;
}

}  // namespace

Uuid Uuid::random() {
    Uuid made;
    fill_random(made.bytes.data(), made.bytes.size());
    made.bytes[6] = static_cast<std::uint8_t>((made.bytes[6] & 0x0f) | 0x40);
    made.bytes[8] = static_cast<std::uint8_t>((made.bytes[8] & 0x3f) | 0x80);
    return made;
}

Result<Uuid> Uuid::parse(std::string_view text) {
    const Error bad{Code::invalid, "\"" + std::string(text) + "\" is not a UUID"};
    Uuid made;
    std::size_t nibbles = 0;
    for (const char letter : text) {
        if (letter == '-') continue;
        const int digit = hex_digit(letter);
        if (digit < 0 || nibbles >= 32) return bad;
        auto& byte = made.bytes[nibbles / 2];
        byte = static_cast<std::uint8_t>(byte << 4 | digit);
        ++nibbles;
    }
    if (nibbles != 32) return bad;
    return made;
}

std::string Uuid::text() const {
    constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
        out += digits[bytes[i] >> 4];
        out += digits[bytes[i] & 15];
    }
    return out;
}

std::uint64_t random_bits() {
    std::uint64_t bits = 0;
    fill_random(&bits, sizeof bits);
    return bits;
}

}  // namespace maru
