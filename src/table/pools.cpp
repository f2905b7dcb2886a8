#include "table/pools.hpp"

#include <algorithm>
#include <cstring>

#include "base/fault_point.hpp"
#include "base/size.hpp"
#include "table/clients.hpp"
#include "table/index.hpp"
#include "table/region_steps.hpp"
#include "table/regions.hpp"

namespace maru::table {
namespace {

void set_state(PoolEntry& entry, PoolState state) {
    entry.state.store(static_cast<std::uint32_t>(state), shm::release);  // who reads it sees the fields
}

PoolState state_of(const PoolEntry& entry) {
    return static_cast<PoolState>(entry.state.load(shm::acquire));
}

void store_uuid(Word64 (&words)[2], const Uuid& uuid) {
    for (std::size_t half = 0; half < 2; ++half) {
        std::uint64_t bits;
        std::memcpy(&bits, uuid.bytes.data() + 8 * half, 8);
        words[half].store(bits, shm::relaxed);
    }
}

/// The first of `count` adjacent units that no entry has.
std::optional<std::uint32_t> find_units(const Control& control, std::uint64_t count) {
    std::uint64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
            const auto pool = read_pool(control, p);
            if (!pool || at >= std::uint64_t{pool->first_unit} + pool->unit_count ||
                pool->first_unit >= at + count)
                continue;
            at = std::uint64_t{pool->first_unit} + pool->unit_count;
            moved = true;
        }
    }
    if (at > control.region_count() || count > control.region_count() - at) return {};
    return static_cast<std::uint32_t>(at);
}

/// Takes the units from pools that left, once every client has let go of them.
void free_units_of_removed(const Control& control) {
    for (std::uint32_t p = 1; p < control.pool_count(); ++p) {
        PoolEntry& entry = control.pool(p);
        if (state_of(entry) == PoolState::removed &&
            slots_behind(control, entry.left_epoch.load(shm::relaxed)).empty())
            entry.unit_count.store(0, shm::relaxed);
    }
}

/// An entry for a new pool: one of none, else the oldest of one that left and has no units any more.
std::optional<std::uint32_t> find_entry(const Control& control) {
    std::optional<std::uint32_t> oldest;
    for (std::uint32_t p = 1; p < control.pool_count(); ++p) {
        const PoolEntry& entry = control.pool(p);
        if (state_of(entry) == PoolState::none) return p;
        if (state_of(entry) != PoolState::removed || entry.unit_count.load(shm::relaxed) != 0) continue;
        if (!oldest ||
            entry.left_epoch.load(shm::relaxed) < control.pool(*oldest).left_epoch.load(shm::relaxed))
            oldest = p;
    }
    return oldest;
}

Error no_room(const Control& control, const NewPool& pool, std::uint64_t units) {
    std::uint64_t free = control.region_count(), waiting = 0;
    std::string slots;
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        const auto view = read_pool(control, p);
        if (!view) continue;
        free -= std::min<std::uint64_t>(free, view->unit_count);
        if (view->state != PoolState::removed) continue;
        waiting += view->unit_count;
        for (const std::uint32_t slot : slots_behind(control, control.pool(p).left_epoch.load(shm::relaxed)))
            slots += (slots.empty() ? "slot:" : ", slot:") + std::to_string(slot);
    }
    const std::uint64_t unit = control.region_unit();
    return Error{
        Code::full,
        "pool '" + pool.name + "' of " + format_size(pool.bytes) + " takes " + std::to_string(units) +
            " units of " + format_size(unit) + ", this domain has room for " + std::to_string(free) +
            " more of its " + std::to_string(control.region_count()) +
            (slots.empty() ? std::string(": format the domain with a larger control.max_pool_bytes (" +
                                         format_size(control.region_count() * unit) + " now)")
                           : "; " + std::to_string(waiting) +
                                 " units of removed pools are kept for clients that have not let go of "
                                 "them (" +
                                 slots + "): disconnect those")};
}

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
        all = may_end && seal_records(daemon, region.first_record + i, 1) && all;
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
    if (seal_records(daemon, view->first_record, view->page_count))
        free_sealed_region(control, *view, word);
    else
        move_region(entry, &word, RegionPhase::draining, me);
}

}  // namespace

bool is_live(PoolState state) {
    return state == PoolState::active || state == PoolState::draining;
}

const char* name_of(PoolState state) {
    static constexpr const char* names[pool_states] = {"none",    "active",  "draining",
                                                       "removed", "joining", "leaving"};
    return static_cast<std::uint32_t>(state) < pool_states ? names[static_cast<std::uint32_t>(state)]
                                                           : "unknown";
}

std::optional<PoolView> read_pool(const Control& control, std::uint32_t number) {
    if (number >= control.pool_count()) return {};
    const PoolEntry& entry = control.pool(number);
    PoolView view;
    view.state = state_of(entry);
    if (view.state == PoolState::none || static_cast<std::uint32_t>(view.state) >= pool_states) return {};
    view.number = number;
    for (std::size_t half = 0; half < 2; ++half) {
        const std::uint64_t bits = entry.uuid[half].load(shm::relaxed);
        std::memcpy(view.uuid.bytes.data() + 8 * half, &bits, 8);
    }
    view.kind = entry.kind.load(shm::relaxed);
    view.bytes = entry.bytes.load(shm::relaxed);
    view.data_offset = entry.data_offset.load(shm::relaxed);
    view.first_unit = entry.first_unit.load(shm::relaxed);
    view.unit_count = entry.unit_count.load(shm::relaxed);
    if (view.first_unit > control.region_count() ||
        view.unit_count > control.region_count() - view.first_unit)
        return {};
    view.name = entry.name.get();
    view.source = entry.source.get();
    return view;
}

std::uint64_t live_units(const Control& control) {
    std::uint64_t units = 0;
    for (std::uint32_t p = 0; p < control.pool_count(); ++p)
        if (const auto pool = read_pool(control, p); pool && is_live(pool->state)) units += pool->unit_count;
    return units;
}

std::optional<PoolView> find_pool(const Control& control, const Uuid& uuid) {
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        auto view = read_pool(control, p);
        if (view && view->uuid == uuid && (is_live(view->state) || view->state == PoolState::joining))
            return view;
    }
    return {};
}

Result<std::uint32_t> join_pool(const Control& control, const NewPool& pool) {
    if (pool.source.size() > pool_source_max)
        return Error{Code::too_large, "pool '" + pool.name + "': its description \"" + pool.source +
                                          "\" has " + std::to_string(pool.source.size()) +
                                          " characters, at most " + std::to_string(pool_source_max) +
                                          " are kept: write it as a [[pool]] into the config, and rescan"};
    const std::uint64_t units = pool.bytes / control.region_unit();
    if (units == 0)
        return Error{Code::invalid, "pool '" + pool.name + "' of " + format_size(pool.bytes) +
                                        " has no room for one unit of " + format_size(control.region_unit()) +
                                        ": make it larger"};
    free_units_of_removed(control);
    const auto number = find_entry(control);
    if (!number)
        return Error{Code::full, "all " + std::to_string(control.pool_count()) +
                                     " entries for pools are taken: remove one first"};
    const auto first = find_units(control, units);
    if (!first) return no_room(control, pool, units);
    PoolEntry& entry = control.pool(*number);
    set_state(entry, PoolState::none);  // of one that left, death from here on leaves an entry of no pool
    entry.unit_count.store(0, shm::relaxed);
    store_uuid(entry.uuid, pool.uuid);
    entry.kind.store(pool.kind, shm::relaxed);
    entry.bytes.store(pool.bytes, shm::relaxed);
    entry.data_offset.store(0, shm::relaxed);
    entry.first_unit.store(*first, shm::relaxed);
    entry.name.set(pool.name);
    entry.source.set(pool.source);
    entry.left_epoch.store(0, shm::relaxed);
    set_state(entry, PoolState::joining);
    entry.unit_count.store(static_cast<std::uint32_t>(units), shm::release);
    fault_point("pool.joining");
    return *number;
}

bool activate_pool(const Control& control, std::uint32_t number) {
    PoolEntry& entry = control.pool(number);
    if (state_of(entry) != PoolState::joining) return false;
    set_state(entry, PoolState::active);
    return true;
}

void undo_join(const Control& control, std::uint32_t number) {
    PoolEntry& entry = control.pool(number);
    if (state_of(entry) != PoolState::joining) return;
    entry.unit_count.store(0, shm::relaxed);
    set_state(entry, PoolState::none);
}

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

bool leave_pool(const Control& control, std::uint32_t number, const std::string& file) {
    const auto pool = read_pool(control, number);
    if (!pool || (pool->state != PoolState::draining && pool->state != PoolState::leaving)) return false;
    bool empty = true;
    for (std::uint32_t u = pool->first_unit; u < pool->first_unit + pool->unit_count; ++u)
        empty = empty &&
                RegionState::unpack(control.region(u).state.load(shm::acquire)).phase == RegionPhase::free;
    if (!empty) return false;
    PoolEntry& entry = control.pool(number);
    Word64& epoch = control.super().pools_epoch;
    if (pool->state == PoolState::draining) {
        entry.source.set(file.size() <= pool_source_max ? file : std::string());
        set_state(entry, PoolState::leaving);
        fault_point("pool.leaving");
    }
    std::uint64_t left = entry.left_epoch.load(shm::relaxed);
    if (left == 0) entry.left_epoch.store(left = epoch.load(shm::relaxed) + 1, shm::relaxed);
    // release: a client that reads this epoch sees that the pool leaves
    if (epoch.load(shm::relaxed) < left) epoch.store(left, shm::release);
    return true;
}

void finish_leaving(const Control& control, std::uint32_t number) {
    PoolEntry& entry = control.pool(number);
    if (state_of(entry) != PoolState::leaving) return;
    entry.source.set({});
    set_state(entry, PoolState::removed);
}

std::vector<std::uint32_t> slots_behind(const Control& control, std::uint64_t epoch) {
    std::vector<std::uint32_t> behind;
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const ClientEntry& client = control.client(slot);
        const ClientPhase phase = client_state::phase(client.state.load(shm::acquire));
        if (phase == ClientPhase::free || client.is_daemon.load(shm::relaxed) != 0) continue;
        // acquire: pairs with the client's release, after it let go
        if (client.pools_seen.load(shm::acquire) < epoch) behind.push_back(slot);
    }
    return behind;
}

}  // namespace maru::table
