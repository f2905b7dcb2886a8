// Eviction: CLOCK (Corbato 1968) over page records, one hand for the domain that moves granule by granule.
//
// Victims are decided in batches with one look at the pins. The first page goes straight to the evictor, the
// others become FREE for its next stores.
#include <algorithm>

#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/age.hpp"
#include "table/index.hpp"
#include "table/namespaces.hpp"
#include "table/regions.hpp"

namespace maru::table {

namespace {

std::uint64_t page_bytes_of(const PageRecord& record) {
    return std::uint64_t{record.page_4k.load(shm::relaxed)} * page_align;
}

/// Of a record that reads PUBLISHED; what is read here holds if its generation still stands afterwards.
bool is_chosen(const PageRecord& record, const Chosen& chosen, std::uint64_t now) {
    if (chosen.name_space && record.name_space.load(shm::relaxed) != *chosen.name_space) return false;
    return chosen.older_than_s == 0 || age_of(record, now) >= chosen.older_than_s;
}

}  // namespace

struct Worker::Pass {
    PageClass which;
    bool any_class = false;
    bool any_size = false;      // pages of every size of the namespace
    bool help = false;          // second round: undecided retirements of others are decided, not waited for
    bool visited_too = false;   // no second chance (a region is being emptied)
    bool spare = false;         // nothing is evicted: the domain's policy is none
    bool usable_only = false;   // nothing in regions that are being emptied: their pages cannot be had
    bool flushed_only = false;  // objects of this epoch of their namespace stay
    std::uint32_t epoch = 0;
    const Chosen* chosen = nullptr;  // nullptr: every object
    EvictReason reason = EvictReason::demand;
    std::size_t wanted = ~std::size_t{0};            // evictions that end the pass
    std::uint64_t wanted_bytes = ~std::uint64_t{0};  // the same, in bytes of pages
    Page* page = nullptr;                            // where the first page goes; nullptr: all become FREE
    PinSlot slot;                                    // announces what is taken for `page`
    bool got_page = false;
    Evicted done;
    std::size_t batch_limit = 1;  // small regions are not emptied for one page
    Retiring batch[evict_batch];
    std::size_t batched = 0;
    std::uint64_t batched_bytes = 0;

    /// Nobody asks how much a store on a full pool evicts.
    std::uint64_t bytes_of(const PageRecord& record) const {
        return reason == EvictReason::demand ? 0 : page_bytes_of(record);
    }
    /// Nothing more is to be begun.
    bool ended() const {
        if (page != nullptr) return got_page;
        return done.objects + batched >= wanted || done.bytes + batched_bytes >= wanted_bytes;
    }
};

void Evicted::add(const Evicted& other) {
    objects += other.objects;
    bytes += other.bytes;
    pinned += other.pinned;
    pinned_bytes += other.pinned_bytes;
    reserved_bytes += other.reserved_bytes;
    granules += other.granules;
}

void Worker::count_eviction(EvictReason reason) {
    if (reason == EvictReason::demand) return pins_.count(Counter::evictions);
    control_.super().evicted[static_cast<int>(reason)].fetch_add(1, shm::relaxed);
}

bool Worker::begin_retire(Pass& pass, std::uint32_t number, std::uint64_t state) {
    auto& victim = pass.batch[pass.batched];
    if (!pins_.take(&victim.slot)) return false;
    const State seen = State::unpack(state);
    pins_.announce_own(victim.slot, number, seen.generation);
    victim.record = number;
    victim.state =
        state_word(Phase::retiring_evict, seen.generation, pins_.identity().owner(), seen.attempt + 1u);
    const bool early =
        mutant(Mutant::evict_scan_before_retiring) && is_pinned(control_, number, seen.generation, false);
    if (early || !control_.record(number).state.compare_exchange(state, victim.state)) {
        pins_.clear(victim.slot);
        return false;
    }
    ++pass.batched;
    pass.batched_bytes += pass.bytes_of(control_.record(number));
    fault_point("retire.after_retiring");
    return true;
}

/// One scan for the whole batch; it serves for freeing too, since a reader that comes after it can only
/// rescue.
void Worker::decide(Pass& pass) {
    ScanTarget targets[evict_batch];
    for (std::size_t i = 0; i < pass.batched; ++i)
        targets[i] = {pass.batch[i].record, generation_of(pass.batch[i].state), false};
    if (pass.batched > 0) scan_pins(control_, std::span(targets, pass.batched));
    for (std::size_t i = 0; i < pass.batched; ++i) {
        auto& victim = pass.batch[i];
        PageRecord& record = control_.record(victim.record);
        if (mutant(Mutant::evict_any_attempt)) {
            const std::uint64_t now = record.state.load(shm::acquire);
            if (phase_of(now) == Phase::retiring_evict) victim.state = now;
        }
        const State seen = State::unpack(victim.state);
        const std::uint64_t retired = state_word(Phase::retired, seen.generation, {}, seen.attempt);
        const std::uint64_t bytes = pass.bytes_of(record);
        if (targets[i].pinned) {
            ++pass.done.pinned;
            pass.done.pinned_bytes += bytes;
            record.state.compare_exchange(victim.state,
                                          state_word(Phase::published, seen.generation, {}, seen.attempt));
        } else if (record.state.compare_exchange(victim.state, retired)) {
            fault_point("retire.after_retired");
            count_eviction(pass.reason);
            ++pass.done.objects;
            pass.done.bytes += bytes;
            if (pass.page != nullptr && !pass.got_page) {
                pass.got_page = take_retired(victim.record, retired, true, pass.slot, pass.which, pass.page);
                granule_cursor_ = victim.record / records_per_granule;
            } else {
                reclaim(victim.record, retired, true);
            }
        }
        pins_.clear(victim.slot);
    }
    pass.batched = 0;
    pass.batched_bytes = 0;
}

void Worker::visit(Pass& pass, std::uint32_t number) {
    PageRecord& record = control_.record(number);
    const std::uint64_t state = record.state.load(shm::acquire);  // the record's words belong to what it says
    const bool wants_page = pass.page != nullptr && !pass.got_page;
    switch (phase_of(state)) {
        case Phase::free:
            if (wants_page) pass.got_page = take_free(number, state, pass.slot, pass.which, pass.page);
            break;
        case Phase::retired:
            if (wants_page)
                pass.got_page = take_retired(number, state, false, pass.slot, pass.which, pass.page);
            else
                reclaim(number, state, false);
            break;
        case Phase::published:
            if (pass.spare) break;
            if (pass.flushed_only && record.namespace_epoch.load(shm::relaxed) >= pass.epoch) break;
            if (mutant(Mutant::flushed_not_evicted) &&
                record.namespace_epoch.load(shm::relaxed) < control_.name_space(0).epoch.load(shm::relaxed))
                break;
            if (pass.chosen != nullptr &&
                !is_chosen(record, *pass.chosen, control_.super().tick.load(shm::relaxed)))
                break;
            if (!pass.visited_too && record.visited.load(shm::relaxed) != 0)
                record.visited.store(0, shm::relaxed);  // second chance
            else
                begin_retire(pass, number, state);
            break;
        case Phase::publishing:
            if (!help_publishing(number, state)) pass.done.reserved_bytes += pass.bytes_of(record);
            break;
        case Phase::retiring_evict:
        case Phase::retiring_delete:
            if (mutant(Mutant::foreign_left)) break;
            if (pass.help && State::unpack(state).owner != pins_.identity().owner()) {
                PinSlot own;
                if (!pins_.take(&own)) break;
                decide_foreign(number, state, own);
                pins_.clear(own);
            }
            break;
        case Phase::sealed: {  // left so in a region that is in use: anybody may open it
            // Of the region's run as it is read now, after the state: while a region is formed, its records
            // still name the one before. A region taken apart later stamps them again, and this
            // compare-and-swap fails.
            const std::uint64_t claim =
                control_.granule_claim(number / records_per_granule).load(shm::acquire);
            const bool former = mutant(Mutant::open_by_former_place);
            const auto region = read_region(
                control_, former ? record.region.load(shm::relaxed) : granule_claim::region(claim));
            if (claim != 0 && region && region->phase == RegionPhase::held &&
                (former ||
                 (number >= region->first_record && number - region->first_record < region->page_count)) &&
                record.state.compare_exchange(state, state_word(Phase::free, generation_of(state) + 1)))
                set_hint(control_, number);
            break;
        }
        case Phase::reserved:
            pass.done.reserved_bytes += pass.bytes_of(record);
            break;
        case Phase::bad:
            break;
    }
}

/// Moves the hand over up to `granules` granules; ends early when the pass has what it wants. The hand counts
/// strides of records, so that it goes on where the last pass ended, also inside a granule. Returns over how
/// many granules it went.
std::uint32_t Worker::move_hand(Pass& pass, std::uint32_t granules) {
    const std::uint32_t count = control_.granule_count();
    auto& hand = control_.super().evict_hand;
    std::uint32_t since_decision = 0;
    std::uint64_t left = std::uint64_t{granules} * strides_per_granule;
    for (; left > 0 && !pass.ended(); --left) {
        const std::uint64_t position = hand.fetch_add(1, shm::relaxed);
        const auto granule = static_cast<std::uint32_t>(position / strides_per_granule % count);
        const auto stride = static_cast<std::uint32_t>(position % strides_per_granule);
        std::uint32_t first = 0, pages = 0;
        if (!granule_of_class(granule, pass, &first, &pages)) {
            const std::uint64_t rest =
                strides_per_granule - 1 - stride;  // nothing in here: on to the next granule
            hand.fetch_add(rest, shm::relaxed);
            left -= std::min(left - 1, rest);
            continue;
        }
        pass.batch_limit = std::clamp<std::size_t>(pages / 8, 1, evict_batch);
        for (std::uint32_t i = 0; i < evict_stride && !pass.ended(); ++i) {
            const std::uint32_t number = granule * records_per_granule + stride * evict_stride + i;
            if (number < first || number - first >= pages || number >= control_.record_count()) continue;
            visit(pass, number);
            if (pass.batched >= pass.batch_limit) decide(pass);
        }
        if (pass.batched > 0 && ++since_decision >= 4 * strides_per_granule) {
            decide(pass);  // nobody waits long for an undecided victim
            since_decision = 0;
        }
    }
    decide(pass);
    return granules - static_cast<std::uint32_t>(left / strides_per_granule);
}

/// The granule holds pages that the pass is about; `first` and `pages` are its region's run of records.
bool Worker::granule_of_class(std::uint32_t granule, const Pass& pass, std::uint32_t* first,
                              std::uint32_t* pages) const {
    const std::uint64_t claim = control_.granule_claim(granule).load(shm::relaxed);
    const std::uint32_t region = granule_claim::region(claim);
    if (claim == 0 || region >= control_.region_count()) return false;
    const RegionEntry& entry = control_.region(region);
    *first = entry.first_record.load(shm::relaxed);
    *pages = entry.page_count.load(shm::relaxed);
    if (pass.usable_only && RegionState::unpack(entry.state.load(shm::relaxed)).phase != RegionPhase::held)
        return false;
    return pass.any_class || (entry.name_space.load(shm::relaxed) == pass.which.name_space &&
                              (pass.any_size || entry.page_4k.load(shm::relaxed) == pass.which.page_4k));
}

Code Worker::evict_to_reuse(PageClass wanted, Page* page) {
    Pass pass;
    pass.which = wanted;
    pass.page = page;
    pass.spare =
        control_.super().eviction.load(shm::relaxed) == static_cast<std::uint64_t>(EvictionPolicy::none);
    if (!pins_.take(&pass.slot)) return Code::contended;
    const std::uint32_t count = control_.granule_count();
    // Two laps for the second chance; then three that also decide what stopped retirers left, whose objects
    // then have their second chance, too. Each lap ends with a decision, so that what was read since the last
    // one keeps its own.
    for (int lap = 0; lap < (mutant(Mutant::one_lap_less) ? 4 : 5) && !pass.got_page; ++lap) {
        pass.help = lap >= 2;
        move_hand(pass, count);
    }
    if (pass.got_page) return Code::ok;
    pins_.clear(pass.slot);
    return Code::full;
}

/// Evicts one object of the key's chain, whose slots are all taken and which cannot grow.
bool Worker::evict_beside(const Key& key) {
    if (control_.super().eviction.load(shm::relaxed) == static_cast<std::uint64_t>(EvictionPolicy::none))
        return false;
    Pass pass;
    walk_slots(control_, key.low, shm::acquire, [&](Word64& place) {
        const std::uint64_t word = place.load(shm::acquire);
        const std::uint32_t number = slot::record(word);
        if (slot::is_tentative(word) || number == 0 || number >= control_.record_count()) return false;
        const std::uint64_t state = control_.record(number).state.load(shm::acquire);
        if (phase_of(state) != Phase::published || !slot::same_generation(word, generation_of(state)))
            return false;
        if (begin_retire(pass, number, state)) decide(pass);
        return pass.done.objects > 0;
    });
    return pass.done.objects > 0;
}

std::size_t Worker::evict(PageClass which, std::size_t count) {
    Pass pass;
    pass.which = which;
    pass.any_size = which.page_4k == 0;
    pass.wanted = count;
    for (int round = 0; round < 2 && pass.done.objects < count; ++round)
        move_hand(pass, control_.granule_count());
    return pass.done.objects;
}

Evicted Worker::evict_ahead(std::uint64_t bytes, std::uint32_t granules) {
    Pass pass;
    pass.any_class = true;
    pass.usable_only = true;
    pass.reason = EvictReason::watermark;
    pass.wanted_bytes = bytes;
    pass.done.granules = move_hand(pass, granules);
    return pass.done;
}

Evicted evict_chosen(Worker& worker, const Chosen& chosen, std::uint32_t first, std::uint32_t count) {
    Worker::Pass pass;
    pass.chosen = &chosen;
    pass.visited_too = !chosen.spares_visited;
    pass.reason = EvictReason::admin;
    pass.wanted_bytes = chosen.bytes;
    const std::uint32_t end = std::min(worker.control().record_count(), first + count);
    for (std::uint32_t number = std::max(first, 1u); number < end; ++number) {
        if (pass.ended()) worker.decide(pass);  // what turns out to be pinned does not count
        if (pass.ended()) break;
        worker.visit(pass, number);
        if (pass.batched == evict_batch) worker.decide(pass);
    }
    worker.decide(pass);
    return pass.done;
}

Evicted count_chosen(const Control& control, const Chosen& chosen, std::uint32_t first, std::uint32_t count) {
    Evicted sum;
    ScanTarget targets[evict_batch];
    std::size_t found = 0;
    const auto sort_out = [&] {
        scan_pins(control, std::span(targets, found));
        for (std::size_t i = 0; i < found; ++i) {
            const std::uint64_t bytes = page_bytes_of(control.record(targets[i].record));
            if (sum.bytes >= chosen.bytes) break;
            ++(targets[i].pinned ? sum.pinned : sum.objects);
            (targets[i].pinned ? sum.pinned_bytes : sum.bytes) += bytes;
        }
        found = 0;
    };
    const std::uint64_t now = control.super().tick.load(shm::relaxed);
    const std::uint32_t end = std::min(control.record_count(), first + count);
    for (std::uint32_t number = std::max(first, 1u); number < end && sum.bytes < chosen.bytes; ++number) {
        const PageRecord& record = control.record(number);
        const std::uint64_t state = record.state.load(shm::acquire);
        if (phase_of(state) != Phase::published || !is_chosen(record, chosen, now)) continue;
        targets[found++] = {number, generation_of(state), false};
        if (found == evict_batch) sort_out();
    }
    sort_out();
    return sum;
}

void flush_records(Worker& worker, std::uint32_t id, std::uint32_t first, std::uint32_t count, bool dry,
                   Flushed* sum) {
    const Control& control = worker.control();
    Worker::Pass pass;
    pass.visited_too = true;
    pass.help = true;
    pass.flushed_only = true;
    pass.reason = EvictReason::admin;
    pass.epoch = static_cast<std::uint32_t>(control.name_space(id).epoch.load(shm::acquire));
    struct Old {
        std::uint32_t record, generation;
    };
    Old batch[evict_batch];
    for (std::uint32_t done = 0; done < count;) {
        std::size_t batched = 0;
        for (; done < count && batched < evict_batch; ++done) {
            const std::uint32_t number = first + done;
            if (number >= control.record_count()) break;
            const PageRecord& record = control.record(number);
            const std::uint64_t state = record.state.load(shm::acquire);
            if (!is_live(phase_of(state)) || record.name_space.load(shm::relaxed) != id) continue;
            const bool is_old = record.namespace_epoch.load(shm::relaxed) < pass.epoch;
            if (is_old == dry) continue;
            batch[batched++] = {number, generation_of(state)};
            if (!dry) worker.visit(pass, number);
        }
        worker.decide(pass);
        for (std::size_t i = 0; i < batched; ++i) {
            const PageRecord& record = control.record(batch[i].record);
            const std::uint64_t state = record.state.load(shm::acquire);
            const bool held = !dry && generation_of(state) == batch[i].generation && is_live(phase_of(state));
            (held ? sum->held : sum->gone) += 1;
            (held ? sum->held_bytes : sum->gone_bytes) += page_bytes_of(record);
        }
        if (done < count && first + done >= control.record_count()) break;
    }
}

bool evict_range(Worker& worker, std::uint32_t first, std::uint32_t count, EvictReason reason) {
    Worker::Pass pass;
    pass.visited_too = true;
    pass.help = true;
    pass.reason = reason;
    for (std::uint32_t i = 0; i < count; ++i) {
        worker.visit(pass, first + i);
        if (pass.batched == evict_batch) worker.decide(pass);
    }
    worker.decide(pass);
    bool empty = true;
    for (std::uint32_t i = 0; i < count; ++i) {
        const Phase phase = phase_of(worker.control().record(first + i).state.load(shm::relaxed));
        empty = empty && (phase == Phase::free || phase == Phase::sealed || phase == Phase::retired);
    }
    return empty;
}

}  // namespace maru::table
