// Retirement in two halves: RETIRING may be undone, RETIRED may not; the page goes back when nobody reads it.
#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/index.hpp"
#include "table/worker.hpp"

namespace maru::table {

/// RETIRED -> FREE, when no pin names it. Anybody may do it, at any time after RETIRED.
bool Worker::reclaim(std::uint32_t number, std::uint64_t state, bool scanned) {
    const std::uint32_t generation = generation_of(state);
    clear_slots(control_, number, generation, false);
    if (mutant(Mutant::reclaim_without_scan)) scanned = true;
    if (!scanned && is_pinned(control_, number, generation, false)) return false;
    if (!control_.record(number).state.compare_exchange(state, state_word(Phase::free, generation + 1)))
        return false;
    set_hint(control_, number);
    return true;
}

bool finish_retired(Worker& worker, std::uint32_t number, std::uint64_t state) {
    return worker.reclaim(number, state, false);
}

/// PUBLISHING whose slot is final has committed: anybody may say so. False when it is still open.
bool Worker::help_publishing(std::uint32_t number, std::uint64_t state) {
    if (!has_final_slot(control_, number, generation_of(state))) return false;
    return control_.record(number).state.compare_exchange(state,
                                                          state_word(Phase::published, generation_of(state)));
}

void Worker::remember_retired(std::uint32_t number, std::uint64_t state) {
    if (retired_count_ == retired_.size()) retry_retired();
    if (retired_count_ == retired_.size()) return;  // the hand of an allocator will find it
    retired_[retired_count_++] = {number, state};
}

void Worker::retry_retired() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < retired_count_; ++i) {
        const auto [number, state] = retired_[i];
        if (control_.record(number).state.load(shm::relaxed) != state) continue;  // somebody else finished it
        if (!reclaim(number, state, false)) retired_[kept++] = {number, state};
    }
    retired_count_ = kept;
}

/// One look at a record that was found under the key. True when that settles the deletion.
bool Worker::remove_one(std::uint32_t number, std::uint64_t state, PinSlot own, DeleteResult* result) {
    PageRecord& record = control_.record(number);
    const std::uint32_t generation = generation_of(state);
    if (phase_of(state) == Phase::publishing) {  // its slot is final: help it first
        record.state.compare_exchange(state, state_word(Phase::published, generation));
        return false;
    }
    pins_.announce_own(own, number, generation);
    std::uint64_t retiring = state;  // a foreign RETIRING(delete) is decided on the same word
    const State seen = State::unpack(state);
    if (seen.phase == Phase::published || seen.phase == Phase::retiring_evict) {
        retiring = state_word(Phase::retiring_delete, generation, pins_.identity().owner(),
                              seen.attempt + (mutant(Mutant::attempt_not_raised) ? 0u : 1u));
        if (!record.state.compare_exchange(state, retiring)) {
            if (!mutant(Mutant::delete_lost_is_absent)) return false;
            *result = DeleteResult::absent;
            return true;
        }
        fault_point("retire.after_retiring");
    } else if (seen.phase != Phase::retiring_delete) {
        return false;
    }
    const std::uint32_t attempt = State::unpack(retiring).attempt;
    if (mutant(Mutant::slot_emptied_early)) clear_slots(control_, number, generation, false);
    if (!mutant(Mutant::delete_ignores_key_pins) &&
        is_pinned(control_, number, generation, !mutant(Mutant::delete_waits_for_leases))) {
        *result = DeleteResult::pinned;
        return record.state.compare_exchange(retiring, state_word(Phase::published, generation, {}, attempt));
    }
    const std::uint64_t retired = state_word(Phase::retired, generation, {}, attempt);
    if (!record.state.compare_exchange(retiring, retired)) return false;
    fault_point("retire.after_retired");
    pins_.count(Counter::deletes);
    *result = DeleteResult::deleted;
    if (!reclaim(number, retired, false)) remember_retired(number, retired);
    return true;
}

DeleteResult Worker::remove(const Key& key) {
    if (retired_count_ > 0) retry_retired();
    PinSlot own;
    if (!pins_.take(&own)) return DeleteResult::no_pin_slot;
    DeleteResult result = DeleteResult::pinned;  // what 8 lost races in a row mean: others hold on to it
    for (int round = 0; round < retire_rounds_max; ++round) {
        bool settled = false;
        const Walk walk =
            walk_key(control_, key,
                     [&](Word64& place, std::uint64_t word, PageRecord& record, std::uint32_t number,
                         std::uint64_t state) {
                         const std::uint64_t now = record.state.load(shm::acquire);
                         if (generation_of(now) != generation_of(state) || place.load(shm::acquire) != word)
                             return true;
                         settled = remove_one(number, now, own, &result);
                         return true;
                     });
        if (walk == Walk::ended) result = DeleteResult::absent;
        if (walk == Walk::damaged) result = DeleteResult::damaged;
        if (settled || walk != Walk::stopped) break;
        result = DeleteResult::pinned;
    }
    pins_.clear(own);
    return result;
}

bool Worker::retire_damaged(const View& view) {
    if (view.record == 0 || view.record >= control_.record_count()) return false;
    PinSlot own;
    if (!pins_.take(&own)) return false;
    PageRecord& record = control_.record(view.record);
    bool gone = false;
    for (int round = 0; round < retire_rounds_max && !gone; ++round) {
        const std::uint64_t state = record.state.load(shm::acquire);
        const bool same = mutant(Mutant::damaged_any_generation) || generation_of(state) == view.generation;
        if (!same || !is_live(phase_of(state))) break;
        DeleteResult result = DeleteResult::absent;
        if (remove_one(view.record, state, own, &result)) {
            gone = result == DeleteResult::deleted;
            break;
        }
    }
    pins_.clear(own);
    return gone;
}

/// Somebody stopped between RETIRING and its fate: an allocator that found nothing else does not wait for it.
void Worker::decide_foreign(std::uint32_t number, std::uint64_t state, PinSlot own) {
    PageRecord& record = control_.record(number);
    const State seen = State::unpack(state);
    const std::uint64_t back = state_word(Phase::published, seen.generation, {}, seen.attempt);
    if (seen.phase == Phase::retiring_evict) {
        record.state.compare_exchange(state, back);
        return;
    }
    pins_.announce_own(own, number, seen.generation);
    if (is_pinned(control_, number, seen.generation, true)) {
        record.state.compare_exchange(state, back);
        return;
    }
    record.state.compare_exchange(state, state_word(Phase::retired, seen.generation, {}, seen.attempt));
}

}  // namespace maru::table
