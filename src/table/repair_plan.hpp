// What a repair decides before it writes anything. Private to repair*.cpp.
#pragma once

#include <optional>
#include <span>

#include "table/repair.hpp"
#include "table/superblock.hpp"

namespace maru::table {

struct PoolEntryPlan {
    std::optional<std::size_t> source;  // which of the sources; none: an entry of no pool
    std::uint64_t data_offset = 0;
    std::uint32_t first_unit = 0, unit_count = 0;
    PoolState state = PoolState::none;
    bool changed = false;
};

struct NamespacePlan {
    bool in_use = false, changed = false, rules_lost = false;
    std::uint32_t generation = 0;
    std::uint64_t epoch = 0;
    std::string name;
};

struct RegionPlan {
    std::uint32_t number = 0, pool = 0, unit_count = 0, page_4k = 0, page_count = 0, first_record = 0,
                  granules = 0, name_space = 0;
    friend bool operator==(const RegionPlan&, const RegionPlan&) = default;
};

struct RepairPlan {
    RepairStage stage = RepairStage::none;  // where an earlier repair was cut short
    std::vector<PoolEntryPlan> pools;
    std::vector<NamespacePlan> namespaces;
    std::vector<RegionPlan> regions;       // by number
    std::vector<std::uint32_t> region_of;  // by record: 1 + index into regions, 0: of none
    std::vector<std::uint64_t> states;     // by record: the state word it gets
    std::vector<bool> kept;                // by record: an object
    RepairReport report;

    void mend(std::string what) { report.mended.push_back(std::move(what)); }
    void lose(const Control& control, std::uint32_t record, std::string why);
};

/// The first key_inline_max bytes of the key as the record has it.
std::string inline_key(const PageRecord& record);

/// Puts the immutable part right where its checksum proves a candidate; an Error says what is wrong with it.
Result<void> mend_superblock(std::span<std::byte> memory, const RepairSources& sources, RepairReport* report);

/// Fill the plan, in this order; all only look.
Result<void> decide_pools(const Control& control, const RepairSources& sources, RepairPlan* plan);
void decide_regions(const Control& control, RepairPlan* plan);
void decide_namespaces(const Control& control, RepairPlan* plan);
void decide_records(const Control& control, const RepairSources& sources, RepairPlan* plan);

/// Writes what was decided, then everything that follows from it.
void write_plan(const Control& control, const RepairSources& sources, RepairPlan* plan);

}  // namespace maru::table
