// Regions: runs of adjacent units, formatted with one page size. Daemons make them and take them apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "table/worker.hpp"

namespace maru::table {

struct RegionView {
    std::uint32_t number = 0;
    RegionPhase phase = RegionPhase::free;
    std::uint32_t pool = 0, unit_count = 0, page_4k = 0, page_count = 0, first_record = 0, name_space = 0;
    std::uint64_t holder = 0;  // holder word, 0: nobody
    std::uint64_t offset = 0;  // in its pool
};
/// A region as it reads now: fields of one phase, never mixed. Nothing for `free` and `part` entries and for
/// damaged ones.
std::optional<RegionView> read_region(const Control& control, std::uint32_t number);

struct PageCounts {
    std::uint64_t of[phase_count] = {};
};
PageCounts count_pages(const Control& control, const RegionView& region);

/// Units a claim of this page size takes, so that at least 8 pages fit (fewer only when no pool has more).
std::uint32_t units_for(const Control& control, std::uint32_t page_4k);
/// Largest page size that a claim accepts, in bytes: a quarter of the largest pool, whole units.
std::uint64_t page_bytes_max(const Control& control);
/// Bytes of whole units that no region holds.
std::uint64_t free_unit_bytes(const Control& control);
/// Bytes of the pools that take new objects, and how many of them a store can have without an eviction: units
/// that no region holds, and FREE pages. A page that is RETIRED is not free yet: somebody reads it. By the
/// hints: right but for what is under way.
struct Room {
    std::uint64_t free = 0, total = 0;
};
Room room_of(const Control& control);

/// Claims a region for `holder`: one without a holder of the same class first, then free units, then, when
/// `may_evict`, units of a region of another class that nobody holds (its objects are evicted).
/// Code full when none of these is to be had; `warning` is set when fewer records were left than pages.
Result<RegionView> claim_region(Worker& daemon, PageClass wanted, std::uint64_t holder, bool may_evict,
                                std::string* warning);

/// A region of the class that nobody holds and that has a free page: no new memory. Nothing when there is
/// none.
std::optional<RegionView> adopt_region(const Control& control, PageClass wanted, std::uint64_t holder);
/// Takes regions of the namespace apart that have pages of another size and that nobody holds: the empty
/// ones, or when there is none and `evict`, the emptiest one. False: there was none.
bool make_room_in_namespace(Worker& daemon, PageClass wanted, bool evict);

/// Takes the holder away from a region (its client left or gave it back); an empty one goes back to free
/// units.
void release_region(Worker& daemon, std::uint32_t number, std::uint64_t holder);

/// Tries to take a region apart: DRAINING, optionally evicting what it holds, sealing every page, units free.
/// False, and the region is HELD again, when a page could not be sealed.
bool dissolve_region(Worker& daemon, std::uint32_t number, bool evict);

/// Goes on with or undoes what a dead daemon left between two phases, and gives back granule claims that no
/// region names. `is_dead` tells whether an owner is proven dead.
void recover_regions(Worker& daemon, bool (*is_dead)(const Control&, Owner));

}  // namespace maru::table
