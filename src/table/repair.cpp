#include "table/repair.hpp"

#include "table/repair_plan.hpp"

namespace maru::table {
namespace {

RepairStage stage_of(const Superblock& super) {
    switch (super.magic.load(shm::acquire)) {
        case magic_deciding:
            return RepairStage::deciding;
        case magic_indexing:
            return RepairStage::indexing;
        default:
            return RepairStage::none;
    }
}

}  // namespace

Result<RepairReport> repair(std::span<std::byte> memory, const RepairSources& sources) {
    if (sources.pools.empty()) return Error{Code::invalid, "a repair needs the domain's pools"};
    RepairPlan plan;
    if (auto whole = mend_superblock(memory, sources, &plan.report); !whole) return whole.error();
    const auto control = attach_for_repair(memory);
    if (!control) return control.error();
    plan.stage = stage_of(control->super());
    if (auto pools = decide_pools(*control, sources, &plan); !pools) return pools.error();
    decide_regions(*control, &plan);
    decide_namespaces(*control, &plan);
    decide_records(*control, sources, &plan);
    write_plan(*control, sources, &plan);
    return std::move(plan.report);
}

}  // namespace maru::table
