// Batches: the misses of many keys overlap. Buckets first, then records, then all pins, one fence, all
// re-checks.
#include <algorithm>

#include "base/fault_point.hpp"
#include "table/index.hpp"
#include "table/worker.hpp"

namespace maru::table {
namespace {

constexpr std::size_t piece = 64;  // keys in flight: enough to cover memory latency, few enough for the stack

/// Brings the records near that the home bucket names for this key.
void prefetch_records(const Control& control, const Key& key) {
    constexpr std::uint64_t compared = slot::Tentative::put(1) | slot::Tag::put(slot::Tag::mask);
    const std::uint64_t wanted = slot::Tag::put(Control::tag_of(key.low));
    for (const auto& place : control.bucket(control.home_of(key.low)).slots) {
        const std::uint64_t word = place.load(shm::relaxed);
        const std::uint32_t number = slot::record(word);
        if ((word & compared) != wanted || number == 0 || number >= control.record_count()) continue;
        const PageRecord& record = control.record(number);
        record.state.prefetch();
        record.key[0].prefetch();
        record.key[8].prefetch();
    }
}

void prefetch(const Control& control, std::span<const Key> keys) {
    for (const auto& key : keys)
        control.bucket(control.home_of(key.low)).slots[0].prefetch();
    for (const auto& key : keys)
        prefetch_records(control, key);
}

}  // namespace

void Worker::retrieve_piece(std::span<const Key> keys, View* views, Code* codes) {
    struct Candidate {
        Word64* place = nullptr;
        std::uint64_t word = 0;
        std::uint32_t number = 0, generation = 0;
        PinSlot slot;
    };
    Candidate found[piece];
    PageRecord* records[piece] = {};
    prefetch(control_, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        Candidate& candidate = found[i];
        codes[i] = Code::miss;
        const Walk walk =
            walk_key(control_, keys[i],
                     [&](Word64& place, std::uint64_t word, PageRecord& record, std::uint32_t number,
                         std::uint64_t state) {
                         if (!pins_.take(&candidate.slot)) {
                             codes[i] = Code::full;
                             return true;
                         }
                         candidate = {&place, word, number, generation_of(state), candidate.slot};
                         records[i] = &record;
                         pins_.prepare_lease(candidate.slot, record, number, candidate.generation);
                         return true;
                     });
        if (walk == Walk::damaged) codes[i] = Code::damaged;
    }
    pins_.fence_leases(std::span(records, keys.size()));
    fault_point("pin.after_lease");
    std::uint64_t misses = 0, hits = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const Candidate& candidate = found[i];
        if (records[i] == nullptr) {
            ++misses;
            continue;
        }
        if (settle_lease(*records[i], candidate.generation, *candidate.place, candidate.word)) {
            codes[i] = fill_view(candidate.number, candidate.generation, candidate.slot, &views[i]);
            if (codes[i] != Code::ok) pins_.clear(candidate.slot);
            (codes[i] == Code::ok ? hits : misses) += 1;
        } else {
            codes[i] =
                retrieve_with(keys[i], candidate.slot, &views[i]);  // it moved under the pin: once more
        }
    }
    pins_.count(Counter::lookups, misses);
    pins_.count(Counter::hits, hits);
}

void Worker::retrieve_batch(std::span<const Key> keys, std::span<View> views, std::span<Code> codes) {
    for (std::size_t at = 0; at < keys.size(); at += piece)
        retrieve_piece(keys.subspan(at, std::min(piece, keys.size() - at)), &views[at], &codes[at]);
}

void Worker::exists_batch(std::span<const Key> keys, std::span<bool> present) {
    for (std::size_t at = 0; at < keys.size(); at += piece) {
        const auto part = keys.subspan(at, std::min(piece, keys.size() - at));
        prefetch(control_, part);
        for (std::size_t i = 0; i < part.size(); ++i)
            present[at + i] = exists(part[i]);
    }
}

std::size_t Worker::match_prefix(std::span<const Key> keys, View* views) {
    std::size_t matched = 0;
    while (matched < keys.size()) {
        const auto part = keys.subspan(matched, std::min(piece, keys.size() - matched));
        std::size_t hits = 0;
        if (views == nullptr) {
            prefetch(control_, part);
            while (hits < part.size() && exists(part[hits]))
                ++hits;
        } else {
            Code codes[piece];
            retrieve_piece(part, views + matched, codes);
            while (hits < part.size() && codes[hits] == Code::ok)
                ++hits;
            for (std::size_t i = hits; i < part.size(); ++i)
                if (codes[i] == Code::ok) release(views[matched + i].token);
        }
        matched += hits;
        if (hits < part.size()) break;
    }
    return matched;
}

void Worker::release_batch(std::span<const std::uint64_t> tokens) {
    for (const std::uint64_t token : tokens)
        release(token);
}

}  // namespace maru::table
