#include "table/pins.hpp"

#include <bit>

#include "base/fault_point.hpp"
#include "base/mutant.hpp"

namespace maru::table {
namespace {

using detail::bit_of;

void raise_high_water(const Control& control, std::uint32_t number) {
    auto& mark = control.super().pin_high_water;
    for (int round = 0; round < recheck_rounds_max; ++round) {
        const std::uint64_t seen = mark.load(shm::relaxed);
        if (seen > number || mark.compare_exchange(seen, number + 1)) return;
    }
    // Others raise it all the time; one addition settles it, since the mark may be too high but never too
    // low.
    mark.fetch_add(number + 1, shm::seq_cst);
}

}  // namespace

PinSet::PinSet(const Control& control, Identity identity)
    : control_(control), identity_(identity), chunk_of_(control.chunk_count(), nullptr) {
    chunks_.reserve(control.chunk_count());
}

void PinSet::refresh(Chunk& chunk) {
    std::uint64_t gone = 0;
    for (std::uint64_t rest = chunk.announced; rest != 0; rest &= rest - 1) {
        const auto index = static_cast<std::uint32_t>(std::countr_zero(rest));
        // acquire: pairs with the release that cleared the word; the page behind it is not ours to think
        // about.
        if (chunk.shared->pins[index].load(shm::acquire) == 0) gone |= bit_of(index);
    }
    drop(chunk, gone);
}

bool PinSet::take_elsewhere(PinSlot* slot) {
    for (auto& chunk : chunks_)
        if (take_from(chunk, slot)) return true;
    // Every slot is taken as far as this thread knows: some may have been released by others.
    for (auto& chunk : chunks_) {
        refresh(chunk);
        if (take_from(chunk, slot)) return true;
    }
    return claim_chunk() && take_from(chunks_.back(), slot);
}

/// The epoch moved while a lease was announced: the record's `last` must not stay behind it.
void PinSet::settle_epoch(PageRecord& record, std::uint64_t epoch) {
    for (int round = 0; round <= recheck_rounds_max; ++round) {
        const std::uint64_t now = control_.super().epoch.load(shm::seq_cst);
        if (now == epoch) return;
        epoch = round < recheck_rounds_max ? now : last::always_scan;
        raise_last(record, epoch, 0);
    }
}

bool PinSet::claim_chunk() {
    if (chunks_.size() == chunks_.capacity()) return false;
    // From the lowest on, so that the high-water mark, and with it every scan, stays short.
    for (std::uint32_t number = 0; number < control_.chunk_count(); ++number) {
        PinChunk& shared = control_.chunk(number);
        if (shared.owner.load(shm::relaxed) != 0) continue;
        if (!shared.owner.compare_exchange(0, identity_.holder_word())) continue;
        if (!mutant(Mutant::high_water_late))
            raise_high_water(control_, number);  // before the first pin in here: scans stop at the mark
        const std::uint64_t epoch = shared.epoch.load(shm::relaxed) + 1;
        shared.epoch.store(epoch,
                           shm::release);  // a late sweeper of the last owner matches none of our words
        shared.summary.store(0, shm::relaxed);
        shared.oldest.store(0, shm::relaxed);
        chunks_.push_back({&shared, number, static_cast<std::uint32_t>(epoch), 0, 0, 0});
        chunk_of_[number] = &chunks_.back();
        counters_ = &chunks_[0].shared->counters;
        return true;
    }
    return false;
}

void PinSet::announce_own(PinSlot slot, std::uint32_t record, std::uint32_t generation) {
    Chunk& chunk = *slot.chunk;
    if ((chunk.leases & bit_of(slot.index)) != 0) {  // over a lease: it protects nothing any more
        drop(chunk, bit_of(slot.index));
        chunk.used |= bit_of(slot.index);
    }
    chunk.announced |= bit_of(slot.index);
    // release: ordered before the compare-and-swap on the record that follows it; a sweep that finds the
    // record ours also finds this word.
    chunk.shared->pins[slot.index].store(make_word(PinKind::own, chunk, record, generation), shm::release);
}

void PinSet::raise_last(PageRecord& record, std::uint64_t epoch, std::uint64_t flags) {
    for (int round = 0; round < recheck_rounds_max; ++round) {
        const std::uint64_t seen = record.last.load(shm::relaxed);
        std::uint64_t wanted = seen | flags;
        if ((seen & last::epoch_mask) < epoch) wanted = (wanted & last::key_pinned) | epoch;
        if (mutant(Mutant::last_plain)) return record.last.store(wanted, shm::relaxed);
        if (wanted == seen || record.last.compare_exchange(seen, wanted)) return;
    }
    record.last.fetch_or(last::always_scan | flags,
                         shm::seq_cst);  // too busy to be exact: scan it until reuse
}

void PinSet::announce_key(PinSlot slot, PageRecord& record, std::uint32_t number, std::uint32_t generation) {
    Chunk& chunk = *slot.chunk;
    const std::uint64_t bit = bit_of(slot.index);
    const std::uint64_t summary = chunk.shared->summary.load(shm::relaxed);
    chunk.shared->summary.store(summary | bit, shm::relaxed);
    chunk.announced |= bit;
    if (!mutant(Mutant::key_flag_late))
        raise_last(record, 0,
                   last::key_pinned);  // before the pin: a retirer without the flag does not look for it
    chunk.shared->pins[slot.index].exchange(make_word(PinKind::key, chunk, number, generation), shm::seq_cst);
}

void PinSet::prepare_lease(PinSlot slot, PageRecord& record, std::uint32_t number, std::uint32_t generation) {
    Chunk& chunk = *slot.chunk;
    if (batch_epoch_ == 0) batch_epoch_ = control_.epoch();
    begin_lease(chunk, bit_of(slot.index), record, batch_epoch_);
    // relaxed: fence_leases makes the whole batch visible at once
    chunk.shared->pins[slot.index].store(make_word(PinKind::lease, chunk, number, generation),
                                         shm::fenced_load == shm::relaxed ? shm::relaxed : shm::seq_cst);
}

void PinSet::fence_leases(std::span<PageRecord* const> records) {
    if (!mutant(Mutant::batch_without_fence))
        shm::fence(
            shm::seq_cst);  // pairs with the retirer's seq_cst compare-and-swap, for every pin of the batch
    const std::uint64_t began = batch_epoch_;
    batch_epoch_ = 0;
    std::uint64_t epoch = began;
    for (int round = 0; round <= recheck_rounds_max; ++round) {
        const std::uint64_t now = control_.super().epoch.load(shm::seq_cst);
        if (now == epoch || began == 0) return;
        epoch = round < recheck_rounds_max ? now : last::always_scan;
        for (PageRecord* record : records)
            if (record != nullptr) raise_last(*record, epoch, 0);
    }
}

bool PinSet::clear_key(PinSlot slot, std::uint64_t word) {
    Chunk& chunk = *slot.chunk;
    const bool stood = chunk.shared->pins[slot.index].compare_exchange(word, 0);
    drop(chunk, bit_of(slot.index));
    return stood;
}

std::size_t PinSet::give_back() {
    std::size_t stayed = 0;
    for (auto& chunk : chunks_) {
        refresh(chunk);
        if (mutant(Mutant::high_water_late)) raise_high_water(control_, chunk.number);
        if (chunk.used != 0) {
            chunks_[stayed++] = chunk;
            chunk_of_[chunk.number] = &chunks_[stayed - 1];
            continue;
        }
        chunk_of_[chunk.number] = nullptr;
        auto& total = control_.client_stats(identity_.slot);
        for (int c = 0; c < counter_count; ++c) {
            auto& count = chunk.shared->counters.counts[c];
            total.counts[c].fetch_add(count.load(shm::relaxed), shm::relaxed);
            count.store(0, shm::relaxed);
        }
        chunk.shared->oldest.store(0, shm::relaxed);
        // Ours until here; release: the counters are folded before another client counts in this chunk.
        chunk.shared->owner.compare_exchange(identity_.holder_word(), 0);
    }
    chunks_.resize(stayed);
    counters_ = chunks_.empty() ? nullptr : &chunks_[0].shared->counters;
    current_ = nullptr;
    return stayed;
}

Word64* pin_of_token(const Control& control, Identity identity, std::uint64_t token) {
    const auto number = static_cast<std::uint32_t>(PinToken::Chunk::get(token));
    if (token == 0 || number >= control.chunk_count()) return nullptr;
    PinChunk& chunk = control.chunk(number);
    if (chunk.owner.load(shm::relaxed) != identity.holder_word()) return nullptr;
    return &chunk.pins[PinToken::Index::get(token)];
}

bool release_token(const Control& control, Identity identity, std::uint64_t token, PinKind kind) {
    Word64* place = pin_of_token(control, identity, token);
    if (place == nullptr) return false;
    const std::uint64_t word = place->load(shm::relaxed);  // a standing word is changed by its holder only
    if (pin::kind(word) != kind || pin::Sequence::get(word) != PinToken::Sequence::get(token) ||
        !pin::same_generation(word, static_cast<std::uint32_t>(PinToken::Generation::get(token))))
        return false;
    // acq_rel: the last load of the payload comes before; pairs with the acquire after a scan
    return place->compare_exchange(word, 0, shm::acq_rel);
}

}  // namespace maru::table
