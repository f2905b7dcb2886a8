// What happens to the things of a client that is gone or dead.
#pragma once

#include <cstdint>

#include "table/clients.hpp"
#include "table/worker.hpp"

namespace maru::table {

/// What a sweep met; the kill campaign prints it, metrics count it.
struct SweepReport {
    std::uint64_t reserved = 0;              // given back
    std::uint64_t publishing_tentative = 0;  // no final slot: thrown away
    std::uint64_t publishing_final = 0;      // completed
    std::uint64_t retiring = 0;              // back to PUBLISHED
    std::uint64_t retired = 0;               // finished
    std::uint64_t leases = 0, key_pins = 0;  // cleared
    std::uint64_t chunks = 0, overflow_claims = 0, regions = 0;

    void add(const SweepReport& other);
};

/// Verdict "gone", without proof of death: only what is safe against a living owner. Completes publications
/// that have committed, undoes retirements, ends key pins, lets go of regions; the slot becomes QUARANTINED.
/// May be repeated, also by another sweeper.
SweepReport sweep_gone(Worker& sweeper, Identity gone);

/// Verdict "proven dead" (or an orderly goodbye): everything, and at the end the slot is free for the next
/// generation. The slot must be DEAD (declare_dead). Every step is a compare-and-swap that can be repeated by
/// another sweeper, also late. Death of the sweeper: the next sweep goes on.
SweepReport sweep_dead(Worker& sweeper, Identity dead);

/// A slice of the full pass that a starting daemon makes over all records: owners that are proven dead
/// (`is_dead`), RETIRED pages. Returns the number to go on from, 0 when the pass is complete.
std::uint32_t sweep_records(Worker& sweeper, std::uint32_t from, std::uint32_t count,
                            bool (*is_dead)(const Control&, Owner), SweepReport* report);

/// True when no client slot carries this owner any more, or the slot is DEAD with that generation.
bool owner_is_dead(const Control& control, Owner owner);

/// Clears key pins older than `ttl_s` seconds by the daemon's own clock. `seen` remembers when each pin word
/// was first seen; it belongs to the caller. Returns how many went, adding them to `expired_of[client slot]`.
class KeyPinExpiry {
  public:
    explicit KeyPinExpiry(const Control& control);
    std::uint64_t pass(std::uint64_t now_s, std::uint64_t ttl_s, std::vector<std::uint64_t>* expired_of);

  private:
    struct Seen {
        std::uint64_t word = 0, since_s = 0;
    };
    const Control& control_;
    std::vector<Seen> seen_;
};

}  // namespace maru::table
