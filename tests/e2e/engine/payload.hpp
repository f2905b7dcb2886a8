// Values that describe themselves: any torn, mixed or misplaced byte is seen.
//
// A value of 8 bytes or more begins with its id; every further word follows from key, id, size and its own
// offset. Shorter values follow from key and size alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace engine {

inline std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

inline std::uint64_t hash_of(std::string_view key) {
    std::uint64_t hash = 0x9E3779B97F4A7C15u + key.size();
    for (const char letter : key)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3u;
    return mixed(hash);
}

/// The words of one value, by their number.
class Pattern {
  public:
    Pattern(std::string_view key, std::uint64_t id, std::uint64_t size)
        : id_(id), base_(mixed(hash_of(key) ^ mixed(id) ^ (size * 0x9E3779B97F4A7C15u))), short_(size < 8) {}

    std::uint64_t word(std::uint64_t number) const {
        if (number == 0 && !short_) return id_;
        const std::uint64_t value = (base_ + number) * 0xD6E8FEB86659FD93u;
        return value ^ (value >> 32);
    }

  private:
    std::uint64_t id_, base_;
    bool short_;
};

/// Short values carry no id.
inline std::uint64_t carried_id(std::uint64_t id, std::uint64_t size) {
    return size < 8 ? 0 : id;
}

inline void fill(void* to, std::string_view key, std::uint64_t id, std::uint64_t size) {
    const Pattern pattern(key, carried_id(id, size), size);
    auto* bytes = static_cast<unsigned char*>(to);
    std::uint64_t number = 0;
    for (; (number + 1) * 8 <= size; ++number) {
        const std::uint64_t word = pattern.word(number);
        std::memcpy(bytes + number * 8, &word, 8);
    }
    const std::uint64_t word = pattern.word(number);
    if (size > number * 8) std::memcpy(bytes + number * 8, &word, size - number * 8);
}

struct Verdict {
    bool right = true;
    std::uint64_t id = 0;
    std::uint64_t offset = 0;  // of the first wrong word
    std::uint64_t found = 0, expected = 0;
};

inline Verdict verify(const void* from, std::string_view key, std::uint64_t size) {
    const auto* bytes = static_cast<const unsigned char*>(from);
    Verdict verdict;
    if (size >= 8) std::memcpy(&verdict.id, bytes, 8);
    const Pattern pattern(key, verdict.id, size);
    for (std::uint64_t number = 0; number * 8 < size; ++number) {
        const std::uint64_t left = size - number * 8 < 8 ? size - number * 8 : 8;
        const std::uint64_t expected = pattern.word(number);
        if (std::memcmp(bytes + number * 8, &expected, left) == 0) continue;
        verdict.right = false;
        verdict.offset = number * 8;
        verdict.expected = expected;
        std::memcpy(&verdict.found, bytes + number * 8, left);
        return verdict;
    }
    return verdict;
}

}  // namespace engine
