#include "table/pools.hpp"

#include <algorithm>
#include <cstring>

#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "base/size.hpp"
#include "table/clients.hpp"
#include "table/pool_state.hpp"

namespace maru::table {
namespace {

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
            (mutant(Mutant::units_without_wait) ||
             slots_behind(control, entry.left_epoch.load(shm::relaxed)).empty()))
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

bool leave_pool(const Control& control, std::uint32_t number, const std::string& file) {
    const auto pool = read_pool(control, number);
    if (!pool || pool->state == PoolState::active || pool->state == PoolState::removed) return false;
    bool empty = true;
    for (std::uint32_t u = pool->first_unit; u < pool->first_unit + pool->unit_count; ++u)
        empty = empty &&
                RegionState::unpack(control.region(u).state.load(shm::acquire)).phase == RegionPhase::free;
    if (!empty && !mutant(Mutant::leave_in_use)) return false;
    PoolEntry& entry = control.pool(number);
    Word64& epoch = control.super().pools_epoch;
    if (pool->state == PoolState::joining)
        store_uuid(entry.uuid, {});  // nobody takes it for one that was here
    if (pool->state != PoolState::leaving) {
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

std::vector<PoolView> take_over_pools(Worker& daemon,
                                      const std::function<void(const PoolView&)>& delete_memory) {
    const Control& control = daemon.control();
    std::vector<PoolView> begun;
    for (std::uint32_t p = 1; p < control.pool_count(); ++p) {
        const auto pool = read_pool(control, p);
        if (!pool) continue;
        switch (pool->state) {
            case PoolState::joining:
            case PoolState::leaving:
                delete_memory(*pool);
                if (pool->state == PoolState::joining && mutant(Mutant::undo_join_at_once)) {
                    undo_join(control, p);
                    break;
                }
                (void)leave_pool(control, p, pool->state == PoolState::leaving ? pool->source : "");
                finish_leaving(control, p);
                break;
            case PoolState::draining:
                (void)begin_drain(daemon, p);
                break;
            case PoolState::none:
            case PoolState::active:
            case PoolState::removed:
                continue;
        }
        begun.push_back(*pool);
    }
    return begun;
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

bool still_there(const Control& control, std::uint32_t number, const Uuid& uuid) {
    const auto pool = read_pool(control, number);
    return pool && pool->uuid == uuid && (is_live(pool->state) || pool->state == PoolState::joining);
}

void let_go_of_left(const Control& control, std::uint32_t slot, std::span<const std::optional<Uuid>> mapped,
                    const std::function<bool(std::uint32_t)>& forget, const std::function<bool()>& may_say) {
    Word64& place = control.super().pools_epoch;
    // Before the table is read: what left up to this epoch reads as such below. acquire: pairs with
    // leave_pool
    std::uint64_t epoch = place.load(shm::acquire);
    for (std::uint32_t number = 0; number < mapped.size(); ++number)
        if (mapped[number] && !still_there(control, number, *mapped[number]) && !forget(number)) return;
    if (mutant(Mutant::seen_epoch_late)) epoch = place.load(shm::acquire);
    fault_point("pools.before_seen");
    // release: pairs with slots_behind; the pools are let go of before a daemon reads this
    if (may_say()) control.client(slot).pools_seen.store(epoch, shm::release);
}

}  // namespace maru::table
