// What a repair writes, in an order in which it may be cut short anywhere.
//
// 1. `magic` says that records are being settled: nobody attaches. The index still stands as it was found, so
// that a
//    second repair decides every record that the first did not reach on the same evidence, and those that it
//    did reach say what was decided.
// 2. Once every record says what it is, `magic` says so: from here on records are believed without the index,
// which
//    is emptied and built from them. A second repair builds it again.
// 3. `magic` says that this is a control region.
#include <algorithm>

#include "base/fault_point.hpp"
#include "table/index.hpp"
#include "table/repair_plan.hpp"
#include "table/seal.hpp"

namespace maru::table {
namespace {

template <class Word, class Value>
void put(Word& word, Value value) {
    if (word.load(shm::relaxed) != value) word.store(value, shm::relaxed);
}

void write_pools(const Control& control, const RepairSources& sources, const RepairPlan& plan) {
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        const auto& made = plan.pools[p];
        if (!made.changed) continue;
        PoolEntry& entry = control.pool(p);
        const PoolPlan none;
        const PoolPlan& source = made.source ? sources.pools[*made.source] : none;
        put(entry.kind, source.kind);
        put(entry.bytes, source.bytes);
        put(entry.data_offset, made.data_offset);
        put(entry.first_unit, made.first_unit);
        put(entry.unit_count, made.unit_count);
        entry.name.set(source.name);
        put(entry.state, static_cast<std::uint32_t>(made.state));
    }
}

void write_namespaces(const Control& control, const RepairPlan& plan) {
    for (std::uint32_t id = 0; id < control.namespace_count(); ++id) {
        const auto& made = plan.namespaces[id];
        if (!made.changed) continue;
        NamespaceEntry& entry = control.name_space(id);
        entry.name.set(made.name);
        put(entry.epoch, made.epoch);
        if (made.rules_lost) {  // opens to nobody what others may not see
            entry.members[0][0].store(0, shm::relaxed);
            entry.rules.store(namespace_rules::Users::put(1), shm::relaxed);
        }
        put(entry.state, std::uint64_t{made.generation} << 32 | (made.in_use ? 1 : 0));
    }
}

/// State with the next epoch, unless it says so already.
void put_phase(RegionEntry& entry, RegionPhase phase) {
    const std::uint64_t word = entry.state.load(shm::relaxed);
    const RegionState state = RegionState::unpack(word);
    if (word == RegionState{phase, {}, state.epoch}.pack()) return;
    entry.state.store(RegionState{phase, {}, state.epoch + 1}.pack(), shm::relaxed);
}

void write_regions(const Control& control, const RepairPlan& plan) {
    std::vector<bool> taken(control.region_count(), false);
    for (const auto& region : plan.regions) {
        RegionEntry& entry = control.region(region.number);
        put(entry.pool, region.pool);
        put(entry.unit_count, region.unit_count);
        put(entry.page_4k, region.page_4k);
        put(entry.page_count, region.page_count);
        put(entry.first_record, region.first_record);
        put(entry.granules, region.granules);
        put(entry.name_space, region.name_space);
        put(entry.head, region.number);
        put(entry.holder, std::uint64_t{0});
        put_phase(entry, RegionPhase::held);
        taken[region.number] = true;
        for (std::uint32_t u = 1; u < region.unit_count; ++u) {
            RegionEntry& part = control.region(region.number + u);
            put(part.head, region.number);
            put(part.holder, std::uint64_t{0});
            put_phase(part, RegionPhase::part);
            taken[region.number + u] = true;
        }
    }
    for (std::uint32_t u = 0; u < control.region_count(); ++u) {
        if (taken[u]) continue;
        put(control.region(u).holder, std::uint64_t{0});
        put_phase(control.region(u), RegionPhase::free);
    }
    std::vector<std::uint64_t> claims(control.granule_count(), 0);
    for (const auto& region : plan.regions) {
        const auto epoch = RegionState::unpack(control.region(region.number).state.load(shm::relaxed)).epoch;
        std::fill_n(claims.begin() + region.first_record / records_per_granule, region.granules,
                    granule_claim::pack(region.number, epoch, {}));
    }
    for (std::uint32_t g = 0; g < control.granule_count(); ++g)
        put(control.granule_claim(g), claims[g]);
}

/// The place of every page of a region again, and what each record is.
void write_records(const Control& control, const RepairPlan& plan) {
    for (std::uint32_t n = 0; n < records_per_granule; ++n)
        put(control.record(n).state, std::uint64_t{0});
    for (std::uint32_t n = records_per_granule; n < control.record_count(); ++n) {
        PageRecord& record = control.record(n);
        if (plan.region_of[n] != 0) {
            const RegionPlan& region = plan.regions[plan.region_of[n] - 1];
            put(record.region, region.number);
            put(record.page_index, n - region.first_record);
            put(record.page_4k, region.page_4k);
            put(record.name_space, static_cast<std::uint16_t>(region.name_space));
        }
        put(record.last, std::uint64_t{0});  // nobody pins anything
        if (plan.kept[n] && control.checksum_mode() == ChecksumMode::off)
            put(record.checksum, record_seal(record, generation_of(plan.states[n])));
        put(record.state, plan.states[n]);  // last: until then a second repair decides as this one did
        if (n % 1024 == 0) fault_point("repair.in_records");
    }
}

/// Puts an object's slot into its chain; false when that cannot grow any more.
bool insert(const Control& control, std::uint32_t number, std::uint32_t* next_overflow) {
    const PageRecord& record = control.record(number);
    const std::uint64_t hash = record.hash_low.load(shm::relaxed);
    const std::uint64_t word =
        slot::pack(false, Control::tag_of(hash), generation_of(record.state.load(shm::relaxed)), number);
    std::uint64_t at = control.home_of(hash);
    for (int hop = 0; hop <= chain_hops_max; ++hop) {
        Bucket& bucket = control.bucket(at);
        for (auto& place : bucket.slots) {
            if (place.load(shm::relaxed) != 0) continue;
            place.store(word, shm::relaxed);
            return true;
        }
        if (bucket.link.load(shm::relaxed) == 0) {
            if (*next_overflow == control.overflow_count() || hop == chain_hops_max) return false;
            control.overflow_claim(*next_overflow).store(overflow_claim::linked, shm::relaxed);
            bucket.link.store(++*next_overflow, shm::relaxed);
        }
        at = std::uint64_t{control.bucket_count()} + bucket.link.load(shm::relaxed) - 1;
    }
    return false;
}

void build_index(const Control& control, RepairPlan* plan) {
    const std::uint64_t buckets = std::uint64_t{control.bucket_count()} + control.overflow_count();
    for (std::uint64_t b = 0; b < buckets; ++b) {
        for (auto& place : control.bucket(b).slots)
            put(place, std::uint64_t{0});
        put(control.bucket(b).link, std::uint64_t{0});
    }
    for (std::uint32_t n = 0; n < control.overflow_count(); ++n)
        put(control.overflow_claim(n), std::uint64_t{0});
    std::uint32_t next_overflow = 0;
    for (std::uint32_t n = records_per_granule; n < control.record_count(); ++n) {
        if (n % 1024 == 0) fault_point("repair.in_index");
        if (!plan->kept[n] || insert(control, n, &next_overflow)) continue;
        plan->kept[n] = false;
        --plan->report.kept;
        plan->lose(control, n, "the index has no room for it");
        Word64& state = control.record(n).state;
        state.store(state_word(Phase::free, generation_of(state.load(shm::relaxed)) + 1), shm::relaxed);
    }
}

/// Numbers that nobody counts up to are damage, and would spoil every sum.
constexpr std::uint64_t count_max = std::uint64_t{1} << 56;

void forget_clients(const Control& control) {
    CounterLine& total = control.client_stats(0);
    const auto fold = [&total](CounterLine& from) {
        for (int c = 0; c < counter_count; ++c) {
            const std::uint64_t count = from.counts[c].exchange(0, shm::relaxed);
            if (count < count_max) total.counts[c].fetch_add(count, shm::relaxed);
        }
    };
    for (auto& count : total.counts)
        if (count.load(shm::relaxed) >= count_max) count.store(0, shm::relaxed);
    for (std::uint32_t c = 0; c < control.chunk_count(); ++c) {
        PinChunk& chunk = control.chunk(c);
        for (auto& word : chunk.pins)
            put(word, std::uint64_t{0});
        fold(chunk.counters);
        put(chunk.summary, std::uint64_t{0});
        put(chunk.oldest, std::uint64_t{0});
        if (chunk.owner.load(shm::relaxed) != 0) {
            put(chunk.epoch, chunk.epoch.load(shm::relaxed) + 1);
            put(chunk.owner, std::uint64_t{0});
        }
    }
    put(control.client(0).state, std::uint64_t{0});
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        fold(control.client_stats(slot));
        Word64& state = control.client(slot).state;
        const std::uint64_t word = state.load(shm::relaxed);
        if (word != client_state::pack(ClientPhase::free, client_state::generation(word)))
            state.store(client_state::pack(ClientPhase::free, client_state::generation(word) + 1),
                        shm::relaxed);
    }
}

void settle_superblock(const Control& control) {
    Superblock& super = control.super();
    // No lease is held: every record is scanned until the epoch has moved on.
    constexpr std::uint64_t epoch_max = last::epoch_mask >> 1;
    const std::uint64_t epoch = super.epoch.load(shm::relaxed);
    if (epoch == 0 || epoch > epoch_max) put(super.epoch, std::uint64_t{1});
    put(super.bound, std::uint64_t{0});
    put(super.pin_high_water, std::uint64_t{0});
    put(super.daemon, std::uint64_t{0});
    if (super.eviction.load(shm::relaxed) > static_cast<std::uint64_t>(EvictionPolicy::none))
        put(super.eviction, static_cast<std::uint64_t>(EvictionPolicy::clock));
    // No host serves the domain: each one joins again, under a generation of its own.
    for (std::uint32_t h = 0; h < control.host_count(); ++h) {
        const std::uint64_t state = control.host(h).state.load(shm::relaxed);
        if (host_state::phase(state) != HostPhase::free)
            put(control.host(h).state, host_state::pack(HostPhase::free, host_state::generation(state)));
    }
    for (std::uint32_t g = 0; g < control.granule_count(); ++g) {
        std::uint64_t hints = 0;
        for (std::uint32_t i = 0; i < records_per_granule; ++i)
            if (phase_of(control.record(g * records_per_granule + i).state.load(shm::relaxed)) == Phase::free)
                hints |= std::uint64_t{1} << i;
        put(control.hint(g), hints);
    }
}

}  // namespace

void write_plan(const Control& control, const RepairSources& sources, RepairPlan* plan) {
    Word64& magic = control.super().magic;
    if (plan->stage != RepairStage::indexing) {
        magic.store(magic_deciding, shm::seq_cst);
        write_pools(control, sources, *plan);
        write_namespaces(control, *plan);
        write_regions(control, *plan);
        write_records(control, *plan);
        shm::fence(shm::seq_cst);
        magic.store(magic_indexing, shm::seq_cst);  // every record says what it is
    }
    build_index(control, plan);
    forget_clients(control);
    settle_superblock(control);
    magic.store(superblock_magic, shm::seq_cst);  // whole again; pairs with the acquire in attach
}

}  // namespace maru::table
