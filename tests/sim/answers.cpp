// The oracle's second half: was each answer true at some instant, and is nothing left at the end?
#include <cstddef>
#include <string_view>

#include "oracle.hpp"
#include "table/check.hpp"

namespace maru::sim {

using namespace table;

std::uint64_t Oracle::new_value(std::uint32_t key) {
    values_.push_back({key, ~0ull, 0});
    return values_.size() - 1;
}

std::uint32_t Oracle::oldest_epoch(const Actor& by) const {
    std::size_t epoch = flushed_at_.size() - 1;
    while (flushed_at_[epoch] > by.operation_began)
        --epoch;
    return static_cast<std::uint32_t>(epoch);
}

bool Oracle::was_present(const Actor& by, std::uint32_t key) const {
    for (std::size_t epoch = oldest_epoch(by); epoch < keys_.size(); ++epoch)
        if (keys_[epoch][key].record >= 0 || keys_[epoch][key].last_present >= by.operation_began)
            return true;
    return false;
}

bool Oracle::was_absent(const Actor& by, std::uint32_t key) const {
    for (std::size_t epoch = oldest_epoch(by); epoch < keys_.size(); ++epoch)
        if (keys_[epoch][key].record < 0 || keys_[epoch][key].last_absent >= by.operation_began) return true;
    return false;
}

void Oracle::miss(Actor& by, std::uint32_t key, const char* what) {
    if (!was_absent(by, key))
        violate("%s of %s: key %u not there, but it was all the time (r%d)", what, by.name.c_str(), key,
                keys_.back()[key].record);
}

void Oracle::present(Actor& by, std::uint32_t key, const char* what) {
    if (!was_present(by, key))
        violate("%s of %s: key %u there, but it was absent all the time", what, by.name.c_str(), key);
}

std::uint32_t Oracle::hit(Actor& by, std::uint32_t key, std::uint32_t record, std::uint32_t generation,
                          std::uint64_t token, HoldKind kind) {
    Hold hold;
    hold.on = true;
    hold.process = by.process;
    hold.kind = kind;
    hold.record = record;
    hold.key = key;
    hold.by = by.name;
    hold.chunk = static_cast<std::uint32_t>(PinToken::Chunk::get(token));
    hold.index = static_cast<std::uint32_t>(PinToken::Index::get(token));
    const auto& truth = records_[record];
    hold.incarnation = truth.incarnation;
    hold.value = truth.value;
    const State now = state(record);
    const PinKind wanted = kind == HoldKind::lease ? PinKind::lease : PinKind::key;
    // The owner's own word may still be in its store buffer; what others see is what protects.
    const std::uint64_t word = raw(&world_.control().chunk(hold.chunk).pins[hold.index], 8);
    const bool stands = pin::protects(word, record, generation, kind == HoldKind::key_pin);
    if (kind == HoldKind::key_pin && (!stands || pin::kind(word) != wanted)) {
        hold.expired = true;  // the daemon ended it before the answer arrived
    } else if (!stands) {
        violate("%s got a view of r%u and no lease protects it", by.name.c_str(), record);
    }
    if (!hold.expired) {
        if (now.generation != generation)
            violate("%s got a view of r%u generation %u, the page is at %u", by.name.c_str(), record,
                    generation, now.generation);
        if (truth.key != key)
            violate("%s asked for key %u and got key %u (r%u)", by.name.c_str(), key, truth.key, record);
        if (values_[truth.value].to < by.operation_began)
            violate("%s got an object of key %u that was gone before it asked (r%u)", by.name.c_str(), key,
                    record);
        // Who asks for a page by its place gets what lies there.
        if (truth.epoch < oldest_epoch(by) && std::string_view(by.operation) != "page")
            violate("%s got an object of key %u that was flushed before it asked (r%u)", by.name.c_str(), key,
                    record);
        if (kind == HoldKind::key_pin && !truth.present)
            violate("%s pinned key %u, but its object is gone (r%u)", by.name.c_str(), key, record);
    }
    for (std::size_t h = 0; h < holds_.size(); ++h)
        if (!holds_[h].on) {
            holds_[h] = std::move(hold);
            return static_cast<std::uint32_t>(h);
        }
    holds_.push_back(std::move(hold));
    return static_cast<std::uint32_t>(holds_.size() - 1);
}

Oracle::Object Oracle::object_of(std::uint32_t hold_number) const {
    const Hold& hold = holds_[hold_number];
    return {hold.record, records_[hold.record].changes, hold.value};
}

void Oracle::retired_damaged(Actor& by, const Object& object, bool retired) {
    const std::uint64_t gone_at = values_[object.value].to;
    const bool stands = gone_at == ~0ull;
    if (retired && stands)
        violate("%s retired the damaged object in r%u, and it stands", by.name.c_str(), object.record);
    if (retired && gone_at < by.operation_began)
        violate("%s retired another object in r%u than the damaged one", by.name.c_str(), object.record);
    if (retired || !stands) return;
    const RecordTruth& truth = records_[object.record];
    bool pinned = truth.last_key_pin >= by.operation_began;
    const Control& c = world_.control();
    for (std::uint32_t chunk = 0; chunk < c.chunk_count(); ++chunk)
        for (const auto& place : c.chunk(chunk).pins) {
            const std::uint64_t word = raw(&place, 8);
            pinned = pinned || (pin::kind(word) == PinKind::key && pin::record(word) == object.record);
        }
    if (!pinned && truth.changes - object.changes < retire_rounds_max)
        violate("%s left the damaged object in r%u, which nobody pins", by.name.c_str(), object.record);
}

void Oracle::store_ended(Actor& by) {
    if (by.placements == 0) return;  // a duplicate, found without one
    ++rounds[by.placements];
    const std::uint32_t most = world_.scenario().rounds_max;
    if (most != 0 && by.placements > most)
        violate("a store of %s placed its entry %u times, expected were %u at most", by.name.c_str(),
                by.placements, most);
}

void Oracle::reserved_as_before(Actor& by, const Page& page, const char* answer) {
    const Control& c = world_.control();
    const State now = state(page.record);
    const Owner owner = by.process->identity.owner();
    if (now.phase != Phase::reserved || now.generation != page.generation || now.owner != owner)
        return violate("a store of %s answers %s, its page r%u was RESERVED g%u and is %s g%u",
                       by.name.c_str(), answer, page.record, page.generation, name_of(now.phase),
                       now.generation);
    bool named = false;
    for (std::uint32_t chunk = 0; chunk < c.chunk_count(); ++chunk)
        if (raw(&c.chunk(chunk).owner, 8) == by.process->identity.holder_word())
            for (const auto& place : c.chunk(chunk).pins) {
                const std::uint64_t word = raw(&place, 8);
                // Its generation may be the one before, while the newer word waits in a store buffer: a sweep
                // goes by the record.
                named = named || (pin::kind(word) == PinKind::own && pin::record(word) == page.record);
            }
    if (!named)
        violate("a store of %s answers %s, and no word of its own names its page r%u", by.name.c_str(),
                answer, page.record);
    for (std::uint32_t b = 0; b < c.bucket_count() + c.overflow_count(); ++b)
        for (const auto& place : c.bucket(b).slots) {
            const std::uint64_t word = raw(&place, 8);
            if (word != 0 && slot::record(word) == page.record &&
                slot::same_generation(word, page.generation))
                violate("a store of %s answers %s and left an entry of r%u", by.name.c_str(), answer,
                        page.record);
        }
}

void Oracle::read(Actor& by, std::uint32_t hold_number, std::uint64_t word) {
    const Hold& hold = holds_[hold_number];
    if (word != payload_word(hold.value, hold.key))
        violate("%s reads other bytes under its lease: r%u of key %u", by.name.c_str(), hold.record,
                hold.key);
}

void Oracle::let_go_of(const Process& process) {
    for (Hold& hold : holds_)
        if (hold.process == &process) hold.on = false;
}

void Oracle::end_key_pins(const Process& process) {
    for (Hold& hold : holds_)
        if (hold.on && hold.process == &process && hold.kind == HoldKind::key_pin) hold.expired = true;
}

bool Oracle::key_pinned(std::uint32_t key) const {
    const Control& c = world_.control();
    for (std::uint32_t chunk = 0; chunk < c.chunk_count(); ++chunk)
        for (std::uint32_t i = 0; i < pins_per_chunk; ++i) {
            const std::uint64_t word = raw(&c.chunk(chunk).pins[i], 8);
            if (pin::kind(word) == PinKind::key && records_[pin::record(word)].key == key) return true;
        }
    return false;
}

void Oracle::no_page_is_stuck(Actor& by) {
    const Control& c = world_.control();
    for (std::uint32_t record = records_per_granule; record < c.record_count(); ++record) {
        const State now = state(record);
        const PageLocation at = location(record);
        const std::uint64_t claim = raw(&c.granule_claim(record / records_per_granule), 8);
        if (claim == 0 || granule_claim::region(claim) != at.region || at.region >= c.region_count())
            continue;
        const RegionEntry& region = c.region(at.region);
        if (RegionState::unpack(raw(&region.state, 8)).phase != RegionPhase::held ||
            raw(&region.name_space, 4) != 0)
            continue;
        bool theirs = now.phase == Phase::sealed || now.phase == Phase::reserved ||
                      (now.phase == Phase::publishing && !records_[record].present);
        for (std::uint32_t chunk = 0; chunk < c.chunk_count(); ++chunk)
            for (const auto& pin : c.chunk(chunk).pins) {
                const std::uint64_t word = raw(&pin, 8);
                theirs =
                    theirs || (word != 0 && pin::kind(word) != PinKind::own && pin::record(word) == record);
            }
        if (!theirs)
            violate("%s found no page, and r%u is %s: nobody pins it, all others stand still",
                    by.name.c_str(), record, name_of(now.phase));
    }
}

void Oracle::after_sweeps() {
    for (std::uint32_t record = records_per_granule; record < world_.control().record_count(); ++record) {
        const State now = state(record);
        const bool owned = now.phase == Phase::reserved || now.phase == Phase::publishing ||
                           now.phase == Phase::retiring_evict || now.phase == Phase::retiring_delete;
        if (owned && process_of(now.owner) == nullptr)
            violate("r%u is %s of somebody dead after the sweep", record, name_of(now.phase));
    }
}

void Oracle::all_flushed_evicted() {
    for (std::uint32_t record = 0; record < records_.size(); ++record)
        if (records_[record].present && world_.namespace_of(records_[record].key) == 0)
            violate("an object of key %u was flushed, nobody pins it, and eviction leaves it: r%u",
                    records_[record].key, record);
}

void Oracle::at_the_end() {
    const Control& c = world_.control();
    const CheckReport report = look(c);
    for (const Finding& finding : report.findings)
        violate("check: %s, %s", finding.what.c_str(), finding.where.c_str());
    for (std::uint32_t record = records_per_granule; record < c.record_count(); ++record) {
        const State now = state(record);
        const bool rests =
            now.phase == Phase::sealed || now.phase == Phase::free || now.phase == Phase::published;
        if (!rests) violate("leaked page: r%u is %s after the last sweep", record, name_of(now.phase));
        if (now.phase == Phase::published && !records_[record].present)
            violate("r%u is PUBLISHED without an object", record);
    }
    for (std::uint32_t chunk = 0; chunk < c.chunk_count(); ++chunk) {
        const std::uint64_t owner = raw(&c.chunk(chunk).owner, 8);
        bool daemons = false;
        for (const auto& process : *processes_)
            daemons =
                daemons || (process->alive && process->daemon && owner == process->identity.holder_word());
        if (owner != 0 && !daemons) violate("leaked pin chunk %u", chunk);
        for (std::uint32_t i = 0; i < pins_per_chunk; ++i)
            if (raw(&c.chunk(chunk).pins[i], 8) != 0) violate("leaked pin %u.%u", chunk, i);
    }
    for (std::uint32_t o = 0; o < c.overflow_count(); ++o) {
        bool linked = false;
        for (std::uint32_t b = 0; b < c.bucket_count() + c.overflow_count(); ++b)
            linked = linked || raw(&c.bucket(b).link, 8) == o + 1;
        const std::uint64_t claim = raw(&c.overflow_claim(o), 8);
        if (claim != (linked ? overflow_claim::linked : 0)) violate("leaked overflow bucket %u", o);
        if (linked) count("overflow bucket linked");
    }
    for (std::uint32_t slot = 1; slot < c.client_count(); ++slot) {
        const std::uint64_t word = raw(&c.client(slot).state, 8);
        if (client_state::phase(word) == ClientPhase::free) continue;
        bool daemon = false;
        for (const auto& process : *processes_)
            daemon = daemon || (process->alive && process->daemon && process->identity.slot == slot);
        if (!daemon) violate("client slot %u is not free after the last sweep", slot);
    }
    for (std::uint32_t b = 0; b < c.bucket_count() + c.overflow_count(); ++b)
        for (std::uint32_t s = 0; s < slots_per_bucket; ++s) {
            const std::uint64_t word = raw(&c.bucket(b).slots[s], 8);
            if (word == 0) continue;
            if (slot::is_tentative(word))
                violate("stray tentative slot %u.%u", b, s);
            else if (!records_[slot::record(word)].present)
                violate("stray slot %u.%u: r%u", b, s, slot::record(word));
        }
}

}  // namespace maru::sim
