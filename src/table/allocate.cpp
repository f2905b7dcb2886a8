// Taking pages and giving them back.
#include <bit>

#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/index.hpp"
#include "table/worker.hpp"

namespace maru::table {

/// RESERVED by us: back to FREE with the next generation.
void Worker::give_up(std::uint32_t number, std::uint64_t state) {
    if (control_.record(number).state.compare_exchange(state,
                                                       state_word(Phase::free, generation_of(state) + 1)))
        set_hint(control_, number);
}

/// The page is RESERVED by us. Only now are its place, size and namespace certain: is it what was wanted?
bool Worker::taken(std::uint32_t number, std::uint32_t generation, PinSlot slot, PageClass wanted,
                   Page* page) {
    fault_point("alloc.after_reserve");
    PageRecord& record = control_.record(number);
    const std::uint64_t reserved = state_word(Phase::reserved, generation, pins_.identity().owner());
    PageLocation location;
    bool fits = control_.locate(record, &location) && location.page_4k == wanted.page_4k &&
                record.name_space.load(shm::relaxed) == wanted.name_space;
    // acquire: pairs with the change to DRAINING; if we miss it the sealer meets our RESERVED and stops
    fits = fits && (mutant(Mutant::drain_taken_kept) ||
                    RegionState::unpack(control_.region(location.region).state.load(shm::acquire)).phase ==
                        RegionPhase::held);
    if (!fits) {
        give_up(number, reserved);
        return false;
    }
    // Nobody pins a page that was free: the marks of its former object go.
    const std::uint64_t last = record.last.load(shm::relaxed);
    if ((last & last::epoch_mask) == last::always_scan)
        record.last.compare_exchange(last, 0);
    else if ((last & last::key_pinned) != 0)
        record.last.compare_exchange(last, last & ~last::key_pinned);
    pins_.announce_own(slot, number, generation);
    *page = {number, generation, pins_.token(slot, generation), location};
    return true;
}

bool Worker::take_free(std::uint32_t number, std::uint64_t state, PinSlot slot, PageClass wanted,
                       Page* page) {
    const std::uint32_t generation = generation_of(state);
    if (!mutant(Mutant::own_word_late)) pins_.announce_own(slot, number, generation);
    // acquire: the last owner's use of the page comes before ours
    if (!control_.record(number).state.compare_exchange(
            state, state_word(Phase::reserved, generation, pins_.identity().owner())))
        return false;
    clear_hint(control_, number);
    return taken(number, generation, slot, wanted, page);
}

/// RETIRED straight to RESERVED, when nobody reads the page any more.
bool Worker::take_retired(std::uint32_t number, std::uint64_t state, bool scanned, PinSlot slot,
                          PageClass wanted, Page* page) {
    const std::uint32_t generation = generation_of(state);
    pins_.announce_own(slot, number, generation);
    clear_slots(control_, number, generation, false);
    if (!scanned && is_pinned(control_, number, generation, false)) return false;
    if (!control_.record(number).state.compare_exchange(
            state, state_word(Phase::reserved, generation + 1, pins_.identity().owner())))
        return false;
    return taken(number, generation + 1, slot, wanted, page);
}

bool Worker::alloc_in_granule(std::uint32_t granule, PinSlot slot, PageClass wanted, Page* page) {
    std::uint64_t hints = control_.hint(granule).load(shm::relaxed);
    for (; hints != 0; hints &= hints - 1) {
        const std::uint32_t number =
            granule * records_per_granule + static_cast<std::uint32_t>(std::countr_zero(hints));
        const std::uint64_t state = control_.record(number).state.load(shm::acquire);
        if (phase_of(state) == Phase::free) {
            if (take_free(number, state, slot, wanted, page)) return true;
            continue;
        }
        // A wrong hint costs time only; mend it, and put it back if the page became free meanwhile.
        clear_hint(control_, number);
        if (phase_of(control_.record(number).state.load(shm::seq_cst)) == Phase::free)
            set_hint(control_, number);
    }
    return false;
}

bool Worker::alloc_in_region(std::uint32_t region, PinSlot slot, PageClass wanted, Page* page) {
    if (region >= control_.region_count()) return false;
    const RegionEntry& entry = control_.region(region);
    if (entry.page_4k.load(shm::relaxed) != wanted.page_4k) return false;
    const std::uint32_t first = entry.first_record.load(shm::relaxed) / records_per_granule;
    const std::uint32_t count = entry.granules.load(shm::relaxed);
    if (first >= control_.granule_count() || count > control_.granule_count() - first) return false;
    for (std::uint32_t granule = first; granule < first + count; ++granule) {
        if (control_.hint(granule).load(shm::relaxed) == 0) continue;
        if (!alloc_in_granule(granule, slot, wanted, page)) continue;
        granule_cursor_ = granule;
        return true;
    }
    return false;
}

Code Worker::alloc_from(std::span<const std::uint32_t> regions, PageClass wanted, Page* page) {
    PinSlot slot;
    if (!pins_.take(&slot)) return Code::contended;
    // Where the last page came from, or where an eviction has just made room; `taken` checks that it fits.
    if (granule_cursor_ != 0 && alloc_in_granule(granule_cursor_, slot, wanted, page)) return Code::ok;
    const auto count = static_cast<std::uint32_t>(regions.size());
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t at = (region_cursor_ + i) % count;
        if (!alloc_in_region(regions[at], slot, wanted, page)) continue;
        region_cursor_ = at;
        return Code::ok;
    }
    pins_.clear(slot);
    return Code::full;
}

Code Worker::alloc_anywhere(PageClass wanted, Page* page) {
    if (retired_count_ > 0) retry_retired();
    PinSlot slot;
    if (!pins_.take(&slot)) return Code::contended;
    const std::uint32_t count = control_.granule_count();
    const std::uint32_t start = granule_cursor_;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t granule = start + i < count ? start + i : start + i - count;
        if (control_.hint(granule).load(shm::relaxed) == 0) continue;
        // The claim names the region, the region the class: skips foreign granules without touching a record.
        const std::uint64_t claim = control_.granule_claim(granule).load(shm::relaxed);
        const std::uint32_t region = granule_claim::region(claim);
        if (claim == 0 || region >= control_.region_count() ||
            control_.region(region).page_4k.load(shm::relaxed) != wanted.page_4k)
            continue;
        if (!alloc_in_granule(granule, slot, wanted, page)) continue;
        granule_cursor_ = granule;
        return Code::ok;
    }
    pins_.clear(slot);
    return Code::full;
}

Code Worker::free(const Page& page) {
    if (page.record == 0 || page.record >= control_.record_count()) return Code::not_reserved;
    PageRecord& record = control_.record(page.record);
    const std::uint64_t reserved = state_word(Phase::reserved, page.generation, pins_.identity().owner());
    const Identity me = pins_.identity();
    const std::uint32_t raised = mutant(Mutant::generation_not_raised) ? 0 : 1;
    if (record.state.compare_exchange(reserved, state_word(Phase::free, page.generation + raised))) {
        set_hint(control_, page.record);
        PinSlot slot;
        if (page.token != 0 && pins_.find(page.token, &slot))
            pins_.clear(slot);
        else
            release_token(control_, me, page.token, PinKind::own);
        return Code::ok;
    }
    // Published: the handle's lease goes, the key stays.
    if (page.token != 0 && release(page.token) == Code::ok) return Code::ok;
    return Code::not_reserved;
}

Code Worker::find_reserved(std::uint32_t region, std::uint32_t page_index, Page* page) {
    std::uint32_t number = 0;
    if (!record_of_page(region, page_index, &number)) return Code::not_reserved;
    const State state = State::unpack(control_.record(number).state.load(shm::acquire));
    if (state.phase != Phase::reserved || state.owner != pins_.identity().owner()) return Code::not_reserved;
    page->record = number;
    page->generation = state.generation;
    page->token = 0;
    if (!control_.locate(control_.record(number), &page->location) || page->location.region != region ||
        page->location.page_index != page_index)
        return Code::damaged;
    const std::uint64_t mark = control_.super().pin_high_water.load(shm::relaxed);
    const Identity me = pins_.identity();
    for (std::uint32_t c = 0; c < control_.chunk_count() && c < mark; ++c) {
        const PinChunk& chunk = control_.chunk(c);
        if (chunk.owner.load(shm::relaxed) != me.holder_word()) continue;
        for (std::uint32_t i = 0; i < pins_per_chunk; ++i) {
            const std::uint64_t word = chunk.pins[i].load(shm::relaxed);
            if (pin::kind(word) != PinKind::own || pin::record(word) != number ||
                !pin::same_generation(word, state.generation))
                continue;
            page->token = PinToken::Chunk::put(c) | PinToken::Index::put(i) |
                          PinToken::Sequence::put(pin::Sequence::get(word)) |
                          PinToken::Generation::put(state.generation);
            return Code::ok;
        }
    }
    return Code::ok;
}

Occupancy Worker::occupancy(PageClass of) const {
    Occupancy sum;
    for (std::uint32_t granule = 1; granule < control_.granule_count(); ++granule) {
        const std::uint64_t claim = control_.granule_claim(granule).load(shm::relaxed);
        const std::uint32_t region = granule_claim::region(claim);
        if (claim == 0 || region >= control_.region_count()) continue;
        const RegionEntry& entry = control_.region(region);
        if (entry.page_4k.load(shm::relaxed) != of.page_4k ||
            entry.name_space.load(shm::relaxed) != of.name_space)
            continue;
        const std::uint32_t end = entry.first_record.load(shm::relaxed) + entry.page_count.load(shm::relaxed);
        for (std::uint32_t i = 0; i < records_per_granule; ++i) {
            const std::uint32_t number = granule * records_per_granule + i;
            if (number >= end) break;
            const State state = State::unpack(control_.record(number).state.load(shm::relaxed));
            ++sum.pages;
            switch (state.phase) {
                case Phase::free:
                    ++sum.free;
                    break;
                case Phase::reserved:
                case Phase::publishing:
                    ++sum.reserved;
                    if (client_state::phase(control_.client(state.owner.slot % control_.client_count())
                                                .state.load(shm::relaxed)) == ClientPhase::quarantined)
                        ++sum.quarantined;
                    break;
                case Phase::published:
                case Phase::retiring_evict:
                case Phase::retiring_delete:
                    ++sum.published;
                    if (is_pinned(control_, number, state.generation, false)) ++sum.pinned;
                    break;
                case Phase::retired:
                    ++sum.retired;
                    break;
                case Phase::bad:
                    ++sum.bad;
                    break;
                case Phase::sealed:
                    break;
            }
        }
    }
    return sum;
}

}  // namespace maru::table
