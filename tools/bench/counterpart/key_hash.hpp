// Counterpart: XXH3-128 of a key, the least that any lookup by content has to do.
#pragma once

#include <xxhash.h>

#include <string_view>

#include "stopwatch.hpp"

namespace maru::bench {

inline void hash_key(std::string_view key) {
    const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
    keep(hash.low64);
    keep(hash.high64);
}

}  // namespace maru::bench
