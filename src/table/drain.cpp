// A pool that drains: its regions are taken apart, and it is counted what is left and who keeps it.
#include <algorithm>

#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/index.hpp"
#include "table/pool_state.hpp"
#include "table/pools.hpp"
#include "table/region_steps.hpp"
#include "table/regions.hpp"

namespace maru::table {
namespace {

/// Regions begin in [first, end); visits the heads.
template <class Visit>
void for_each_region(const Control& control, std::uint32_t first, std::uint32_t end, Visit&& visit) {
    for (std::uint32_t r = first; r < end && r < control.region_count(); ++r) {
        const RegionPhase phase = RegionState::unpack(control.region(r).state.load(shm::acquire)).phase;
        if (phase != RegionPhase::free && phase != RegionPhase::part && !visit(r, phase)) return;
    }
}

bool move_region(RegionEntry& entry, std::uint64_t* word, RegionPhase phase, Owner owner) {
    const std::uint64_t next = RegionState{phase, owner, RegionState::unpack(*word).epoch + 1}.pack();
    if (!entry.state.compare_exchange(*word, next)) return false;
    *word = next;
    return true;
}

/// Seals every page that is free or can be made so, and goes on past those that are in use; true when none
/// is.
bool seal_free(Worker& daemon, const RegionView& region) {
    bool all = true;
    for (std::uint32_t i = 0; i < region.page_count; ++i) {
        const Phase phase =
            phase_of(daemon.control().record(region.first_record + i).state.load(shm::acquire));
        if (phase == Phase::sealed) continue;
        const bool may_end = phase == Phase::free || phase == Phase::retired;
        const bool sealed = may_end && seal_records(daemon, region.first_record + i, 1);
        all = all && (sealed || (may_end && mutant(Mutant::drain_looks_once)));
    }
    return all;
}

/// One region of a pool that drains.
void drain_region(Worker& daemon, std::uint32_t number, bool evict) {
    const Control& control = daemon.control();
    RegionEntry& entry = control.region(number);
    const Owner me = daemon.identity().owner();
    std::uint64_t word = entry.state.load(shm::acquire);
    RegionState state = RegionState::unpack(word);
    if (state.phase == RegionPhase::held) {
        // From here on who takes a page sees it after the compare-and-swap, and gives the page back.
        if (!move_region(entry, &word, RegionPhase::draining, me)) return;
        state = RegionState::unpack(word);
    }
    const bool ours = state.phase == RegionPhase::draining && state.owner == me;
    if (!ours) return;
    const auto view = read_region(control, number);
    if (!view) return;
    if (evict) evict_range(daemon, view->first_record, view->page_count, EvictReason::admin);
    if (!seal_free(daemon, *view)) return;
    if (!move_region(entry, &word, RegionPhase::sealing, me)) return;
    // Stamped again: who read the words of before opens none of them.
    if (seal_records(daemon, view->first_record, view->page_count) || mutant(Mutant::drain_looks_once))
        free_sealed_region(control, *view, word);
    else
        move_region(entry, &word, RegionPhase::draining, me);
}

}  // namespace

bool begin_drain(Worker& daemon, std::uint32_t number) {
    const Control& control = daemon.control();
    const auto pool = read_pool(control, number);
    if (!pool || !is_live(pool->state)) return false;
    set_state(control.pool(number), PoolState::draining);
    fault_point("pool.draining");
    const Owner me = daemon.identity().owner();
    for_each_region(control, pool->first_unit, pool->first_unit + pool->unit_count,
                    [&](std::uint32_t r, RegionPhase phase) {
                        std::uint64_t word = control.region(r).state.load(shm::acquire);
                        if (phase == RegionPhase::held)
                            move_region(control.region(r), &word, RegionPhase::draining, me);
                        return true;
                    });
    return true;
}

bool cancel_drain(Worker& daemon, std::uint32_t number) {
    const Control& control = daemon.control();
    const auto pool = read_pool(control, number);
    if (!pool || pool->state != PoolState::draining) return false;
    // First the state: regions that a death leaves DRAINING in here are opened by recover_regions.
    set_state(control.pool(number), PoolState::active);
    fault_point("pool.cancelled");
    const Owner me = daemon.identity().owner();
    for_each_region(control, pool->first_unit, pool->first_unit + pool->unit_count,
                    [&](std::uint32_t r, RegionPhase) {
                        std::uint64_t word = control.region(r).state.load(shm::acquire);
                        const RegionState state = RegionState::unpack(word);
                        const auto view = read_region(control, r);
                        if (!view || state.phase != RegionPhase::draining || state.owner != me) return true;
                        open_records(control, view->first_record, view->page_count);
                        move_region(control.region(r), &word, RegionPhase::held, {});
                        return true;
                    });
    return true;
}

PoolContent content_of(const Control& control, std::uint32_t number) {
    PoolContent content;
    const auto pool = read_pool(control, number);
    if (!pool) return content;
    for_each_region(control, pool->first_unit, pool->first_unit + pool->unit_count,
                    [&](std::uint32_t r, RegionPhase) {
                        ++content.regions;
                        const auto region = read_region(control, r);
                        if (!region) return true;
                        const auto counts = count_pages(control, *region);
                        const auto of = [&](Phase phase) { return counts.of[static_cast<int>(phase)]; };
                        content.published +=
                            of(Phase::published) + of(Phase::retiring_evict) + of(Phase::retiring_delete);
                        content.reserved += of(Phase::reserved) + of(Phase::publishing);
                        content.retired += of(Phase::retired);
                        content.bad += of(Phase::bad);
                        return true;
                    });
    return content;
}

std::optional<std::uint32_t> drain_pass(Worker& daemon, std::uint32_t number, std::uint32_t from, bool evict,
                                        Deadline deadline) {
    const auto pool = read_pool(daemon.control(), number);
    if (!pool || pool->state != PoolState::draining) return {};
    std::optional<std::uint32_t> next;
    for_each_region(daemon.control(), std::max(from, pool->first_unit), pool->first_unit + pool->unit_count,
                    [&](std::uint32_t r, RegionPhase) {
                        if (MonotonicClock::now() >= deadline) {
                            next = r;
                            return false;
                        }
                        drain_region(daemon, r, evict);
                        return true;
                    });
    return next;
}

std::vector<PoolHolder> holders_of(const Control& control, std::uint32_t number) {
    std::vector<PoolHolder> holders;
    const auto pool = read_pool(control, number);
    if (!pool) return holders;
    const std::uint64_t mark = control.super().pin_high_water.load(shm::relaxed);
    for (std::uint32_t c = 0; c < control.chunk_count() && c < mark; ++c) {
        const PinChunk& chunk = control.chunk(c);
        const std::uint32_t slot = holder::slot(chunk.owner.load(shm::acquire));
        if (slot == 0) continue;
        for (const auto& place : chunk.pins) {
            const std::uint64_t word = place.load(shm::acquire);
            const std::uint32_t record = pin::record(word);
            if (pin::kind(word) == PinKind::none || record == 0 || record >= control.record_count()) continue;
            const PageRecord& page = control.record(record);
            const std::uint32_t region = page.region.load(shm::relaxed);
            if (!pin::same_generation(word, generation_of(page.state.load(shm::acquire))) ||
                region < pool->first_unit || region - pool->first_unit >= pool->unit_count)
                continue;
            const auto known = std::find_if(holders.begin(), holders.end(),
                                            [&](const auto& holder) { return holder.slot == slot; });
            if (known == holders.end())
                holders.push_back({slot, 1});
            else
                ++known->pages;
        }
    }
    return holders;
}

}  // namespace maru::table
