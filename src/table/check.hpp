// Proof that a control region is sound, while it is in use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "table/control.hpp"

namespace maru::table {

struct Finding {
    std::string what;             // "slot names no live record", ...
    std::string where;            // "bucket 17 slot 3"
    std::uint64_t words[4] = {};  // what was read: a finding counts only if it is read again
    friend bool operator==(const Finding&, const Finding&) = default;
};

struct CheckReport {
    std::vector<Finding> findings;  // at most findings_max
    std::uint64_t findings_total = 0;
    std::uint64_t records = 0, slots = 0, regions = 0, pins = 0, clients = 0, objects = 0;
    std::uint64_t pages[phase_count] = {};
};
inline constexpr std::size_t findings_max = 200;

/// One look at every table; read-only. In use, a state that is just changing can look like a finding.
CheckReport look(const Control& control);

/// Two looks, `pause_ms` apart: only what both saw with the same words and generations is a finding.
/// Proves: each page is in exactly one state and belongs to one region; each final slot names a live record
/// and the other way round; no key twice; no pin or reservation of a client that does not exist; no region or
/// claim of nobody; every number inside its table.
CheckReport check(const Control& control, int pause_ms = 100);

}  // namespace maru::table
