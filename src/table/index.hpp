// Walking the index: a home bucket and its overflow chain, every number checked, every walk bounded.
#pragma once

#include <cstring>

#include "base/mutant.hpp"
#include "table/control.hpp"

namespace maru::table {

enum class Walk { ended, stopped, damaged };

/// Calls visit(slot) for each slot that may hold keys of this hash, until it returns true.
template <class Visit>
Walk walk_slots(const Control& control, std::uint64_t hash_low, std::memory_order order, Visit&& visit) {
    std::uint64_t number = control.home_of(hash_low);
    for (int hop = 0; hop <= chain_hops_max; ++hop) {
        Bucket& bucket = control.bucket(number);
        for (auto& slot : bucket.slots)
            if (visit(slot)) return Walk::stopped;
        const std::uint64_t link = bucket.link.load(order);
        if (link == 0) return Walk::ended;
        if (link > control.overflow_count()) return Walk::damaged;
        number = control.bucket_count() + link - 1;
    }
    return Walk::damaged;
}

/// The record holds this key: hash, namespace, length and the inline bytes. Relaxed word reads that may race
/// with a writer: what was read counts only if the record's generation is the same afterwards (acquire fence
/// between).
inline bool same_key(const PageRecord& record, const Key& key);

/// Eight bytes of the first `size` bytes of a key, from `at` on, zero-padded: what a record holds in one
/// word.
inline std::uint64_t key_word(const char* bytes, std::size_t size, std::size_t at) {
    std::uint64_t word = 0;
    if (at + 8 <= size) {
        std::memcpy(&word, bytes + at, 8);
    } else if (size >= 8) {  // the last eight bytes, without those that came before
        std::memcpy(&word, bytes + size - 8, 8);
        word >>= 8 * (8 - (size - at));
    } else {
        std::memcpy(&word, bytes, size);
    }
    return word;
}

inline bool same_key(const PageRecord& record, const Key& key) {
    if (record.hash_low.load(shm::relaxed) != key.low || record.hash_high.load(shm::relaxed) != key.high ||
        record.key_length.load(shm::relaxed) != key.bytes.size() ||
        record.name_space.load(shm::relaxed) != key.name_space ||
        (!mutant(Mutant::flush_not_compared) &&
         record.namespace_epoch.load(shm::relaxed) != key.namespace_epoch))
        return false;
    const std::size_t inline_bytes = key.bytes.size() < key_inline_max ? key.bytes.size() : key_inline_max;
    const char* bytes = key.bytes.data();
    std::uint64_t difference = 0;
    const std::size_t whole = inline_bytes / 8;
#pragma GCC unroll 4
    for (std::size_t w = 0; w < whole; ++w) {
        std::uint64_t word;
        std::memcpy(&word, bytes + 8 * w, 8);
        difference |= record.key[w].load(shm::relaxed) ^ word;
    }
    if (inline_bytes % 8 != 0)
        difference |= record.key[whole].load(shm::relaxed) ^ key_word(bytes, inline_bytes, 8 * whole);
    return difference == 0;
}

/// A final slot names this generation of the record.
bool has_final_slot(const Control& control, std::uint32_t record, std::uint32_t generation);
/// Empties every slot that names this generation of the record (only the tentative ones, if asked).
void clear_slots(const Control& control, std::uint32_t record, std::uint32_t generation, bool tentative_only);

/// Calls visit(slot, slot word, record, record number, state) for each final slot whose record is live and
/// holds the key, until it returns true. The state was read before the key; the caller re-checks it.
template <class Visit>
Walk walk_key(const Control& control, const Key& key, Visit&& visit) {
    constexpr std::uint64_t compared = slot::Tentative::put(1) | slot::Tag::put(slot::Tag::mask);
    const std::uint64_t wanted = slot::Tag::put(Control::tag_of(key.low));
    return walk_slots(control, key.low, shm::acquire, [&](Word64& place) {
        // acquire: pairs with the commit; the record's fields and the payload come with it
        const std::uint64_t word = place.load(shm::acquire);
        if ((word & compared) != wanted) return false;
        const std::uint32_t number = slot::record(word);
        if (number == 0 || number >= control.record_count()) return false;
        PageRecord& record = control.record(number);
        record.key[0].prefetch();
        record.key[8].prefetch();
        const std::uint64_t state = record.state.load(shm::acquire);
        if (!slot::same_generation(word, generation_of(state)) || !is_live(phase_of(state))) return false;
        if (!same_key(record, key)) return false;
        shm::fence(shm::acquire);  // the racing key reads come before the caller's second look at the state
        return visit(place, word, record, number, state);
    });
}

inline void set_hint(const Control& control, std::uint32_t record) {
    // relaxed: a hint
    control.hint(record / records_per_granule)
        .fetch_or(std::uint64_t{1} << (record % records_per_granule), shm::relaxed);
}
inline void clear_hint(const Control& control, std::uint32_t record) {
    control.hint(record / records_per_granule)
        .fetch_and(~(std::uint64_t{1} << (record % records_per_granule)), shm::relaxed);
}

}  // namespace maru::table
