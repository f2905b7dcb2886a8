#include "mapped_pools.hpp"

#include "world.hpp"

namespace maru::sim {

using namespace table;

void MappedPools::bind(World& world) {
    for (std::uint32_t p = 0; p < world.control().pool_count(); ++p)
        if (const auto pool = read_pool(world.control(), p); pool && is_live(pool->state))
            enter(world, nullptr, p, pool->uuid);
}

void MappedPools::place(Machine* machine, std::uint32_t unit, std::optional<std::uint32_t> number) {
    if (places_.size() <= unit) places_.resize(unit + 1);
    places_[unit] = number;
    if (machine != nullptr) machine->step();
}

void MappedPools::enter(World& world, Machine* machine, std::uint32_t number, const Uuid& uuid) {
    const auto view = read_pool(world.control(), number);
    if (!view) return;
    if (mapped_.size() <= number) mapped_.resize(number + 1);
    mapped_[number] = Mapped{uuid, view->first_unit, view->unit_count};
    for (std::uint32_t u = 0; u < view->unit_count; ++u)
        place(machine, view->first_unit + u, number);
}

void MappedPools::take_in(World& world, Machine& machine, std::uint32_t slot, const PoolList& list) {
    while (busy_)
        machine.step();
    busy_ = true;  // who is killed in here takes its threads along
    std::vector<std::optional<Uuid>> mapped(mapped_.size());
    for (std::size_t number = 1; number < mapped_.size(); ++number)
        if (mapped_[number]) mapped[number] = mapped_[number]->uuid;
    const auto forget = [&](std::uint32_t number) {
        for (std::uint32_t u = 0; u < mapped_[number]->unit_count; ++u)
            place(&machine, mapped_[number]->first_unit + u, {});
        mapped_[number].reset();
        return true;
    };
    let_go_of_left(world.control(), slot, mapped, forget, [] { return true; });
    for (const Uuid& uuid : list) {
        const auto view = find_pool(world.control(), uuid);
        if (!view || view->number == 0 || (view->number < mapped_.size() && mapped_[view->number])) continue;
        machine.step();
        enter(world, &machine, view->number, uuid);
    }
    busy_ = false;
}

Bytes MappedPools::find(World& world, const PageLocation& at) const {
    if (at.region >= places_.size() || !places_[at.region]) return {};
    const Mapped& pool = *mapped_[*places_[at.region]];
    const std::uint32_t memory = World::memory_of(pool.uuid);
    const std::uint32_t unit = world.unit_of(at) - pool.first_unit;
    if (at.page_4k == 0 || unit + at.page_4k > pool.unit_count) return {};
    return {memory, world.payload(memory, unit, at.page_4k)};
}

bool MappedPools::maps(std::uint32_t memory) const {
    for (const auto& pool : mapped_)
        if (pool && World::memory_of(pool->uuid) == memory) return true;
    return false;
}

std::optional<std::uint32_t> MappedPools::memory_at(std::uint32_t unit) const {
    if (unit >= places_.size() || !places_[unit] || !mapped_[*places_[unit]]) return {};
    return World::memory_of(mapped_[*places_[unit]]->uuid);
}

}  // namespace maru::sim
