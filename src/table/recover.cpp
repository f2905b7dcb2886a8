// What a dead daemon left between two phases of a region.
#include "base/mutant.hpp"
#include "table/index.hpp"
#include "table/region_steps.hpp"
#include "table/regions.hpp"

namespace maru::table {
namespace {

/// A format that never ended: its pages, opened or not, are sealed again and everything goes back. `word` is
/// ours.
void undo_format(Worker& daemon, std::uint32_t number, std::uint64_t word,
                 bool (*is_dead)(const Control&, Owner)) {
    const Control& control = daemon.control();
    for (std::uint32_t g = 1; g < control.granule_count(); ++g) {
        Word64& place = control.granule_claim(g);
        const std::uint64_t claim = place.load(shm::acquire);
        if (claim == 0 || granule_claim::region(claim) != number ||
            !is_dead(control, granule_claim::owner(claim)))
            continue;
        // A page cannot be RESERVED for long in a region that is not HELD: its taker gives it back.
        bool sealed = false;
        for (int round = 0; round < retire_rounds_max && !sealed; ++round)
            sealed = seal_records(daemon, g * records_per_granule, records_per_granule);
        if (!sealed) return;  // the next recovery goes on
        place.compare_exchange(claim, 0);
    }
    control.region(number).holder.store(0, shm::relaxed);
    std::uint32_t end = number + 1;
    while (end < control.region_count() && control.region(end).head.load(shm::relaxed) == number &&
           RegionState::unpack(control.region(end).state.load(shm::relaxed)).phase == RegionPhase::part)
        ++end;
    free_units(control, number, end - number, word);
}

/// A seal that never ended: go on if every page can be sealed, else the region is HELD as before. `word` is
/// ours.
void finish_seal(Worker& daemon, std::uint32_t number, std::uint64_t word) {
    const Control& control = daemon.control();
    const auto view = read_region(control, number);
    if (!view) return;
    if (RegionState::unpack(word).phase == RegionPhase::sealing &&
        seal_records(daemon, view->first_record, view->page_count)) {
        free_sealed_region(control, *view, word);
        return;
    }
    // Of a pool that drains nothing comes back into use: the drain goes on (pools.hpp).
    const bool drains =
        !mutant(Mutant::drain_reopened) && view->pool < control.pool_count() &&
        control.pool(view->pool).state.load(shm::acquire) == static_cast<std::uint32_t>(PoolState::draining);
    if (drains) {
        const RegionState ours = RegionState::unpack(word);
        control.region(number).state.compare_exchange(
            word, RegionState{RegionPhase::draining, ours.owner, ours.epoch + 1}.pack());
        return;
    }
    open_records(control, view->first_record, view->page_count);
    control.region(number).state.compare_exchange(
        word, RegionState{RegionPhase::held, {}, RegionState::unpack(word).epoch + 1}.pack());
}

/// A region formed for a client that was gone before it was ready.
void let_go_for(Worker& daemon, std::uint32_t number) {
    const Control& control = daemon.control();
    const std::uint64_t word = control.region(number).holder.load(shm::relaxed);
    if (word == 0 || mutant(Mutant::swept_holder_left)) return;
    const std::uint32_t slot = holder::slot(word);
    const std::uint64_t client =
        slot < control.client_count() ? control.client(slot).state.load(shm::acquire) : 0;
    if (client_state::phase(client) == ClientPhase::free ||
        client_state::generation(client) != holder::generation(word))
        release_region(daemon, number, word);
}

/// PART units whose head does not reach over them.
void free_lost_parts(const Control& control, bool (*is_dead)(const Control&, Owner)) {
    for (std::uint32_t u = 0; u < control.region_count(); ++u) {
        RegionEntry& unit = control.region(u);
        const std::uint64_t word = unit.state.load(shm::acquire);
        const RegionState state = RegionState::unpack(word);
        if (state.phase != RegionPhase::part || !is_dead(control, state.owner)) continue;
        const std::uint32_t head = unit.head.load(shm::relaxed);
        bool named = false;
        if (head < u) {
            const auto phase = RegionState::unpack(control.region(head).state.load(shm::acquire)).phase;
            named = phase != RegionPhase::free && phase != RegionPhase::part &&
                    control.region(head).unit_count.load(shm::relaxed) > u - head;
        }
        if (!named)
            unit.state.compare_exchange(word, RegionState{RegionPhase::free, {}, state.epoch + 1}.pack());
    }
}

/// Granule claims that no region names.
void free_lost_granules(const Control& control, Owner me, bool (*is_dead)(const Control&, Owner)) {
    for (std::uint32_t g = 1; g < control.granule_count(); ++g) {
        Word64& place = control.granule_claim(g);
        const std::uint64_t claim = place.load(shm::acquire);
        if (claim == 0) continue;
        const std::uint32_t region = granule_claim::region(claim);
        if (region < control.region_count()) {
            const RegionEntry& entry = control.region(region);
            const RegionState state = RegionState::unpack(entry.state.load(shm::acquire));
            const std::uint32_t first = entry.first_record.load(shm::relaxed) / records_per_granule;
            const bool formatting = state.phase == RegionPhase::formatting;
            const bool named = state.phase != RegionPhase::free && state.phase != RegionPhase::part &&
                               g >= first && g - first < entry.granules.load(shm::relaxed);
            if (named || (formatting && !is_dead(control, state.owner))) continue;
        }
        // Ours or a dead daemon's: whoever claims a granule puts it into a region before it does anything
        // else.
        if (granule_claim::owner(claim) == me || is_dead(control, granule_claim::owner(claim)))
            place.compare_exchange(claim, 0);
    }
}

}  // namespace

void recover_regions(Worker& daemon, bool (*is_dead)(const Control&, Owner)) {
    const Control& control = daemon.control();
    for (std::uint32_t r = 0; r < control.region_count(); ++r) {
        const std::uint64_t word = control.region(r).state.load(shm::acquire);
        const RegionState state = RegionState::unpack(word);
        if (state.phase == RegionPhase::held) {
            let_go_for(daemon, r);
            continue;
        }
        const bool in_between = state.phase == RegionPhase::formatting ||
                                state.phase == RegionPhase::draining || state.phase == RegionPhase::sealing;
        if (!in_between || !is_dead(control, state.owner)) continue;
        // Taken over before anything is done: of two that recover, one goes on.
        const std::uint64_t ours =
            RegionState{state.phase, daemon.identity().owner(), state.epoch + 1}.pack();
        const std::uint64_t held = mutant(Mutant::recover_at_once) ? word : ours;
        if (!mutant(Mutant::recover_at_once) && !control.region(r).state.compare_exchange(word, ours))
            continue;
        if (state.phase == RegionPhase::formatting)
            undo_format(daemon, r, held, is_dead);
        else
            finish_seal(daemon, r, held);
    }
    free_lost_parts(control, is_dead);
    free_lost_granules(control, daemon.identity().owner(), is_dead);
}

}  // namespace maru::table
