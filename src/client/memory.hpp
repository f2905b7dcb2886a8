// The domain's pools as this process maps them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/prefault.hpp"
#include "shm/bus_guard.hpp"
#include "shm/mapping.hpp"
#include "table/worker.hpp"
#include "wire/codec.hpp"

namespace maru::client {

/// Pools and control region, mapped until this goes; a pool that leaves the domain until `let_go`.
///
/// Promise: `address` gives a pointer only when the whole page lies inside its pool's mapping, whatever
/// shared memory
///          says. A control region that goes under this process (is_lost) reads as zeroes from then on,
///          unless it shares a huge page with data.
/// Threads: any number. Pools come and go under a mutex that `address` does not take: a pool leaves only when
///          no pin and no reservation names one of its pages, so nobody is between `address` and its bytes.
class Memory {
  public:
    struct Pool {
        std::uint64_t bytes = 0;  // 0: there is none of this number now
        std::string name, path;
        const char* kind = "";
        std::byte* base = nullptr;
    };

    /// Maps what a welcome describes; `pools` are its descriptors without the lock. Errors name the pool.
    static Result<std::unique_ptr<Memory>> map(const wire::Welcome& welcome,
                                               std::span<const Descriptor> pools);

    /// Maps the pools of a list that are new, lets go of those that left, and tells the daemons so in the
    /// client's entry. An error names the pool that could not be mapped; the others are.
    Result<void> take_in(const wire::PoolList& list, std::span<const Descriptor> descriptors,
                         Prefault& prefault);
    /// From here on nothing is written into the client's entry any more.
    void leave_entry() { may_write_.store(false, std::memory_order_release); }  // pairs with let_go

    const table::Control& control() const { return *control_; }
    /// How many numbers of pools there are; those of pools that left count.
    std::uint32_t pool_count() const;
    /// Names stay valid as long as this does.
    const Pool* pool(std::uint32_t number) const;

    /// Where a page begins; nullptr when any of it would lie outside, or its pool is not mapped here.
    std::byte* address(const table::PageLocation& location) const {
        if (location.region >= place_count_) return nullptr;
        // acquire: pairs with the release of whoever mapped the pool
        const Place* place = places_[location.region].load(std::memory_order_acquire);
        if (place == nullptr) return nullptr;
        const std::uint64_t page = location.page_bytes();
        const std::uint64_t begin = page * location.page_index;  // both are 32 bits and 44 bits at most
        const std::uint64_t start = std::uint64_t{location.region - place->first_unit} << place->unit_shift;
        if (location.page_4k > page_4k_max || begin + page > place->bytes - start) return nullptr;
        return place->base + start + begin;
    }
    /// Where a region begins; nullptr for a number out of range, or of a pool that is not mapped here.
    std::byte* region_address(std::uint32_t region) const { return address({region, 0, 1}); }
    /// This region lies in a pool of the domain that is not mapped here: the daemon has it (take_in).
    bool is_unknown(std::uint32_t region) const;
    std::span<std::byte> control_bytes() const;
    /// The control region has gone (its device, the end of its file, a bad page): what was read from it by
    /// now may be nothing, and what is written is seen by nobody.
    bool is_lost() const { return control_guard_.lost(); }

  private:
    static constexpr std::uint32_t page_4k_max = 1u << 28;  // a TiB: keeps the product below 2^64
    /// Where a pool's units lie. Never changed and never freed before this goes: who has just read a stale
    /// one computes with whole numbers of one pool.
    struct Place {
        std::byte* base = nullptr;  // of its first unit
        std::uint64_t bytes = 0;    // from there to the end of the pool
        std::uint32_t first_unit = 0;
        int unit_shift = 0;
    };
    struct Mapped {
        Uuid uuid;
        Pool facts;
        std::uint64_t alignment = 0;
        shm::Mapping mapping;
        Place place;
        std::uint32_t unit_count = 0;
    };
    using Slots = std::vector<std::unique_ptr<Mapped>>;

    Result<void> bind(const wire::Welcome& welcome, std::vector<std::unique_ptr<Mapped>> pools);
    static Result<std::unique_ptr<Mapped>> map_pool(int descriptor, const wire::PoolDescription& description);
    void enter(std::uint32_t number, std::unique_ptr<Mapped> pool);
    void guard_control(const Mapped& pool, std::uint64_t control_bytes);
    bool forget(std::uint32_t number, Prefault& prefault);
    void let_go(Prefault& prefault);

    std::optional<table::Control> control_;
    std::unique_ptr<std::atomic<const Place*>[]> places_;  // one per unit of the domain
    std::uint32_t place_count_ = 0;
    std::uint32_t slot_ = 0;
    std::atomic<bool> may_write_{true};
    mutable std::mutex mutex_;
    Slots pools_;                                // by the number of their entry; none: not mapped
    std::vector<std::unique_ptr<Mapped>> past_;  // unmapped; their names and places stay
    shm::ZeroedWhenLost control_guard_;          // last: goes before what it watches
};

}  // namespace maru::client
