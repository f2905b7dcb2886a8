#include "mutants.hpp"

namespace maru::sim {

#define PLAN(name, ...) \
    { Mutant::name, #name, __VA_ARGS__ }

const std::vector<MutantPlan>& mutant_plans() {
    static const std::vector<MutantPlan> plans{
        PLAN(no_recheck, "full basic"),
        PLAN(recheck_low_bits, "full frozen"),
        PLAN(rescue_blind, "full basic"),
        PLAN(key_pin_in_delete, "basic pins"),
        PLAN(generation_three_bits, "frozen full"),
        PLAN(pin_release_only, "epoch full", true),
        PLAN(batch_without_fence, "batches epoch", true),
        PLAN(summary_late, "basic full"),
        PLAN(key_flag_late, "pins basic"),
        PLAN(epoch_not_read_again, "all_epoch_get_reuse epoch"),
        PLAN(last_plain, "all_epoch_pin_delete pins"),
        PLAN(bound_before_epoch, "epoch all_epoch_get_reuse"),
        PLAN(high_water_late, "basic full"),
        PLAN(key_pin_without_sequence, "expiry"),
        PLAN(own_word_late, "basic daemons"),
        PLAN(no_scan, "basic"),
        PLAN(scan_before_place, "basic"),
        PLAN(tentative_left, "basic"),
        PLAN(tentative_by_phase, "basic"),
        PLAN(retiring_is_stale, "basic full"),
        PLAN(blind_commit, "basic"),
        PLAN(lease_after_commit, "full basic"),
        PLAN(fill_before_publishing, "threads basic"),
        PLAN(link_overwritten, "overflow all_overflow_same"),
        PLAN(claim_without_owner, "overflow all_kill_overflow"),
        PLAN(no_back_off, "lockstep lockstep_ratio"),
        PLAN(lost_left_publishing, "basic lockstep"),
        PLAN(lost_lease_left, "basic lockstep"),
        PLAN(evict_without_scan, "full basic"),
        PLAN(evict_scan_before_retiring, "full basic"),
        PLAN(evict_any_attempt, "frozen full basic"),
        PLAN(delete_ignores_key_pins, "pins basic"),
        PLAN(delete_lost_is_absent, "basic"),
        PLAN(reclaim_without_scan, "basic"),
        PLAN(delete_waits_for_leases, "damaged"),
        PLAN(damaged_any_generation, "damaged"),
        PLAN(slot_emptied_early, "basic"),
        PLAN(foreign_left, "solo"),
        PLAN(generation_not_raised, "basic"),
        PLAN(attempt_not_raised, "basic"),
        PLAN(sweep_owner_number, "all_late_sweeper_page"),
        PLAN(sweep_pins_first, "daemons"),
        PLAN(sweep_pins_left, "basic"),
        PLAN(sweep_without_retiring, "basic"),
        PLAN(sweep_committed_away, "basic"),
        PLAN(sweep_tentative_left, "basic"),
        PLAN(sweep_claims_left, "overflow"),
        PLAN(sweep_slot_first, "daemons basic"),
        PLAN(sweep_any_epoch, "all_late_sweeper_pin"),
        PLAN(sweep_gone_as_dead, "gone"),
        PLAN(flush_not_compared, "flush"),
        PLAN(flush_not_recorded, "flush"),
        PLAN(flushed_not_evicted, "flush"),
        PLAN(seal_live_page, "regions"),
        PLAN(seal_same_generation, "regions"),
        PLAN(open_by_former_place, "regions regions_two_hosts"),
        PLAN(recover_at_once, "all_late_recovery"),
        PLAN(swept_holder_left, "all_late_claim"),
        PLAN(one_lap_less, "solo"),
        PLAN(drain_taken_kept, "pools"),
        PLAN(drain_looks_once, "pools"),
        PLAN(drain_reopened, "pools"),
        PLAN(leave_in_use, "pools"),
        PLAN(units_without_wait, "all_pool_seen pools"),
        PLAN(seen_epoch_late, "all_pool_seen"),
        PLAN(undo_join_at_once, "all_pool_undone pools"),
    };
    return plans;
}

#undef PLAN

const MutantPlan* find_mutant(const std::string& name) {
    for (const auto& plan : mutant_plans())
        if (name == plan.name) return &plan;
    return nullptr;
}

}  // namespace maru::sim
