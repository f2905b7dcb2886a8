// The pools that one process maps, kept as src/client/memory.cpp keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "machine.hpp"
#include "table/pools.hpp"

namespace maru::sim {

class World;
using shm::Word64;

/// What a daemon tells of its pools.
using PoolList = std::vector<Uuid>;

/// Payload words as a process reaches them.
struct Bytes {
    std::uint32_t memory = 0;
    std::span<Word64> words;  // none: nothing is mapped there
};

class MappedPools {
  public:
    /// At its connect: what is live now, all at once.
    void bind(World& world);
    /// Lets go of what left, says so, and maps what is new of `list`: each part is a step of its own, as for
    /// threads that look for an address meanwhile. One thread of a process at a time.
    void take_in(World& world, Machine& machine, std::uint32_t slot, const PoolList& list);

    Bytes find(World& world, const table::PageLocation& at) const;
    bool maps(std::uint32_t memory) const;
    /// The memory that this process takes for a unit's.
    std::optional<std::uint32_t> memory_at(std::uint32_t unit) const;

  private:
    struct Mapped {
        Uuid uuid;
        std::uint32_t first_unit = 0, unit_count = 0;
    };
    void enter(World& world, Machine* machine, std::uint32_t number, const Uuid& uuid);
    void place(Machine* machine, std::uint32_t unit, std::optional<std::uint32_t> number);

    std::vector<std::optional<Mapped>> mapped_;         // by the number of their entries
    std::vector<std::optional<std::uint32_t>> places_;  // of each unit, the number of its pool
    bool busy_ = false;                                 // the mutex of a client's pools
};

}  // namespace maru::sim
