// Finding a key and holding on to what was found.
#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/index.hpp"
#include "table/worker.hpp"

namespace maru::table {

bool has_final_slot(const Control& control, std::uint32_t record, std::uint32_t generation) {
    const std::uint64_t hash = control.record(record).hash_low.load(shm::relaxed);
    return walk_slots(control, hash, shm::acquire, [&](Word64& place) {
               const std::uint64_t word = place.load(shm::acquire);
               return word != 0 && !slot::is_tentative(word) && slot::record(word) == record &&
                      slot::same_generation(word, generation);
           }) == Walk::stopped;
}

void clear_slots(const Control& control, std::uint32_t record, std::uint32_t generation,
                 bool tentative_only) {
    const std::uint64_t hash = control.record(record).hash_low.load(shm::relaxed);
    walk_slots(control, hash, shm::acquire, [&](Word64& place) {
        const std::uint64_t word = place.load(shm::relaxed);
        if (word != 0 && slot::record(word) == record && slot::same_generation(word, generation) &&
            (slot::is_tentative(word) || !tentative_only))
            place.compare_exchange(word, 0);
        return false;
    });
}

Worker::Worker(const Control& control, Identity identity)
    : control_(control),
      pins_(control, identity),
      random_state_(static_cast<std::uint32_t>(random_bits()) | 1) {}

std::uint32_t Worker::random() {  // xorshift (Marsaglia 2003)
    random_state_ ^= random_state_ << 13;
    random_state_ ^= random_state_ >> 17;
    random_state_ ^= random_state_ << 5;
    return random_state_;
}

bool Worker::fenced() const {
    const Identity me = pins_.identity();
    return control_.client(me.slot).state.load(shm::relaxed) !=
           client_state::pack(ClientPhase::active, me.generation);
}

namespace {
bool same_whole_generation(std::uint32_t now, std::uint32_t generation) {
    if (mutant(Mutant::recheck_low_bits)) return ((now ^ generation) & 3) == 0;
    if (mutant(Mutant::generation_three_bits)) return ((now ^ generation) & 7) == 0;
    return now == generation;
}
}  // namespace

/// After the lease was announced: does the object still stand? Rescues it from an undecided evictor.
bool Worker::settle_lease(PageRecord& record, std::uint32_t generation, const Word64& slot,
                          std::uint64_t slot_word) {
    for (int round = 0; round < recheck_rounds_max; ++round) {
        const std::uint64_t word = record.state.load(shm::seq_cst);  // pairs with the retirer's RETIRING
        if (mutant(Mutant::no_recheck)) return true;
        if (!same_whole_generation(generation_of(word), generation)) return false;
        switch (phase_of(word)) {
            case Phase::published:
                return true;
            case Phase::publishing:
                return slot.load(shm::acquire) == slot_word;
            case Phase::retiring_delete:
                return true;  // the reclaimer scans after its commit and finds the lease
            case Phase::retiring_evict: {
                if (mutant(Mutant::rescue_blind)) return true;
                const State seen = State::unpack(word);
                if (record.state.compare_exchange(
                        word, state_word(Phase::published, generation, {}, seen.attempt))) {
                    pins_.count(Counter::rescues);
                    return true;
                }
                break;  // it moved: look again
            }
            default:
                return false;
        }
    }
    return false;
}

bool Worker::settle_key_pin(PageRecord& record, std::uint32_t generation, const Word64& slot,
                            std::uint64_t slot_word) {
    for (int round = 0; round < recheck_rounds_max; ++round) {
        const std::uint64_t word = record.state.load(shm::seq_cst);
        if (generation_of(word) != generation) return false;
        const State seen = State::unpack(word);
        switch (seen.phase) {
            case Phase::published:
                return true;
            case Phase::publishing:
                return slot.load(shm::acquire) == slot_word;
            case Phase::retiring_evict:
            case Phase::retiring_delete:  // an undecided delete is called off; the deleter answers "pinned"
                if (mutant(Mutant::key_pin_in_delete)) return true;
                if (record.state.compare_exchange(word,
                                                  state_word(Phase::published, generation, {}, seen.attempt)))
                    return true;
                break;
            default:
                return false;
        }
    }
    return false;
}

namespace {
inline Code fill(const PinSet& pins, PageRecord& record, std::uint32_t number, std::uint32_t generation,
                 PinSlot slot, View* view) {
    // Relaxed: under the lease these words stand still.
    view->length = record.length.load(shm::relaxed);
    view->checksum = record.checksum.load(shm::relaxed);
    view->record = number;
    view->generation = generation;
    if (!pins.control().locate(record, &view->location) || view->length > view->location.page_bytes())
        return Code::damaged;
    view->token = pins.token(slot, generation);
    if (record.visited.load(shm::relaxed) == 0)
        record.visited.store(1, shm::relaxed);  // a hint for the clock
    return Code::ok;
}
}  // namespace

Code Worker::fill_view(std::uint32_t number, std::uint32_t generation, PinSlot slot, View* view) {
    return fill(pins_, control_.record(number), number, generation, slot, view);
}

Code Worker::retrieve_with(const Key& key, PinSlot slot, View* view) {
    Code outcome = Code::miss;
    const Walk walk = walk_key(control_, key,
                               [&](Word64& place, std::uint64_t word, PageRecord& record,
                                   std::uint32_t number, std::uint64_t state) {
                                   pins_.announce_lease(slot, record, number, generation_of(state));
                                   fault_point("pin.after_lease");
                                   // Nearly always nothing has moved; pairs with the retirer's RETIRING.
                                   if (record.state.load(shm::seq_cst) != state ||
                                       phase_of(state) != Phase::published) [[unlikely]] {
                                       if (!settle_lease(record, generation_of(state), place, word))
                                           return false;
                                   }
                                   outcome = fill(pins_, record, number, generation_of(state), slot, view);
                                   return true;
                               });
    if (outcome == Code::ok) {
        pins_.count(Counter::hits);
        return outcome;
    }
    pins_.count(Counter::lookups);
    pins_.clear(slot);
    return walk == Walk::damaged ? Code::damaged : outcome;
}

Code Worker::retrieve(const Key& key, View* view) {
    PinSlot slot;
    if (!pins_.take(&slot)) return Code::full;
    // Field by field: the copy of the whole would load its padding with it, which was not stored, and wait.
    return retrieve_with(key, PinSlot{slot.chunk, slot.index}, view);
}

/// The record that a page of a region has, as the region's entry reads now.
bool Worker::record_of_page(std::uint32_t region, std::uint32_t page_index, std::uint32_t* record) const {
    if (region >= control_.region_count()) return false;
    const RegionEntry& entry = control_.region(region);
    // Relaxed: the caller compares the record's own place with what it asked for.
    const std::uint32_t first = entry.first_record.load(shm::relaxed);
    if (page_index >= entry.page_count.load(shm::relaxed) || first >= control_.record_count() ||
        page_index >= control_.record_count() - first)
        return false;
    *record = first + page_index;
    return true;
}

Code Worker::lease_page(std::uint32_t region, std::uint32_t page_index, View* view) {
    std::uint32_t number = 0;
    if (!record_of_page(region, page_index, &number)) return Code::miss;
    PageRecord& record = control_.record(number);
    const std::uint64_t word = record.state.load(shm::acquire);  // pairs with the publisher's release
    // A publication under way may still be decided against; seen as PUBLISHED it never goes back to that.
    if (!is_live(phase_of(word)) || phase_of(word) == Phase::publishing) return Code::miss;
    PinSlot slot;
    if (!pins_.take(&slot)) return Code::full;
    const std::uint32_t generation = generation_of(word);
    pins_.announce_lease(slot, record, number, generation);
    Code outcome = Code::miss;
    if (settle_lease(record, generation, record.state, word))
        outcome = fill_view(number, generation, slot, view);
    if (outcome == Code::ok && (view->location.region != region || view->location.page_index != page_index))
        outcome = Code::miss;  // the record moved to another region
    if (outcome != Code::ok) pins_.clear(slot);
    return outcome;
}

Code Worker::release(std::uint64_t token) {
    PinSlot slot;
    if (!pins_.find(token, &slot))  // announced by another thread of this client
        return release_token(control_, pins_.identity(), token, PinKind::lease) ? Code::ok : Code::invalid;
    const std::uint64_t word = pins_.word(slot);
    if (pin::kind(word) != PinKind::lease || pin::Sequence::get(word) != PinToken::Sequence::get(token) ||
        !pin::same_generation(word, static_cast<std::uint32_t>(PinToken::Generation::get(token))))
        return Code::invalid;
    pins_.clear(slot);
    return Code::ok;
}

bool Worker::exists(const Key& key) {
    return walk_key(control_, key,
                    [&](Word64& place, std::uint64_t word, PageRecord& record, std::uint32_t,
                        std::uint64_t state) {
                        const std::uint64_t now =
                            record.state.load(shm::acquire);  // after the acquire fence of the walk
                        if (generation_of(now) != generation_of(state) || !is_live(phase_of(now)))
                            return false;
                        return phase_of(now) != Phase::publishing || place.load(shm::acquire) == word;
                    }) == Walk::stopped;
}

Code Worker::pin_key(const Key& key, std::uint64_t* token, std::uint32_t* number_out) {
    PinSlot slot;
    if (!pins_.take(&slot)) return Code::full;
    Code outcome = Code::miss;
    const Walk walk = walk_key(control_, key,
                               [&](Word64& place, std::uint64_t word, PageRecord& record,
                                   std::uint32_t number, std::uint64_t state) {
                                   const std::uint32_t generation = generation_of(state);
                                   pins_.announce_key(slot, record, number, generation);
                                   if (!settle_key_pin(record, generation, place, word)) return false;
                                   if (mutant(Mutant::key_flag_late))
                                       record.last.fetch_or(last::key_pinned, shm::seq_cst);
                                   *token = pins_.token(slot, generation);
                                   *number_out = number;
                                   // The daemon expires key pins: one that went between the announcement and
                                   // here pins nothing.
                                   const std::uint64_t standing = pins_.word(slot);
                                   if (pin::kind(standing) != PinKind::key) return false;
                                   outcome = Code::ok;
                                   return true;
                               });
    if (outcome == Code::ok) return outcome;
    pins_.clear(slot);
    return walk == Walk::damaged ? Code::damaged : outcome;
}

bool Worker::unpin(std::uint64_t token) {
    PinSlot slot;
    if (!pins_.find(token, &slot)) return release_token(control_, pins_.identity(), token, PinKind::key);
    const std::uint64_t word = pins_.word(slot);
    if (pin::kind(word) != PinKind::key || pin::Sequence::get(word) != PinToken::Sequence::get(token) ||
        !pin::same_generation(word, static_cast<std::uint32_t>(PinToken::Generation::get(token))))
        return false;
    return pins_.clear_key(slot, word);
}

}  // namespace maru::table
