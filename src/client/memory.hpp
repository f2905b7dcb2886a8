// The domain's pools as this process maps them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shm/mapping.hpp"
#include "table/worker.hpp"
#include "wire/codec.hpp"

namespace maru::client {

/// Pools and control region, mapped until this goes.
///
/// Promise: `address` gives a pointer only when the whole page lies inside its pool's mapping, whatever
/// shared memory
///          says.
/// Threads: any number, once it is made.
class Memory {
  public:
    struct Pool {
        shm::Mapping mapping;
        std::string name, path;
        const char* kind = "";
    };

    /// Maps what a welcome describes; `pools` are its descriptors without the lock. Errors name the pool.
    static Result<std::unique_ptr<Memory>> map(const wire::Welcome& welcome,
                                               std::span<const Descriptor> pools);

    const table::Control& control() const { return *control_; }
    const std::vector<Pool>& pools() const { return pools_; }

    /// Where a page begins; nullptr when any of it would lie outside.
    std::byte* address(const table::PageLocation& location) const {
        if (location.region >= places_.size()) return nullptr;
        const Place& place = places_[location.region];
        const std::uint64_t page = location.page_bytes();
        const std::uint64_t begin = page * location.page_index;  // both are 32 bits and 44 bits at most
        if (location.page_4k > page_4k_max || begin + page > place.room) return nullptr;
        return place.base + begin;
    }
    /// Where a region begins; nullptr for a number out of range.
    std::byte* region_address(std::uint32_t region) const {
        return region < places_.size() ? places_[region].base : nullptr;
    }
    std::span<std::byte> control_bytes() const;

  private:
    static constexpr std::uint32_t page_4k_max = 1u << 28;  // a TiB: keeps the product below 2^64
    struct Place {
        std::byte* base = nullptr;
        std::uint64_t room = 0;  // from there to the end of the pool
    };
    Result<void> bind(const wire::Welcome& welcome);

    std::vector<Pool> pools_;
    std::optional<table::Control> control_;
    std::vector<Place> places_;  // one per unit of the domain; units never move
};

}  // namespace maru::client
