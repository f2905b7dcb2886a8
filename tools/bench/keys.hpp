// Keys as an engine makes them, lying in memory in the order in which they are used, so that fetching a key
// is not what is measured.
#pragma once

#include <maru/maru.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace maru::bench {

inline constexpr std::size_t key_bytes = 80;

/// Key of object `number`: the same in every process of a benchmark.
void write_key(std::uint64_t number, char* out);

/// `count` keys from object number `first` on, in random order (the seed's) or, with seed 0, in ascending
/// order.
class KeySet {
  public:
    KeySet(std::uint64_t first, std::size_t count, std::uint64_t order_seed);

    std::size_t size() const { return keys_.size(); }
    const char* data(std::size_t i) const { return text_.data() + i * key_bytes; }
    std::string_view text(std::size_t i) const { return {data(i), key_bytes}; }
    /// The same keys as a batch takes them.
    const maru_key* batch(std::size_t i) const { return keys_.data() + i; }

  private:
    std::vector<char> text_;
    std::vector<maru_key> keys_;
};

/// A small generator for orders and places; good enough to defeat prefetchers, the same everywhere.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    /// Uniform below `bound`, up to a bias of bound / 2^64.
    std::uint64_t below(std::uint64_t bound);

  private:
    std::uint64_t state_;
};

}  // namespace maru::bench
