// Making a damaged control region sound again, without losing an object that can still be proven.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "table/control.hpp"

namespace maru::table {

/// XXH3-64 of bytes of a pool; nothing when they cannot be read.
using ReadChecksum = std::function<std::optional<std::uint64_t>(std::uint32_t pool, std::uint64_t offset,
                                                                std::uint64_t length)>;

/// What the repair knows beyond the control region itself.
struct RepairSources {
    std::vector<PoolPlan>
        pools;  // as configured, with the sizes they have; the first carries the control region
    ReadChecksum checksum_of;  // for domains that keep checksums of values; empty: they are not compared
};

struct LostObject {
    std::uint32_t record = 0;
    std::string key;               // its first key_inline_max bytes; empty when they are lost as well
    std::uint64_t key_length = 0;  // as far as it is known
    std::string why;
};

struct RepairReport {
    std::uint64_t kept = 0, lost_total = 0;
    std::vector<LostObject> lost;     // at most lost_max
    std::vector<std::string> mended;  // what was put right besides objects, a sentence each
};
inline constexpr std::size_t lost_max = 1000;

/// Makes the control region at the head of `memory` sound: keeps each object that is proven (README.md,
/// "Repair"), gives back everything else, forgets every client.
///
/// An Error, and nothing was changed: what cannot be derived, or does not fit together, and what to do.
/// Needs:  the domain's lock, and proof that every client and daemon is dead.
/// Death:  at any point leaves a region that nobody attaches to and that another repair brings to the same
/// end.
Result<RepairReport> repair(std::span<std::byte> memory, const RepairSources& sources);

}  // namespace maru::table
