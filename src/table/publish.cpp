// Publication: tentative-then-final insert. At no time do two final live entries exist for one key.
#include <algorithm>

#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/age.hpp"
#include "table/index.hpp"
#include "table/seal.hpp"
#include "table/worker.hpp"

namespace maru::table {

void Worker::fill_record(PageRecord& record, const Key& key, std::uint64_t length, std::uint64_t checksum) {
    // The page was taken by a compare-and-swap that changed its generation: a reader that sees any of these
    // words also sees that (its acquire fence pairs with this one).
    shm::fence(shm::release);
    constexpr auto order = shm::fenced_load == shm::relaxed ? shm::relaxed : shm::release;
    record.hash_low.store(key.low, order);
    record.hash_high.store(key.high, order);
    record.key_length.store(static_cast<std::uint16_t>(key.bytes.size()), order);
    if (!mutant(Mutant::flush_not_recorded)) record.namespace_epoch.store(key.namespace_epoch, order);
    record.length.store(length, order);
    record.checksum.store(checksum, order);
    const std::uint64_t tick = control_.super().tick.load(shm::relaxed);
    record.publication_tick.store(tick_low(tick), order);
    record.publication_high.store(tick_high(tick), order);
    record.visited.store(0, order);
    const std::size_t inline_bytes = key.bytes.size() < key_inline_max ? key.bytes.size() : key_inline_max;
    for (std::size_t at = 0; at < inline_bytes; at += 8)
        record.key[at / 8].store(key_word(key.bytes.data(), inline_bytes, at), order);
}

/// Links an overflow bucket behind a full one. The claim word tells a sweep what to do if this client dies
/// here.
Code Worker::link_overflow(Word64& link, std::uint64_t parent) {
    const std::uint32_t count = control_.overflow_count();
    const auto start = static_cast<std::uint32_t>(parent * 0x9E3779B1u % count);
    const std::uint64_t claim = mutant(Mutant::claim_without_owner)
                                    ? overflow_claim::linked
                                    : overflow_claim::pack(pins_.identity().owner(), parent);
    for (std::uint32_t i = 0; i < std::min(count, overflow_probes_max); ++i) {
        const std::uint32_t number = (start + i) % count;
        Word64& word = control_.overflow_claim(number);
        if (word.load(shm::relaxed) != 0 || !word.compare_exchange(0, claim)) continue;
        const bool won = mutant(Mutant::link_overwritten) ? (link.exchange(number + 1, shm::seq_cst), true)
                                                          : link.compare_exchange(0, number + 1);
        word.compare_exchange(claim, won ? overflow_claim::linked : 0);
        return Code::ok;
    }
    return Code::index_full;
}

/// Puts `word` into the first empty slot of the key's chain.
Code Worker::place(const Key& key, std::uint64_t word, Word64** where) {
    std::uint64_t number = control_.home_of(key.low);
    for (int hop = 0; hop <= chain_hops_max; ++hop) {
        Bucket& bucket = control_.bucket(number);
        for (auto& slot : bucket.slots) {
            // seq_cst: of two writers of one key each must see the other's entry in its scan
            if (slot.load(shm::relaxed) == 0 && slot.compare_exchange(0, word, shm::seq_cst)) {
                *where = &slot;
                return Code::ok;
            }
        }
        std::uint64_t link = bucket.link.load(shm::acquire);
        if (link == 0) {
            if (hop == chain_hops_max) break;  // nobody may walk further
            if (const Code code = link_overflow(bucket.link, number); code != Code::ok) return code;
            link = bucket.link.load(shm::acquire);
        }
        if (link == 0 || link > control_.overflow_count()) return Code::damaged;
        number = control_.bucket_count() + link - 1;
    }
    return Code::index_full;
}

/// Looks for another entry of the key. Clears stale entries, throws tentative ones of the same key out.
Worker::Scan Worker::find_same(const Key& key, const Word64* mine) {
    const std::uint32_t tag = Control::tag_of(key.low);
    Scan outcome = Scan::clean;
    const auto look_at = [&](Word64& place) {
        if (&place == mine) return false;
        for (int round = 0; round < recheck_rounds_max; ++round) {
            const std::uint64_t word = place.load(shm::seq_cst);  // pairs with the other writer's placement
            if (word == 0 || slot::tag(word) != tag) return false;
            const std::uint32_t number = slot::record(word);
            if (number == 0 || number >= control_.record_count()) return false;  // damage: not this key's
            PageRecord& record = control_.record(number);
            const std::uint64_t state = record.state.load(shm::acquire);
            const std::uint32_t generation = generation_of(state);
            const Phase phase = phase_of(state);
            if (!slot::same_generation(word, generation) || phase == Phase::retired ||
                (mutant(Mutant::retiring_is_stale) && phase == Phase::retiring_evict)) {  // stale
                place.compare_exchange(word, 0);
                continue;
            }
            const bool tentative = slot::is_tentative(word);
            if (tentative && phase != Phase::publishing) {
                if (mutant(Mutant::tentative_by_phase)) return false;
                // Either the entry has become final since (read it again), or its writer gave up.
                if (!is_live(phase)) place.compare_exchange(word, 0);
                continue;
            }
            if (!tentative && !is_live(phase)) return false;
            const bool same = same_key(record, key);
            shm::fence(shm::acquire);
            const std::uint64_t now = record.state.load(shm::acquire);
            if (generation_of(now) != generation) continue;
            if (!same) return false;
            if (tentative) {
                if (mutant(Mutant::tentative_left)) return false;
                place.compare_exchange(word, 0);  // thrown out: its writer will see that at its commit
                continue;
            }
            switch (phase_of(now)) {
                case Phase::publishing:
                case Phase::published:
                case Phase::retiring_delete:
                    outcome = Scan::lost;
                    return true;
                case Phase::retiring_evict:
                    if (!record.state.compare_exchange(
                            now, state_word(Phase::published, generation, {}, State::unpack(now).attempt)))
                        continue;
                    pins_.count(Counter::rescues);
                    outcome = Scan::lost;
                    return true;
                default:
                    continue;
            }
        }
        outcome = Scan::again;  // it would not stand still: let the caller start over
        return true;
    };
    const Walk walk = walk_slots(control_, key.low, shm::seq_cst, look_at);
    return walk == Walk::damaged ? Scan::damaged : outcome;
}

void Worker::back_off(int round) {
    // Random and growing: two writers that throw each other out in lock step drift apart.
    if (mutant(Mutant::no_back_off)) return;
    const std::uint32_t spins = random() % (1u + static_cast<std::uint32_t>(round) * 16u);
    for (std::uint32_t i = 0; i < spins; ++i)
        shm::pause();
}

Code Worker::commit(const Key& key, const Page& page) {
    const std::uint32_t tag = Control::tag_of(key.low);
    const std::uint64_t tentative = slot::pack(true, tag, page.generation, page.record);
    const std::uint64_t final_word = slot::pack(false, tag, page.generation, page.record);
    for (int round = 0; round < publish_rounds_max; ++round) {
        Word64* mine = nullptr;
        const Scan early = mutant(Mutant::scan_before_place) ? find_same(key, mine) : Scan::clean;
        const Code placed = place(key, tentative, &mine);
        if (placed == Code::index_full && evict_beside(key)) continue;  // an object of this chain makes room
        if (placed != Code::ok) return placed;
        fault_point("publish.after_place");
        const bool looks = !mutant(Mutant::no_scan) && !mutant(Mutant::scan_before_place);
        const Scan scan = looks ? find_same(key, mine) : early;
        if (scan == Scan::clean) {
            // release: the payload and the record come before it; pairs with the acquire load of the slot
            if (mutant(Mutant::blind_commit)) return mine->exchange(final_word, shm::seq_cst), Code::ok;
            if (mine->compare_exchange(tentative, final_word)) return Code::ok;
        } else {
            mine->compare_exchange(tentative, 0);
            if (scan == Scan::lost) return Code::exists;
            if (scan == Scan::damaged) return Code::damaged;
        }
        pins_.count(Counter::contended);
        back_off(round);
    }
    return Code::contended;
}

Code Worker::publish(const Key& key, Page& page, std::uint64_t length, std::uint64_t checksum) {
    if (length > page.location.page_bytes()) return Code::too_large;
    if (page.record == 0 || page.record >= control_.record_count()) return Code::not_reserved;
    PageRecord& record = control_.record(page.record);
    const Owner me = pins_.identity().owner();
    const std::uint64_t reserved = state_word(Phase::reserved, page.generation, me);
    const std::uint64_t publishing = state_word(Phase::publishing, page.generation, me);
    if (record.state.load(shm::relaxed) != reserved) return Code::not_reserved;
    if (exists(key)) {  // the usual duplicate: found without one write
        pins_.count(Counter::duplicates);
        return Code::exists;
    }
    // Where values have no checksums the record proves itself in their place, to a repair.
    if (control_.checksum_mode() == ChecksumMode::off) checksum = record_seal(key, page.generation, length);
    PinSlot slot;
    const bool own_thread = page.token != 0 && pins_.find(page.token, &slot);
    if (!own_thread && !pins_.take(&slot)) return Code::full;
    if (mutant(Mutant::fill_before_publishing)) fill_record(record, key, length, checksum);
    // Before the record is filled: two threads that store one handle cannot both fill it.
    if (!record.state.compare_exchange(reserved, publishing)) {
        if (!own_thread) pins_.clear(slot);
        return Code::not_reserved;
    }
    fault_point("publish.after_publishing");
    fill_record(record, key, length, checksum);
    if (!mutant(Mutant::lease_after_commit))
        pins_.announce_lease(slot, record, page.record,
                             page.generation);  // the writer's own, before the commit
    const Code outcome = commit(key, page);
    if (mutant(Mutant::lease_after_commit)) pins_.announce_lease(slot, record, page.record, page.generation);
    if (outcome == Code::ok) {
        fault_point("publish.after_commit");
        record.state.compare_exchange(publishing, state_word(Phase::published, page.generation));
        if (!own_thread) release_token(control_, pins_.identity(), page.token, PinKind::own);
        page.token = pins_.token(slot, page.generation);
        pins_.count(Counter::stores);
        return outcome;
    }
    if (outcome == Code::exists) pins_.count(Counter::duplicates);
    if (!mutant(Mutant::lost_lease_left)) pins_.announce_own(slot, page.record, page.generation);
    if (!mutant(Mutant::lost_left_publishing)) record.state.compare_exchange(publishing, reserved);
    if (own_thread)
        page.token = pins_.token(slot, page.generation);
    else
        pins_.clear(slot);  // the own word of the other thread still names the record
    return outcome;
}

}  // namespace maru::table
