// Hazard pointers (Michael 2004) in shared memory: what a thread is reading, where everybody can see it.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mutant.hpp"
#include "table/control.hpp"

namespace maru::table {

/// The client slot under which somebody works.
struct Identity {
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;
    Owner owner() const { return Owner::of(slot, generation); }
    std::uint64_t holder_word() const { return holder::pack(slot, generation); }
};

/// A chunk of pin slots that a thread owns, and what only that thread knows of it.
struct OwnedChunk {
    PinChunk* shared = nullptr;
    std::uint32_t number = 0;
    std::uint32_t epoch = 0;
    std::uint64_t used = 0;       // taken slots; may still hold bits of what another thread released
    std::uint64_t announced = 0;  // of those, with a word: an empty one was released by another thread
    std::uint64_t leases = 0;     // of those, announced as leases
};

/// A pin slot that a thread has taken.
struct PinSlot {
    OwnedChunk* chunk = nullptr;
    std::uint32_t index = 0;
};

/// The pin slots of one thread.
///
/// Promise: while a lease announced here stands, and the re-check that followed it succeeded, the page keeps
///          its bytes and its generation. While an `own` word stands, a sweep of this client finds the
///          record.
/// Death:   words of a dead client stay until a sweep clears them; nobody else may.
/// Threads: one thread takes, announces and clears; any thread of the client may release by token.
/// Cost:    a lease is one exchange and a few loads of lines that no other client writes.
class PinSet {
  public:
    PinSet(const Control& control, Identity identity);
    PinSet(const PinSet&) = delete;
    PinSet& operator=(const PinSet&) = delete;

    /// Takes a free slot, claiming another chunk when needed; false when the table has none left.
    bool take(PinSlot* slot);

    /// Write-ahead ownership: names a record before the compare-and-swap that makes it ours.
    void announce_own(PinSlot slot, std::uint32_t record, std::uint32_t generation);
    /// Announces a lease, also over an own word. The caller re-reads the record's state (seq_cst) afterwards.
    void announce_lease(PinSlot slot, PageRecord& record, std::uint32_t number, std::uint32_t generation);
    /// Announces a key pin; sets the record's key-pin flag before. The caller re-reads the state afterwards.
    void announce_key(PinSlot slot, PageRecord& record, std::uint32_t number, std::uint32_t generation);

    /// A lease of a batch: everything but the fence. After the last one of the batch `fence_leases` makes all
    /// of them visible with one fence and settles their epochs.
    void prepare_lease(PinSlot slot, PageRecord& record, std::uint32_t number, std::uint32_t generation);
    void fence_leases(std::span<PageRecord* const> records);

    /// Clears the word of a slot, if any, and gives the slot back.
    void clear(PinSlot slot);
    /// Clears a key pin by compare-and-swap, as the daemon may expire it meanwhile; false when it had gone.
    bool clear_key(PinSlot slot, std::uint64_t word);

    std::uint64_t word(PinSlot slot) const;
    std::uint64_t token(PinSlot slot, std::uint32_t generation) const;
    /// The slot of a token when its chunk belongs to this set.
    bool find(std::uint64_t token, PinSlot* slot) const;

    /// Visits each chunk of this set with its number and the slots that hold leases, as this set remembers
    /// it: a lease that another thread released may still be among them.
    template <class Visit>
    void for_each_lease_mask(Visit&& visit) const {
        for (const auto& chunk : chunks_)
            visit(chunk.number, chunk.leases);
    }

    void count(Counter counter, std::uint64_t more = 1);

    /// Gives back all chunks whose words are clear, folding their counters into the client's own line;
    /// returns how many had to stay.
    std::size_t give_back();

    const Control& control() const { return control_; }
    Identity identity() const { return identity_; }

  private:
    using Chunk = OwnedChunk;
    bool claim_chunk();
    bool take_from(Chunk& chunk, PinSlot* slot);
    bool take_elsewhere(PinSlot* slot);
    void settle_epoch(PageRecord& record, std::uint64_t epoch);
    void refresh(Chunk& chunk);
    void drop(Chunk& chunk, std::uint64_t bits);
    void raise_last(PageRecord& record, std::uint64_t epoch, std::uint64_t flags);
    void begin_lease(Chunk& chunk, std::uint64_t bit, PageRecord& record, std::uint64_t epoch);
    std::uint64_t make_word(PinKind kind, const Chunk& chunk, std::uint32_t record, std::uint32_t generation);

    const Control& control_;
    Identity identity_;
    std::vector<Chunk> chunks_;     // capacity for every chunk of the table: never grows on the fast path
    std::vector<Chunk*> chunk_of_;  // by chunk number; nullptr when it is not ours
    Chunk* current_ = nullptr;
    CounterLine* counters_ = nullptr;
    std::uint32_t sequence_ = 0;
    std::uint64_t batch_epoch_ = 0;
};

// -- the steps of every retrieve and release, here so that they are part of their callers

namespace detail {
constexpr std::uint64_t bit_of(std::uint32_t index) {
    return std::uint64_t{1} << index;
}
}  // namespace detail

inline bool PinSet::take_from(Chunk& chunk, PinSlot* slot) {
    if (chunk.used == ~std::uint64_t{0}) return false;
    const auto index = static_cast<std::uint32_t>(std::countr_one(chunk.used));
    chunk.used |= detail::bit_of(index);
    current_ = &chunk;
    *slot = {&chunk, index};
    return true;
}

inline bool PinSet::take(PinSlot* slot) {
    return (current_ != nullptr && take_from(*current_, slot)) || take_elsewhere(slot);
}

inline std::uint64_t PinSet::make_word(PinKind kind, const Chunk& chunk, std::uint32_t record,
                                       std::uint32_t generation) {
    if (mutant(Mutant::key_pin_without_sequence)) return pin::pack(kind, 1, chunk.epoch, generation, record);
    return pin::pack(kind, ++sequence_, chunk.epoch, generation, record);
}

inline void PinSet::begin_lease(Chunk& chunk, std::uint64_t bit, PageRecord& record, std::uint64_t epoch) {
    // Relaxed: ordered before the seq_cst pin store (or the batch's fence); scans and the epoch's mover read
    // them after their own seq_cst step.
    if (chunk.leases == 0) chunk.shared->oldest.store(epoch, shm::relaxed);
    const std::uint64_t summary = chunk.shared->summary.load(shm::relaxed);
    if ((summary & bit) == 0 && !mutant(Mutant::summary_late))
        chunk.shared->summary.store(summary | bit, shm::relaxed);
    chunk.announced |= bit;
    chunk.leases |= bit;
    if ((record.last.load(shm::relaxed) & last::epoch_mask) < epoch) raise_last(record, epoch, 0);
}

inline void PinSet::announce_lease(PinSlot slot, PageRecord& record, std::uint32_t number,
                                   std::uint32_t generation) {
    Chunk& chunk = *slot.chunk;
    auto& epoch_word = control_.super().epoch;
    const std::uint64_t epoch = epoch_word.load(shm::acquire);
    begin_lease(chunk, detail::bit_of(slot.index), record, epoch);
    // seq_cst: pairs with the retirer's seq_cst compare-and-swap and its scan. An exchange, since xchg is a
    // fourth of the cost of mov + mfence.
    const std::uint64_t word = make_word(PinKind::lease, chunk, number, generation);
    if (mutant(Mutant::pin_release_only))
        chunk.shared->pins[slot.index].store(word, shm::release);
    else
        chunk.shared->pins[slot.index].exchange(word, shm::seq_cst);
    if (mutant(Mutant::summary_late))
        chunk.shared->summary.fetch_or(detail::bit_of(slot.index), shm::relaxed);
    if (mutant(Mutant::epoch_not_read_again)) return;
    if (epoch_word.load(shm::seq_cst) != epoch)
        settle_epoch(record, epoch);  // pairs with the mover's compare-and-swap
}

inline void PinSet::drop(Chunk& chunk, std::uint64_t bits) {
    if (bits == 0) return;
    chunk.used &= ~bits;
    chunk.announced &= ~bits;
    const std::uint64_t summary = chunk.shared->summary.load(shm::relaxed);
    // release: the payload loads under the pin come before; pairs with the acquire after a scan
    if ((summary & bits) != 0) chunk.shared->summary.store(summary & ~bits, shm::release);
    if ((chunk.leases & bits) != 0) {
        chunk.leases &= ~bits;
        if (chunk.leases == 0) chunk.shared->oldest.store(0, shm::release);
    }
}

inline void PinSet::clear(PinSlot slot) {
    Chunk& chunk = *slot.chunk;
    // release: the last load of the payload comes before; pairs with the acquire after a scan
    chunk.shared->pins[slot.index].store(0, shm::release);
    drop(chunk, detail::bit_of(slot.index));
}

inline std::uint64_t PinSet::word(PinSlot slot) const {
    return slot.chunk->shared->pins[slot.index].load(shm::acquire);
}

inline std::uint64_t PinSet::token(PinSlot slot, std::uint32_t generation) const {
    const Chunk& chunk = *slot.chunk;
    const std::uint64_t word = chunk.shared->pins[slot.index].load(shm::relaxed);  // our own store
    return PinToken::Chunk::put(chunk.number) | PinToken::Index::put(slot.index) |
           PinToken::Sequence::put(pin::Sequence::get(word)) | PinToken::Generation::put(generation);
}

inline bool PinSet::find(std::uint64_t token, PinSlot* slot) const {
    const std::uint64_t number = PinToken::Chunk::get(token);
    if (number >= chunk_of_.size() || chunk_of_[number] == nullptr) return false;
    *slot = {chunk_of_[number], static_cast<std::uint32_t>(PinToken::Index::get(token))};
    return true;
}

inline void PinSet::count(Counter counter, std::uint64_t more) {
    if (counters_ != nullptr) counters_->counts[static_cast<int>(counter)].add_unshared(more);
}

/// Clears the pin that a token names, from any thread. False when the token names no standing pin of that
/// kind: released already, expired, or never made.
bool release_token(const Control& control, Identity identity, std::uint64_t token, PinKind kind);

/// Word and place behind a token; nullptr when it is out of range or its chunk is not this client's.
Word64* pin_of_token(const Control& control, Identity identity, std::uint64_t token);

// -- scans: does anybody pin this?

/// True when a pin protects the object. One pass over the chunks in use, unless the epoch filter or the
/// key-pin flag already answers. The caller's compare-and-swap to RETIRING or RETIRED was seq_cst.
bool is_pinned(const Control& control, std::uint32_t record, std::uint32_t generation, bool keys_only);

struct ScanTarget {
    std::uint32_t record = 0;
    std::uint32_t generation = 0;
    bool pinned = false;
};
/// The same for up to evict_batch targets with one pass; leases and key pins both count.
void scan_pins(const Control& control, std::span<ScanTarget> targets);

/// Moves the epoch on and raises the bound below which no lease is held. Called by the daemon about every 100
/// ms.
void advance_epoch(const Control& control);

}  // namespace maru::table
