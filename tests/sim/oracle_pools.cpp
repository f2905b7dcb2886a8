// The oracle of pools that come and go: what drains is not used anew, what has left is not used at all.
#include <cstddef>

#include "oracle.hpp"
#include "table/pools.hpp"

namespace maru::sim {

using namespace table;

PoolState Oracle::pool_state_of(std::uint32_t region) const {
    const Control& c = world_.control();
    for (std::uint32_t p = 0; p < c.pool_count(); ++p) {
        const auto first = static_cast<std::uint32_t>(raw(&c.pool(p).first_unit, 4));
        const auto state = static_cast<PoolState>(raw(&c.pool(p).state, 4));
        if (is_live(state) && region >= first && region - first < raw(&c.pool(p).unit_count, 4)) return state;
    }
    return PoolState::none;
}

void Oracle::pool_changed(Actor& by, std::uint32_t pool, std::uint32_t offset, std::uint64_t before,
                          std::uint64_t after) {
    const PoolEntry& entry = world_.control().pool(pool);
    const auto first = static_cast<std::uint32_t>(raw(&entry.first_unit, 4));
    if (offset == offsetof(PoolEntry, unit_count) && after != 0)
        units_given(by, pool, first, static_cast<std::uint32_t>(after));
    if (offset != offsetof(PoolEntry, state)) return;
    const auto was = static_cast<PoolState>(before), is = static_cast<PoolState>(after);
    if (is == PoolState::draining) count("pool drains");
    if (was == PoolState::joining && is == PoolState::leaving) count("pool undone that was told");
    if (is == PoolState::leaving)
        pool_leaves(by, pool, first, static_cast<std::uint32_t>(raw(&entry.unit_count, 4)));
}

void Oracle::pool_leaves(Actor& by, std::uint32_t pool, std::uint32_t first, std::uint32_t units) {
    for (std::uint32_t u = first; u < first + units; ++u) {
        const auto phase = RegionState::unpack(raw(&world_.control().region(u).state, 8)).phase;
        if (phase != RegionPhase::free)
            violate("pool %u leaves with region %u in use, which is %s (op %s)", pool, u, name_of(phase),
                    by.operation);
    }
    for (const Hold& hold : holds_)
        if (hold.on && !hold.expired && location(hold.record).region - first < units &&
            hold.incarnation == records_[hold.record].incarnation)
            violate("pool %u leaves under %s of %s on r%u (op %s)", pool,
                    hold.kind == HoldKind::lease ? "a lease" : "a key pin", hold.by.c_str(), hold.record,
                    by.operation);
}

void Oracle::units_given(Actor& by, std::uint32_t pool, std::uint32_t first, std::uint32_t units) {
    const std::uint32_t memory =
        static_cast<std::uint32_t>(raw(&world_.control().pool(pool).uuid[0], 8) & 0xff) - 1;
    count("units given to an added pool");
    for (const auto& process : *processes_) {
        if (!process->alive || process->daemon) continue;
        for (std::uint32_t u = first; u < first + units; ++u) {
            const auto mapped = process->pools.memory_at(u);
            if (mapped && *mapped != memory)
                violate("unit %u is given to pool %u while client %d takes it for another pool's (op %s)", u,
                        pool, process->number, by.operation);
        }
    }
}

void Oracle::handed_out(Actor& by, const Page& page) {
    const std::uint64_t since = drains_since_[page.location.region];
    if (since != 0 && since < by.operation_began)
        violate("%s was given r%u of region %u, which drains since before it asked (op %s)", by.name.c_str(),
                page.record, page.location.region, by.operation);
}

void Oracle::touches(Actor& by, std::uint32_t memory) {
    if (!by.process->pools.maps(memory))
        violate("%s touches memory of a pool that its process has let go of (op %s)", by.name.c_str(),
                by.operation);
}

}  // namespace maru::sim
