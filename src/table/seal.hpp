// What ties the fields of an object's record together.
#pragma once

#include <array>
#include <cstdint>

#include "table/control.hpp"

namespace maru::table {

/// The fields of a record that its seal covers.
struct SealedFields {
    std::uint64_t hash_low = 0, hash_high = 0, length = 0;
    std::uint32_t generation = 0, namespace_epoch = 0;
    std::uint16_t key_length = 0;
    std::array<std::uint64_t, key_inline_max / 8> long_key{};  // of a key that is not here as a whole
};

/// A keyless hash over them. Where a domain keeps no checksums of values it stands in their place, never
/// zero: it tells a whole record from a damaged one, and from what a freed page still says, without the
/// index.
std::uint64_t record_seal(const SealedFields& fields);

/// What the record of an object that is about to be published is sealed with.
std::uint64_t record_seal(const Key& key, std::uint32_t generation, std::uint64_t length);
/// What a record that stands still would have to be sealed with.
std::uint64_t record_seal(const PageRecord& record, std::uint32_t generation);

}  // namespace maru::table
