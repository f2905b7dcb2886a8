// Steps that forming, taking apart and recovering a region share.
#pragma once

#include "table/regions.hpp"

namespace maru::table {

/// SEALED -> FREE for all of them, with their hints. Repeatable.
void open_records(const Control& control, std::uint32_t first, std::uint32_t count);
/// FREE (or SEALED) -> SEALED with a new generation, one by one; false at the first page that is neither.
bool seal_records(Worker& daemon, std::uint32_t first, std::uint32_t count);
/// Gives units of a run back whose records were never opened or are sealed; the head last.
/// `word` is the head's state word, which names the caller.
void free_units(const Control& control, std::uint32_t first, std::uint32_t count, std::uint64_t word);
/// A region in phase SEALING, given as its state word, all of whose records are SEALED: units and granules go
/// back.
bool free_sealed_region(const Control& control, const RegionView& region, std::uint64_t word);

}  // namespace maru::table
