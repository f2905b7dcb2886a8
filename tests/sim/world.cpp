#include "world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/uuid.hpp"

namespace maru {

// Takes the place of the kernel's generator: a seed gives one schedule.
std::uint64_t random_bits() {
    return sim::machine().random().bits();
}

}  // namespace maru

namespace maru::sim {

using namespace table;

namespace {
constexpr std::uint32_t pools_added_max = 12;  // in one run
}

World::World(const Scenario& scenario) : scenario_(scenario), memory_(nullptr, std::free) {
    machine().begin(Memory::sequential, Random(1), nullptr);  // the hash seed is the same in every run
    format();
    name_keys();
    machine().describe = [this](const void* place, std::uint64_t value) { return describe(place, value); };
}

void World::format() {
    FormatPlan plan;
    plan.region_unit = page_align;
    plan.records = (scenario_.granules - 1) * records_per_granule + 1;
    plan.clients = scenario_.client_slots;
    plan.hosts = 2;
    plan.namespaces = 3;
    plan.pins = scenario_.chunks * pins_per_chunk;
    for (std::size_t p = 0; p < scenario_.pools.size(); ++p) {
        PoolPlan pool;
        pool.uuid = uuid_of(static_cast<std::uint32_t>(p));
        pool.name = "pool";
        pool.bytes = scenario_.pools[p] * page_align + (p == 0 ? 64 * MiB : 0);
        plan.pools.push_back(pool);
    }
    for (int round = 0; round < 16;
         ++round) {  // the size of the region table depends on the size of the pools
        bytes_ = plan_control(plan)->control_bytes;
        plan.pools[0].bytes = scenario_.pools[0] * page_align + bytes_;
    }
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page_align, bytes_)));
    std::memset(memory_.get(), 0, bytes_);
    auto formatted = Control::format({memory_.get(), bytes_}, plan);
    if (!formatted) {
        std::fprintf(stderr, "sim: %s: %s\n", scenario_.name.c_str(), formatted.error().text.c_str());
        std::exit(2);
    }
    control_.emplace(*formatted);
    for (std::uint32_t ns = 1; ns < 3; ++ns) {
        control_->name_space(ns).name.set("namespace-" + std::to_string(ns));
        control_->name_space(ns).state.store(1 | std::uint64_t{1} << 32, shm::relaxed);
    }
    snapshot_.assign(memory_.get(), memory_.get() + bytes_);
    memories_ =
        static_cast<std::uint32_t>(scenario_.pools.size()) + (scenario_.grow.most > 0 ? pools_added_max : 0);
    memory_units_ =
        std::max(*std::max_element(scenario_.pools.begin(), scenario_.pools.end()), scenario_.grow.most);
    payload_ = std::make_unique<Word64[]>(std::size_t{memories_} * memory_units_ * words_per_unit);
}

/// Names whose hashes meet: all in one bucket, and in their tags too if the scenario wants that.
void World::name_keys() {
    const std::uint32_t wanted = scenario_.keys.most + scenario_.ballast;
    std::uint32_t tag = 0;
    std::uint64_t home = 0;
    for (std::uint32_t n = 0; names_.size() < wanted; ++n) {
        const std::string name = "key" + std::to_string(n);
        const Key key = control_->key(namespace_of(static_cast<std::uint32_t>(names_.size())), name);
        if (names_.empty()) {
            tag = Control::tag_of(key.low);
            home = control_->home_of(key.low);
        }
        const bool ballast = names_.size() >= scenario_.keys.most;
        if (control_->home_of(key.low) != home) continue;
        if (!ballast && scenario_.same_tag && Control::tag_of(key.low) != tag) continue;
        names_.push_back(name);
        hashes_.push_back(key.low);
    }
}

void World::reset() {
    pools_had_ = static_cast<std::uint32_t>(scenario_.pools.size());
    std::memcpy(memory_.get(), snapshot_.data(), bytes_);
    for (std::size_t w = 0; w < std::size_t{memories_} * memory_units_ * words_per_unit; ++w)
        payload_[w].store(0, shm::relaxed);
}

Key World::key(std::uint32_t number) const {
    return control_->key(namespace_of(number), names_[number]);
}

int World::key_of_hash(std::uint64_t hash_low) const {
    for (std::size_t k = 0; k < hashes_.size(); ++k)
        if (hashes_[k] == hash_low) return static_cast<int>(k);
    return -1;
}

std::uint32_t World::unit_of(const PageLocation& location) const {
    return location.region + location.page_index * location.page_4k;
}

Uuid World::uuid_of(std::uint32_t memory) {
    Uuid uuid;
    uuid.bytes[0] = static_cast<std::uint8_t>(memory + 1);
    return uuid;
}

std::optional<Uuid> World::next_pool() const {
    if (pools_had_ == memories_) return {};
    return uuid_of(pools_had_);
}

std::span<Word64> World::payload(std::uint32_t memory, std::uint32_t unit, std::uint32_t units) {
    if (memory >= memories_ || unit >= memory_units_ || units > memory_units_ - unit) return {};
    return {&payload_[(std::size_t{memory} * memory_units_ + unit) * words_per_unit],
            std::size_t{units} * words_per_unit};
}

std::optional<World::LivePool> World::live_pool(const std::function<bool(const LivePool&)>& is_wanted) const {
    for (std::uint32_t p = 0; p < control_->pool_count(); ++p) {
        const PoolEntry& entry = control_->pool(p);
        if (!is_live(static_cast<PoolState>(raw(&entry.state, 4)))) continue;
        const LivePool pool{static_cast<std::uint32_t>(raw(&entry.uuid[0], 8) & 0xff) - 1,
                            static_cast<std::uint32_t>(raw(&entry.first_unit, 4)),
                            static_cast<std::uint32_t>(raw(&entry.unit_count, 4))};
        if (is_wanted(pool)) return pool;
    }
    return {};
}

std::span<Word64> World::payload(const PageLocation& location) {
    const auto pool = live_pool([&](const LivePool& one) {
        return location.region >= one.first_unit && location.region - one.first_unit < one.unit_count;
    });
    if (!pool || location.page_4k == 0) return {};
    return payload(pool->memory, unit_of(location) - pool->first_unit, location.page_4k);
}

std::optional<std::uint32_t> World::unit_of_word(std::uint32_t word) const {
    const auto pool = live_pool([&](const LivePool& one) { return one.memory == memory_of_word(word); });
    if (!pool) return {};
    return pool->first_unit + word / words_per_unit % memory_units_;
}

Place World::find(const void* place) const {
    const auto at = reinterpret_cast<std::uintptr_t>(place);
    const Control& c = *control_;
    const auto inside = [at](const void* table, std::size_t count, std::size_t size, Area area, Place* out) {
        const auto begin = reinterpret_cast<std::uintptr_t>(table);
        if (at < begin || at >= begin + count * size) return false;
        *out = {area, static_cast<std::uint32_t>((at - begin) / size),
                static_cast<std::uint32_t>((at - begin) % size)};
        return true;
    };
    Place out;
    if (inside(&c.record(0), c.record_count(), sizeof(PageRecord), Area::records, &out) ||
        inside(&c.bucket(0), std::size_t{c.bucket_count()} + c.overflow_count(), sizeof(Bucket), Area::index,
               &out) ||
        inside(&c.chunk(0), c.chunk_count(), sizeof(PinChunk), Area::chunks, &out) ||
        inside(payload_.get(), std::size_t{memories_} * memory_units_ * words_per_unit, 8, Area::payload,
               &out) ||
        inside(&c.hint(0), c.granule_count(), 8, Area::hints, &out) ||
        inside(&c.region(0), c.region_count(), sizeof(RegionEntry), Area::regions, &out) ||
        inside(&c.client(0), c.client_count(), sizeof(ClientEntry), Area::clients, &out) ||
        inside(&c.client_stats(0), c.client_count(), sizeof(CounterLine), Area::client_stats, &out) ||
        inside(&c.overflow_claim(0), c.overflow_count(), 8, Area::overflow_claims, &out) ||
        inside(&c.granule_claim(0), c.granule_count(), 8, Area::granule_claims, &out) ||
        inside(&c.super(), 1, sizeof(Superblock), Area::super, &out) ||
        inside(&c.name_space(0), c.namespace_count(), sizeof(NamespaceEntry), Area::namespaces, &out) ||
        inside(&c.pool(0), c.pool_count(), sizeof(PoolEntry), Area::pools, &out))
        return out;
    return {};
}

namespace {

std::string print(const char* format, auto... values) {
    char text[160];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

std::string owner_text(Owner owner) {
    return owner.slot == 0 ? "" : print(" of %u/%u", owner.slot, owner.generation);
}

std::string slot_text(std::uint64_t word) {
    if (word == 0) return "empty";
    return print("%s r%u g%u tag %x", slot::is_tentative(word) ? "tentative" : "FINAL", slot::record(word),
                 static_cast<unsigned>(slot::Generation::get(word)), slot::tag(word));
}

std::string pin_text(std::uint64_t word) {
    static const char* kinds[] = {"none", "lease", "key pin", "own"};
    if (word == 0) return "none";
    return print("%s r%u g%u epoch %u seq %u", kinds[static_cast<int>(pin::kind(word))], pin::record(word),
                 static_cast<unsigned>(pin::Generation::get(word)),
                 static_cast<unsigned>(pin::Epoch::get(word)),
                 static_cast<unsigned>(pin::Sequence::get(word)));
}

}  // namespace

std::string World::describe_record(const Place& at, std::uint64_t value) const {
    if (at.offset == offsetof(PageRecord, state)) {
        const State s = State::unpack(value);
        return print("state[r%u] %s%s g%u a%u", at.entry, name_of(s.phase), owner_text(s.owner).c_str(),
                     s.generation, s.attempt);
    }
    const char* field = at.offset == offsetof(PageRecord, last)         ? "last"
                        : at.offset == offsetof(PageRecord, visited)    ? "visited"
                        : at.offset == offsetof(PageRecord, hash_low)   ? "hash"
                        : at.offset == offsetof(PageRecord, region)     ? "region"
                        : at.offset == offsetof(PageRecord, page_index) ? "page"
                        : at.offset == offsetof(PageRecord, page_4k)    ? "size"
                        : at.offset == offsetof(PageRecord, length)     ? "length"
                                                                        : nullptr;
    if (field != nullptr)
        return print("%s[r%u] %llx", field, at.entry, static_cast<unsigned long long>(value));
    return print("r%u+%u %llx", at.entry, at.offset, static_cast<unsigned long long>(value));
}

std::string World::describe(const void* place, std::uint64_t value) const {
    const Place at = find(place);
    const auto hex = static_cast<unsigned long long>(value);
    switch (at.area) {
        case Area::records:
            return describe_record(at, value);
        case Area::index:
            if (at.offset == offsetof(Bucket, link)) return print("link[%u] %llu", at.entry, hex);
            return print("slot[%u.%u] %s", at.entry, at.offset / 8, slot_text(value).c_str());
        case Area::chunks:
            if (at.offset >= offsetof(PinChunk, pins))
                return print("pin[%u.%u] %s", at.entry,
                             static_cast<unsigned>(at.offset - offsetof(PinChunk, pins)) / 8,
                             pin_text(value).c_str());
            if (at.offset == offsetof(PinChunk, owner))
                return print("chunk[%u] owner %u/%u", at.entry, holder::slot(value),
                             holder::generation(value));
            if (at.offset == offsetof(PinChunk, epoch)) return print("chunk[%u] epoch %llu", at.entry, hex);
            if (at.offset == offsetof(PinChunk, oldest)) return print("chunk[%u] oldest %llu", at.entry, hex);
            if (at.offset == offsetof(PinChunk, summary))
                return print("chunk[%u] summary %llx", at.entry, hex);
            return print("chunk[%u] count %llu", at.entry, hex);
        case Area::payload:
            return print("byte[%u] k%llu v%llu", at.entry, hex & 0xff, hex >> 8);
        case Area::hints:
            return print("hint[%u] %llx", at.entry, hex);
        case Area::regions: {
            if (at.offset != 0) return print("region[%u]+%u %llx", at.entry, at.offset, hex);
            const RegionState s = RegionState::unpack(value);
            return print("region[%u] %s%s e%u", at.entry, name_of(s.phase), owner_text(s.owner).c_str(),
                         s.epoch);
        }
        case Area::clients:
            if (at.offset == 0)
                return print("client[%u] %s/%u", at.entry, name_of(client_state::phase(value)),
                             client_state::generation(value));
            if (at.offset == offsetof(ClientEntry, pools_seen))
                return print("client[%u] pools seen %llu", at.entry, hex);
            return print("client[%u]+%u %llx", at.entry, at.offset, hex);
        case Area::overflow_claims:
            return print("overflow[%u] %llx", at.entry, hex);
        case Area::granule_claims:
            return print("granule[%u] %llx", at.entry, hex);
        case Area::super:
            if (at.offset == offsetof(Superblock, epoch)) return print("epoch %llu", hex);
            if (at.offset == offsetof(Superblock, bound)) return print("bound %llu", hex);
            if (at.offset == offsetof(Superblock, pin_high_water)) return print("high water %llu", hex);
            if (at.offset == offsetof(Superblock, evict_hand)) return print("hand %llu", hex);
            if (at.offset == offsetof(Superblock, pools_epoch)) return print("pools epoch %llu", hex);
            return print("super+%u %llx", at.offset, hex);
        case Area::pools:
            if (at.offset == offsetof(PoolEntry, state))
                return print("pool[%u] %s", at.entry, name_of(static_cast<PoolState>(value)));
            return print("pool[%u]+%u %llx", at.entry, at.offset, hex);
        case Area::client_stats:
            return print("counter[%u] %llu", at.entry, hex);
        default:
            return print("other %llx", hex);
    }
}

}  // namespace maru::sim
