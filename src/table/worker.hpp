// One thread's hands on the control region: everything the fast path does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "table/pins.hpp"

namespace maru::table {

/// Pages of one size in one namespace: what an allocation asks for.
struct PageClass {
    std::uint32_t page_4k = 0;  // page size in units of 4 KiB
    std::uint32_t name_space = 0;
};

/// A page that this client has reserved.
struct Page {
    std::uint32_t record = 0;
    std::uint32_t generation = 0;
    std::uint64_t token = 0;  // its own word; after a publication the writer's lease
    PageLocation location;
};

/// A published object under a lease.
struct View {
    std::uint64_t token = 0;
    std::uint64_t length = 0;  // bytes of the value
    std::uint64_t checksum = 0;
    std::uint32_t record = 0;
    std::uint32_t generation = 0;
    PageLocation location;
};

enum class DeleteResult { deleted, absent, pinned, no_pin_slot, damaged };

struct Flushed;  // namespaces.hpp

/// Why an allocation found nothing, counted over the pages it could have used: for the text of an error.
struct Occupancy {
    std::uint64_t pages = 0, free = 0, reserved = 0, published = 0, pinned = 0, retired = 0, quarantined = 0,
                  bad = 0;
};

/// What a stretch of eviction brought. Bytes are those of whole pages.
struct Evicted {
    std::uint64_t objects = 0, bytes = 0;
    std::uint64_t pinned = 0, pinned_bytes = 0;  // met on the way and kept: leases and key pins
    std::uint64_t reserved_bytes = 0;            // met on the way: in the hands of writers
    std::uint32_t granules = 0;                  // that the hand moved over
    void add(const Evicted& other);
};

/// Which objects an administrator wants to go.
struct Chosen {
    std::optional<std::uint32_t> name_space;  // nothing: those of every namespace
    std::uint64_t older_than_s = 0;           // at least so many seconds old (age.hpp)
    std::uint64_t bytes = ~std::uint64_t{0};  // no further object once so much is given back
    bool spares_visited = false;              // who was read since the hand came by has a second chance
};

/// Works on the table under one identity.
///
/// Threads: a Worker belongs to one thread at a time; any number of Workers may share an Identity.
/// Death:   at any instruction; what it leaves is found through the pin words of its PinSet (sweep.hpp).
/// Bounds:  every call ends after a bounded number of its own steps, whatever others do or left undone.
/// Memory:  no call allocates, locks, logs or enters the kernel.
///
/// A Worker does not check that its client slot is still ACTIVE; `fenced()` does, callers ask it first.
class Worker {
  public:
    Worker(const Control& control, Identity identity);

    const Control& control() const { return control_; }
    Identity identity() const { return pins_.identity(); }
    PinSet& pins() { return pins_; }
    bool fenced() const;

    // -- pages

    /// A free page of one of these regions (those the client claimed). ok, full (none there) or, when no pin
    /// slot is left, contended.
    Code alloc_from(std::span<const std::uint32_t> regions, PageClass wanted, Page* page);
    /// A FREE page of any region of the class, as the hints show it.
    Code alloc_anywhere(PageClass wanted, Page* page);
    /// Evicts with a clock hand (visited bits) and takes the page of one victim; the other victims become
    /// FREE. Takes FREE and RETIRED pages that the hand meets. With the domain's eviction policy `none` only
    /// those.
    Code evict_to_reuse(PageClass wanted, Page* page);
    /// Evicts up to `count` objects of the class (when page_4k is 0, of any size in its namespace); returns
    /// how many went.
    std::size_t evict(PageClass which, std::size_t count);
    /// Moves the clock's hand over at most `granules` granules and evicts objects of any class whose pages
    /// can be allocated, until pages of `bytes` are back. Counted as `watermark`.
    Evicted evict_ahead(std::uint64_t bytes, std::uint32_t granules);

    /// Gives a reserved page back, or drops the writer's lease of a published one. Any thread of the client.
    /// not_reserved when the page is neither (given back already, or of another client).
    Code free(const Page& page);

    /// Finds a page this client has reserved by its place, for handles that carry no token.
    Code find_reserved(std::uint32_t region, std::uint32_t page_index, Page* page);

    // -- publication

    /// Publishes the reserved page under the key; the bytes must be in place (the commit is a release; after
    /// non-temporal stores an sfence comes first). On ok the page's token is the writer's lease.
    /// exists: somebody else's value stays, the page is RESERVED as before. contended, index_full,
    /// not_reserved: as they say; the page stays RESERVED in the first two.
    Code publish(const Key& key, Page& page, std::uint64_t length, std::uint64_t checksum = 0);

    // -- reading

    /// ok and a view under a lease, miss, full (no pin slot left) or damaged.
    Code retrieve(const Key& key, View* view);
    /// A lease on what is published in this page, whatever its key; miss when nothing is.
    Code lease_page(std::uint32_t region, std::uint32_t page_index, View* view);
    /// Ends a view; any thread of the client, once. invalid when the token names no standing lease.
    Code release(std::uint64_t token);
    /// No pin, no eviction credit.
    bool exists(const Key& key);
    /// A key pin by name: ok and its token, miss, full or damaged. Protects the object from delete and
    /// eviction, not a view's bytes after expiry.
    Code pin_key(const Key& key, std::uint64_t* token, std::uint32_t* record);
    /// Ends a key pin; false when it had expired or was released before.
    bool unpin(std::uint64_t token);

    // -- batches: hash, prefetch buckets, prefetch records, pin all, one fence, re-check all

    /// codes[i] and views[i] for keys[i]. All spans have one length.
    void retrieve_batch(std::span<const Key> keys, std::span<View> views, std::span<Code> codes);
    void exists_batch(std::span<const Key> keys, std::span<bool> present);
    /// Number of leading keys that are present; with `views` each of those is pinned by a lease. A pin slot
    /// that is missing ends the prefix like a miss.
    std::size_t match_prefix(std::span<const Key> keys, View* views);
    void release_batch(std::span<const std::uint64_t> tokens);

    // -- removal

    DeleteResult remove(const Key& key);
    /// Retires the object of a view whose bytes were found damaged, so that its key can be stored again.
    bool retire_damaged(const View& view);
    /// Looks again at deleted pages that were still being read.
    void retry_retired();

    Occupancy occupancy(PageClass of) const;

  private:
    struct Retiring {  // a victim between RETIRING and its fate
        std::uint32_t record = 0;
        std::uint64_t state = 0;  // as this worker set it
        PinSlot slot;
    };
    enum class Scan { clean, lost, again, damaged };

    // lookup.cpp
    bool record_of_page(std::uint32_t region, std::uint32_t page_index, std::uint32_t* record) const;
    bool settle_lease(PageRecord& record, std::uint32_t generation, const Word64& slot,
                      std::uint64_t slot_word);
    bool settle_key_pin(PageRecord& record, std::uint32_t generation, const Word64& slot,
                        std::uint64_t slot_word);
    Code fill_view(std::uint32_t number, std::uint32_t generation, PinSlot slot, View* view);
    Code retrieve_with(const Key& key, PinSlot slot, View* view);

    // batch.cpp
    void retrieve_piece(std::span<const Key> keys, View* views, Code* codes);

    // publish.cpp
    void fill_record(PageRecord& record, const Key& key, std::uint64_t length, std::uint64_t checksum);
    Code place(const Key& key, std::uint64_t word, Word64** where);
    Code link_overflow(Word64& link, std::uint64_t parent);
    Scan find_same(const Key& key, const Word64* mine);
    Code commit(const Key& key, const Page& page);
    void back_off(int round);

    // retire.cpp
    bool remove_one(std::uint32_t number, std::uint64_t state, PinSlot own, DeleteResult* result);
    bool reclaim(std::uint32_t number, std::uint64_t state, bool scanned);
    void remember_retired(std::uint32_t number, std::uint64_t state);
    bool help_publishing(std::uint32_t number, std::uint64_t state);
    void decide_foreign(std::uint32_t number, std::uint64_t state, PinSlot own);

    // allocate.cpp
    bool take_free(std::uint32_t number, std::uint64_t state, PinSlot slot, PageClass wanted, Page* page);
    bool take_retired(std::uint32_t number, std::uint64_t state, bool scanned, PinSlot slot, PageClass wanted,
                      Page* page);
    bool taken(std::uint32_t number, std::uint32_t generation, PinSlot slot, PageClass wanted, Page* page);
    void give_up(std::uint32_t number, std::uint64_t state);
    bool alloc_in_granule(std::uint32_t granule, PinSlot slot, PageClass wanted, Page* page);
    bool alloc_in_region(std::uint32_t region, PinSlot slot, PageClass wanted, Page* page);

    // evict.cpp
    struct Pass;
    void visit(Pass& pass, std::uint32_t number);
    bool begin_retire(Pass& pass, std::uint32_t number, std::uint64_t state);
    void decide(Pass& pass);
    std::uint32_t move_hand(Pass& pass, std::uint32_t granules);
    bool granule_of_class(std::uint32_t granule, const Pass& pass, std::uint32_t* first,
                          std::uint32_t* pages) const;
    bool evict_beside(const Key& key);
    void count_eviction(EvictReason reason);
    friend bool evict_range(Worker& worker, std::uint32_t first, std::uint32_t count, EvictReason reason);
    friend Evicted evict_chosen(Worker& worker, const Chosen& chosen, std::uint32_t first,
                                std::uint32_t count);
    friend void flush_records(Worker& worker, std::uint32_t id, std::uint32_t first, std::uint32_t count,
                              bool dry, Flushed* sum);
    friend bool finish_retired(Worker& worker, std::uint32_t number, std::uint64_t state);

    std::uint32_t random();

    const Control& control_;
    PinSet pins_;
    std::uint32_t region_cursor_ = 0, granule_cursor_ = 0;
    std::uint32_t random_state_;
    std::array<std::pair<std::uint32_t, std::uint64_t>, 64> retired_{};  // deleted pages still being read
    std::size_t retired_count_ = 0;
};

/// Evicts what is PUBLISHED among `count` records from `first` on, pins permitting; true when none is left.
bool evict_range(Worker& worker, std::uint32_t first, std::uint32_t count, EvictReason reason);
/// Evicts what is chosen among `count` records from `first` on, pins permitting. Counted as `admin`; also
/// where the domain's policy is none.
Evicted evict_chosen(Worker& worker, const Chosen& chosen, std::uint32_t first, std::uint32_t count);
/// What `evict_chosen` would do, second chances aside. Changes nothing.
Evicted count_chosen(const Control& control, const Chosen& chosen, std::uint32_t first, std::uint32_t count);
/// Finishes a retirement that somebody left: RETIRED to FREE when nobody reads the page.
bool finish_retired(Worker& worker, std::uint32_t number, std::uint64_t state);

}  // namespace maru::table
