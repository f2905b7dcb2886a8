// A small domain in simulated memory, and the processes that use it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine.hpp"
#include "mapped_pools.hpp"
#include "scenario.hpp"
#include "table/control.hpp"
#include "table/sweep.hpp"
#include "table/worker.hpp"

namespace maru::sim {

/// A page that one thread has reserved and another may publish or give back; a lease that another may
/// release.
struct Shared {
    std::vector<table::Page> pages;
    std::vector<std::uint64_t> leases;
    std::vector<std::uint32_t> holds;  // of the leases, in the oracle
};

struct Process {
    int number = 0;
    table::Identity identity;
    bool daemon = false;
    bool sweeps = false;    // a daemon that runs whenever somebody has died, in an exhaustive search
    bool succeeds = false;  // a daemon that begins when those before it have ended, in an exhaustive search
    bool alive = true;      // false: killed or ended; its memory accesses are over
    bool dies = false;      // of its own accord, at the next turn
    bool gone = false;      // verdict without proof
    std::vector<Actor*> threads;
    std::vector<std::unique_ptr<table::Worker>> workers;
    std::vector<std::uint32_t> regions;
    std::uint32_t wants_region = 0;  // namespace + 1 of a claim that waits for a daemon
    Shared shared;
    MappedPools pools;
    std::deque<PoolList> told;  // by its daemon, and not read yet
    bool serves = false;        // a daemon that has taken over
    PoolList opened;            // its pools
};

inline constexpr std::uint32_t words_per_unit = 2;
inline constexpr std::uint32_t ballast_namespace = 0;

/// Where something lies in simulated memory.
enum class Area {
    super,
    pools,
    hosts,
    clients,
    client_stats,
    namespaces,
    regions,
    overflow_claims,
    granule_claims,
    hints,
    chunks,
    index,
    records,
    payload,
    outside
};
struct Place {
    Area area = Area::outside;
    std::uint32_t entry = 0;   // number in its table
    std::uint32_t offset = 0;  // bytes into the entry
};

class World {
  public:
    explicit World(const Scenario& scenario);
    /// Back to what the format laid down.
    void reset();

    const Scenario& scenario() const { return scenario_; }
    const table::Control& control() const { return *control_; }
    /// Keys as the code under test takes them; number 0 and on.
    table::Key key(std::uint32_t number) const;
    std::uint32_t key_count() const { return static_cast<std::uint32_t>(names_.size()); }
    /// Key of a hash, -1 for none.
    int key_of_hash(std::uint64_t hash_low) const;

    // Each pool that was ever there has memory of its own, which its UUID names: a mapping that is not valid
    // any more leads to other words than the pool that has its units now.
    static std::uint32_t memory_of(const Uuid& uuid) { return uuid.bytes[0] - 1u; }
    static Uuid uuid_of(std::uint32_t memory);
    /// A new pool's UUID; nothing when a run has had all there are.
    std::optional<Uuid> next_pool() const;
    void pool_had() { ++pools_had_; }
    /// So many payload words of a memory, from a unit of its pool on; empty beyond its end.
    std::span<Word64> payload(std::uint32_t memory, std::uint32_t unit, std::uint32_t units);
    /// The payload words of a page, as the tables say; empty when it lies in no pool.
    std::span<Word64> payload(const table::PageLocation& location);
    /// The unit where a payload word lies now; nothing when its pool has left.
    std::optional<std::uint32_t> unit_of_word(std::uint32_t word) const;
    std::uint32_t memory_of_word(std::uint32_t word) const { return word / (memory_units_ * words_per_unit); }
    std::uint32_t unit_of(const table::PageLocation& location) const;

    Place find(const void* place) const;
    std::string describe(const void* place, std::uint64_t value) const;

    table::PageClass page_class(std::uint32_t name_space) const { return {1, name_space}; }
    /// Of a key by its number: ballast has one of its own, so that nobody takes or evicts its pages.
    std::uint32_t namespace_of(std::uint32_t key) const { return key < scenario_.keys.most ? 0 : 2; }

  private:
    struct LivePool {
        std::uint32_t memory = 0, first_unit = 0, unit_count = 0;
    };
    /// A pool that pages may lie in, as memory is now: never a step.
    std::optional<LivePool> live_pool(const std::function<bool(const LivePool&)>& is_wanted) const;
    void format();
    void name_keys();
    std::string describe_record(const Place& at, std::uint64_t value) const;

    Scenario scenario_;
    std::unique_ptr<std::byte, void (*)(void*)> memory_;
    std::size_t bytes_ = 0;
    std::vector<std::byte> snapshot_;
    std::unique_ptr<Word64[]> payload_;
    std::uint32_t pools_had_ = 0;                    // in this run
    std::uint32_t memories_ = 0, memory_units_ = 0;  // how many, and the size of each
    std::optional<table::Control> control_;
    std::vector<std::string> names_;
    std::vector<std::uint64_t> hashes_;
};

}  // namespace maru::sim
