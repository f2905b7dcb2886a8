#include "oracle.hpp"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "table/check.hpp"

namespace maru::sim {

using namespace table;

namespace {

/// May a record go from one phase to another, and with which generation? 0 never, 1 with the same one, G with
/// the next one.
constexpr char transitions[9][10] = {
    // SEALED FREE RESERVED PUBLISHING PUBLISHED RETIRING(evict) RETIRING(delete) RETIRED BAD
    "GG0000000",  // SEALED
    "G01000000",  // FREE
    "0G0100000",  // RESERVED
    "0G1010000",  // PUBLISHING
    "000001100",  // PUBLISHED
    "000010110",  // RETIRING(evict)
    "000010010",  // RETIRING(delete)
    "0GG000000",  // RETIRED
    "000000000",  // BAD
};

}  // namespace

Oracle::Oracle(World& world, Machine& machine) : world_(world), machine_(machine) {}

void Oracle::begin(std::vector<std::unique_ptr<Process>>* processes) {
    processes_ = processes;
    records_.assign(world_.control().record_count(), {});
    keys_.assign(1, std::vector<KeyTruth>(world_.key_count()));
    flushed_at_.assign(1, 0);
    values_.assign(1, {});
    holds_.clear();
    pin_since_.assign(std::size_t{world_.control().chunk_count()} * pins_per_chunk, 0);
    drains_since_.assign(world_.control().region_count(), 0);
    expiry_pass = 0;
}

void Oracle::violate(const char* format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    machine_.violate(text);
}

std::uint64_t Oracle::field(std::uint32_t record, std::size_t offset, unsigned bytes) const {
    return raw(reinterpret_cast<const std::byte*>(&world_.control().record(record)) + offset, bytes);
}

State Oracle::state(std::uint32_t record) const {
    return State::unpack(field(record, offsetof(PageRecord, state), 8));
}

PageLocation Oracle::location(std::uint32_t record) const {
    PageLocation at;
    at.region = static_cast<std::uint32_t>(field(record, offsetof(PageRecord, region), 4));
    at.page_index = static_cast<std::uint32_t>(field(record, offsetof(PageRecord, page_index), 4));
    at.page_4k = static_cast<std::uint32_t>(field(record, offsetof(PageRecord, page_4k), 4));
    return at;
}

bool Oracle::covers(std::uint32_t record, std::uint32_t unit) const {
    const PageLocation at = location(record);
    const std::uint32_t first = world_.unit_of(at);
    return unit >= first && unit < first + at.page_4k;
}

Process* Oracle::process_of(Owner owner) const {
    for (const auto& process : *processes_)
        if (process->alive && process->identity.owner() == owner) return process.get();
    return nullptr;
}

void Oracle::changed(Actor& by, void* place, unsigned, std::uint64_t before, std::uint64_t after,
                     bool atomic) {
    const Place at = world_.find(place);
    switch (at.area) {
        case Area::records:
            if (at.offset == offsetof(PageRecord, state))
                state_changed(by, at.entry, State::unpack(before), State::unpack(after), atomic);
            else
                field_changed(by, at.entry, at.offset);
            break;
        case Area::index:
            if (at.offset == offsetof(Bucket, link)) {
                if (before != 0)
                    violate("link of bucket %u changed after it was set (op %s)", at.entry, by.operation);
            } else {
                slot_changed(by, before, after, atomic);
            }
            break;
        case Area::chunks:
            if (at.offset >= offsetof(PinChunk, pins))
                pin_changed(by, at.entry,
                            static_cast<std::uint32_t>((at.offset - offsetof(PinChunk, pins)) / 8), before,
                            after);
            break;
        case Area::payload:
            payload_changed(by, at.entry, after);
            break;
        case Area::regions:
            if (at.offset == 0) region_changed(by, at.entry, before, after);
            break;
        case Area::pools:
            pool_changed(by, at.entry, at.offset, before, after);
            break;
        case Area::namespaces:
            if (at.offset == offsetof(NamespaceEntry, epoch)) flushed();
            break;
        case Area::outside:
            violate("a write outside every table by op %s", by.operation);
            break;
        default:
            break;
    }
}

// -- records

void Oracle::state_changed(Actor& by, std::uint32_t record, State before, State after, bool atomic) {
    if (!atomic) violate("state of r%u was stored, not compared and swapped (op %s)", record, by.operation);
    const auto from = static_cast<unsigned>(before.phase), to = static_cast<unsigned>(after.phase);
    if (from > 8 || to > 8) return violate("r%u is in no phase (op %s)", record, by.operation);
    const char allowed = transitions[from][to];
    if (allowed == '0')
        return violate("forbidden transition %s -> %s of r%u (op %s)", name_of(before.phase),
                       name_of(after.phase), record, by.operation);
    const bool next = after.generation == before.generation + 1, same = after.generation == before.generation;
    if (allowed == '1' ? !same : !next)
        return violate("generation of r%u went from %u to %u with %s -> %s (op %s)", record,
                       before.generation, after.generation, name_of(before.phase), name_of(after.phase),
                       by.operation);
    if (allowed == 'G') given_up(by, record, before);
    page_taken_from(by, record, before, after);
    auto& truth = records_[record];
    ++truth.changes;
    switch (after.phase) {
        case Phase::retired:
            retired(by, record, before);
            break;
        case Phase::published:
            if (!truth.present)
                violate("r%u became PUBLISHED without a committed object (op %s)", record, by.operation);
            if (before.phase == Phase::retiring_evict) count("rescued or decided for eviction");
            if (before.phase == Phase::retiring_delete) count("delete called off");
            break;
        case Phase::retiring_delete:
            if (before.phase == Phase::retiring_evict) count("eviction turned into deletion");
            [[fallthrough]];
        case Phase::retiring_evict:
            if (after.attempt == before.attempt)
                violate("attempt of r%u did not change at RETIRING (op %s)", record, by.operation);
            break;
        default:
            break;
    }
    if (before.phase == Phase::publishing && after.phase != Phase::published && truth.present)
        violate("committed object of key %u thrown away: r%u to %s (op %s)", truth.key, record,
                name_of(after.phase), by.operation);
}

/// The page gets a new generation: nobody may still count on the old one.
void Oracle::given_up(Actor& by, std::uint32_t record, State before) {
    auto& truth = records_[record];
    for (const Hold& hold : holds_)
        if (hold.on && hold.record == record && hold.incarnation == truth.incarnation && !hold.expired)
            violate("page of r%u recycled under %s of %s (op %s)", record,
                    hold.kind == HoldKind::lease ? "a lease" : "a key pin", hold.by.c_str(), by.operation);
    if (truth.present)
        violate("r%u recycled from %s while its object of key %u is live (op %s)", record,
                name_of(before.phase), truth.key, by.operation);
    ++truth.incarnation;
}

void Oracle::page_taken_from(Actor& by, std::uint32_t record, State before, State after) {
    const bool owned = before.phase == Phase::reserved || before.phase == Phase::publishing;
    const bool ends =
        after.phase == Phase::free || after.phase == Phase::reserved || after.phase == Phase::publishing;
    if (owned && ends) {
        const Process* owner = process_of(before.owner);
        if (owner != nullptr && owner != by.process)
            violate("page of r%u taken from %s, who lives (%s -> %s, op %s of %s)", record,
                    owner->daemon ? "a daemon" : "a client", name_of(before.phase), name_of(after.phase),
                    by.operation, by.name.c_str());
    }
    if ((after.phase == Phase::reserved || after.phase == Phase::publishing ||
         (after.phase == Phase::retiring_evict && before.phase == Phase::published) ||
         after.phase == Phase::retiring_delete) &&
        by.process != nullptr && after.owner != by.process->identity.owner())
        violate("r%u became %s of somebody else (op %s)", record, name_of(after.phase), by.operation);
}

void Oracle::retired(Actor& by, std::uint32_t record, State before) {
    auto& truth = records_[record];
    if (!truth.present) return violate("r%u retired twice (op %s)", record, by.operation);
    const bool evicted = before.phase == Phase::retiring_evict;
    count(evicted ? "evicted" : "deleted");
    for (const Hold& hold : holds_) {
        if (!hold.on || hold.record != record || hold.incarnation != truth.incarnation || hold.expired)
            continue;
        if (hold.kind == HoldKind::key_pin)
            violate("key-pinned object of key %u removed: r%u (op %s)", truth.key, record, by.operation);
        else if (evicted)
            violate("object of key %u evicted under a lease of %s: r%u (op %s)", truth.key, hold.by.c_str(),
                    record, by.operation);
        else
            count("deleted under a lease");
    }
    auto& key = keys_[truth.epoch][truth.key];
    key.record = -1;
    key.last_present = key.last_absent = machine_.now();
    values_[truth.value].to = machine_.now();
    truth.present = false;
}

void Oracle::field_changed(Actor& by, std::uint32_t record, std::uint32_t offset) {
    if (offset == offsetof(PageRecord, last) || offset == offsetof(PageRecord, visited)) return;
    const State now = state(record);
    const bool place = offset < offsetof(PageRecord, key_length);
    if (place) {
        if (now.phase != Phase::sealed)
            violate("place or size of r%u written while %s (op %s)", record, name_of(now.phase),
                    by.operation);
        return;
    }
    if (now.phase != Phase::publishing ||
        (by.process != nullptr && now.owner != by.process->identity.owner()))
        violate("record r%u filled while %s (op %s of %s)", record, name_of(now.phase), by.operation,
                by.name.c_str());
}

// -- index

void Oracle::slot_changed(Actor& by, std::uint64_t before, std::uint64_t after, bool atomic) {
    if (!atomic) violate("a slot was stored, not compared and swapped (op %s)", by.operation);
    if (before != 0 && !slot::is_tentative(before)) {
        const std::uint32_t record = slot::record(before);
        const State now = state(record);
        if (slot::same_generation(before, now.generation) && records_[record].present)
            violate("live slot cleared: r%u of key %u, %s (op %s)", record, records_[record].key,
                    name_of(now.phase), by.operation);
    }
    if (before != 0 && slot::is_tentative(before) && after == 0 && by.process != nullptr &&
        state(slot::record(before)).owner != by.process->identity.owner())
        count("thrown out");
    if (after != 0 && slot::is_tentative(after)) ++by.placements;
    if (after != 0 && !slot::is_tentative(after)) committed(by, after);
}

void Oracle::committed(Actor& by, std::uint64_t word) {
    const std::uint32_t record = slot::record(word);
    const State now = state(record);
    if (now.phase != Phase::publishing || !slot::same_generation(word, now.generation))
        return violate("commit of r%u while %s: a final slot that is stale (op %s)", record,
                       name_of(now.phase), by.operation);
    const int found = world_.key_of_hash(field(record, offsetof(PageRecord, hash_low), 8));
    if (found < 0) return violate("committed a record without a key: r%u (op %s)", record, by.operation);
    const auto key = static_cast<std::uint32_t>(found);
    if (by.key >= 0 && found != by.key)
        return violate("committed key %u, asked was %d: r%u (op %s)", key, by.key, record, by.operation);
    const auto epoch = static_cast<std::uint32_t>(field(record, offsetof(PageRecord, namespace_epoch), 4));
    if (epoch >= keys_.size())
        return violate("committed r%u under an epoch of its namespace that has not begun (op %s)", record,
                       by.operation);
    KeyTruth& entry = keys_[epoch][key];
    if (entry.record >= 0)
        return violate("two live entries for key %u: r%d and r%u (op %s)", key, entry.record, record,
                       by.operation);
    const PageLocation at = location(record);
    const auto words = world_.payload(at);
    if (words.empty()) return violate("committed a page outside every pool: r%u", record);
    const std::uint64_t first = raw(&words[0], 8);
    if (first == 0)
        return violate("committed a page that nobody has written: r%u (op %s)", record, by.operation);
    for (const auto& place : words)
        if (raw(&place, 8) != first)
            return violate("committed torn payload: r%u (op %s)", record, by.operation);
    if ((first & 0xff) != key)
        return violate("committed payload of another key: r%u (op %s)", record, by.operation);
    for (std::uint32_t other = 0; other < records_.size(); ++other)
        if (other != record && records_[other].present)
            for (std::uint32_t unit = 0; unit < at.page_4k; ++unit)
                if (covers(other, world_.unit_of(at) + unit))
                    return violate("r%u and r%u share memory (op %s)", record, other, by.operation);
    auto& truth = records_[record];
    truth.present = true;
    truth.key = key;
    truth.epoch = epoch;
    truth.value = first >> 8;
    entry.last_absent = entry.last_present = machine_.now();
    entry.record = static_cast<int>(record);
    values_[truth.value].from = machine_.now();
    values_[truth.value].to = ~0ull;
}

void Oracle::flushed() {
    count("flushed");
    keys_.emplace_back(world_.key_count());
    flushed_at_.push_back(machine_.now());
}

// -- pins, payload, regions

void Oracle::pin_changed(Actor& by, std::uint32_t chunk, std::uint32_t index, std::uint64_t before,
                         std::uint64_t after) {
    auto& since = pin_since_[std::size_t{chunk} * pins_per_chunk + index];
    const std::uint64_t began = since;
    since = expiry_pass;
    const std::uint64_t owner_word = raw(&world_.control().chunk(chunk).owner, 8);
    const Process* owner = process_of(Owner::of(holder::slot(owner_word), holder::generation(owner_word)));
    const bool foreign = owner != nullptr && owner != by.process;
    const bool key_pin = pin::kind(before) == PinKind::key;
    for (const std::uint64_t word : {before, after})
        if (pin::kind(word) == PinKind::key && pin::record(word) < records_.size())
            records_[pin::record(word)].last_key_pin = machine_.now();
    if (foreign && !(key_pin && by.process != nullptr && by.process->daemon && after == 0))
        violate("pin %u.%u of somebody who lives was changed (op %s of %s)", chunk, index, by.operation,
                by.name.c_str());
    const bool by_expiry = key_pin && foreign && !owner->gone;
    if (by_expiry) {
        count("key pin expired");
        if (expiry_pass - began <= expiry_after)
            violate("a fresh key pin expired: pin %u.%u (op %s)", chunk, index, by.operation);
    }
    for (Hold& hold : holds_) {
        if (!hold.on || hold.chunk != chunk || hold.index != index || hold.expired) continue;
        if (hold.kind == HoldKind::key_pin && foreign)
            hold.expired = true;
        else
            violate("the word of a standing %s of %s went: pin %u.%u (op %s)",
                    hold.kind == HoldKind::lease ? "lease" : "key pin", hold.by.c_str(), chunk, index,
                    by.operation);
    }
}

void Oracle::payload_changed(Actor& by, std::uint32_t word, std::uint64_t) {
    const auto there = world_.unit_of_word(word);
    if (!there)
        return violate("a write into the memory of a pool that has left (op %s of %s)", by.operation,
                       by.name.c_str());
    const std::uint32_t unit = *there;
    for (std::uint32_t record = 0; record < records_.size(); ++record)
        if (records_[record].present && covers(record, unit))
            violate("a write hits the live page of r%u, key %u (op %s of %s)", record, records_[record].key,
                    by.operation, by.name.c_str());
    for (const Hold& hold : holds_)
        if (hold.on && hold.kind == HoldKind::lease &&
            hold.incarnation == records_[hold.record].incarnation && covers(hold.record, unit))
            violate("a write hits the page that %s reads: r%u (op %s of %s)", hold.by.c_str(), hold.record,
                    by.operation, by.name.c_str());
}

void Oracle::region_changed(Actor& by, std::uint32_t region, std::uint64_t before, std::uint64_t after) {
    const auto phase = RegionState::unpack(after).phase;
    const auto was = RegionState::unpack(before).phase;
    if (phase == RegionPhase::held) drains_since_[region] = 0;
    if (was == RegionPhase::held) drains_since_[region] = machine_.now();
    if (phase == RegionPhase::held && pool_state_of(region) == PoolState::draining)
        violate("region %u serves in a pool that drains (op %s of %s)", region, by.operation,
                by.name.c_str());
    if (phase == RegionPhase::held && was == RegionPhase::formatting) count("region formed");
    if (phase == RegionPhase::held && was == RegionPhase::sealing) count("seal called off");
    if (phase != RegionPhase::free) return;
    if (was == RegionPhase::sealing) count("region given back");
    for (std::uint32_t record = 0; record < records_.size(); ++record) {
        const std::uint64_t claim = raw(&world_.control().granule_claim(record / records_per_granule), 8);
        if (claim == 0 || granule_claim::region(claim) != region) continue;
        if (location(record).region != region || state(record).phase == Phase::sealed) continue;
        violate("region %u given back with r%u %s (op %s)", region, record, name_of(state(record).phase),
                by.operation);
    }
}

}  // namespace maru::sim
