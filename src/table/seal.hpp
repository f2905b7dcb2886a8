// What ties the fields of an object's record together.
#pragma once

#include <cstdint>

#include "table/control.hpp"

namespace maru::table {

// A seal is a keyless hash over generation, key length, hash, value length and namespace epoch, and over the
// first key_inline_max bytes of a key that is longer. Where a domain keeps no checksums of values it stands
// in their place, never zero: it tells a whole record from a damaged one, and from what a freed page still
// says, without the index.

/// What the record of an object that is about to be published is sealed with.
std::uint64_t record_seal(const Key& key, std::uint32_t generation, std::uint64_t length);
/// What a record that stands still would have to be sealed with.
std::uint64_t record_seal(const PageRecord& record, std::uint32_t generation);

}  // namespace maru::table
