// Deliberate defects, by which the simulator shows that it would see them (tests/sim/README.md).
#pragma once

#include <cstdint>

namespace maru {

enum class Mutant : std::uint8_t {
    none,
    // lookup
    no_recheck,             // a lease counts without a second look at the state
    recheck_low_bits,       // the second look compares two bits of the generation
    rescue_blind,           // a hit on RETIRING(evict) without taking it back
    key_pin_in_delete,      // a key pin counts although a deletion is undecided
    generation_three_bits,  // generations of three bits
    // pins
    pin_release_only,      // the pin is stored with release, not seq_cst
    batch_without_fence,   // a batch of pins without its fence
    summary_late,          // the summary bit set after the pin
    key_flag_late,         // the key-pin flag set after the second look
    epoch_not_read_again,  // the epoch's second look left out
    last_plain,            // `last` stored, not raised by compare-and-swap
    bound_before_epoch,    // `oldest` read before the epoch has moved
    high_water_late,       // the high-water mark raised when the chunk goes back
    key_pin_without_sequence,
    own_word_late,  // write-ahead ownership after the compare-and-swap
    // publication
    no_scan,                 // commit without a look for the key
    scan_before_place,       // the look for the key before the tentative entry stands
    tentative_left,          // tentative entries of the same key not thrown out
    tentative_by_phase,      // a tentative entry judged by its record's phase alone
    retiring_is_stale,       // an undecided retirement taken for a stale slot
    blind_commit,            // the commit without comparing
    lease_after_commit,      // the writer's lease after the commit
    fill_before_publishing,  // the record filled while RESERVED
    link_overwritten,        // an overflow bucket linked without comparing
    claim_without_owner,     // an overflow bucket claimed without naming who
    no_back_off,             // no pause after a lost commit
    lost_left_publishing,    // a store that lost leaves its page PUBLISHING
    lost_lease_left,         // and its lease where its own word was
    // retirement
    evict_without_scan,  // eviction decided without a look at the pins
    evict_scan_before_retiring,
    evict_any_attempt,  // a stale retirer completes a later retirement
    delete_ignores_key_pins,
    delete_lost_is_absent,    // a lost compare-and-swap answered "absent"
    reclaim_without_scan,     // RETIRED to FREE without a look at the pins
    delete_waits_for_leases,  // a lease stops a deletion
    damaged_any_generation,   // what lies in a damaged object's page by now is retired
    slot_emptied_early,       // the slot emptied before RETIRED
    foreign_left,             // an allocator waits for a stopped retirer
    generation_not_raised,    // a page given back under its old generation
    attempt_not_raised,
    // sweeps
    sweep_owner_number,      // owner compared without its generation
    sweep_pins_first,        // pin words cleared before their records are settled
    sweep_pins_left,         // pin words not cleared
    sweep_without_retiring,  // RETIRING of the dead left
    sweep_committed_away,    // a committed publication thrown away
    sweep_tentative_left,    // the tentative slot of the dead left
    sweep_claims_left,       // overflow claims of the dead left
    sweep_slot_first,        // the client slot given out before the sweep ended
    sweep_any_epoch,         // pin words cleared whatever their epoch and value
    sweep_gone_as_dead,      // everything taken from a client without proof of death
    // flush
    flush_not_compared,  // a lookup finds what was published before a flush
    flush_not_recorded,  // a record keeps the namespace's epoch of its former object
    flushed_not_evicted,
    // regions
    seal_live_page,        // a page that is in use does not stop a seal
    seal_same_generation,  // a sealed record keeps its generation
    open_by_former_place,  // an evictor opens a SEALED record by the region of its former life
    recover_at_once,       // a region recovered without taking it over first
    swept_holder_left,     // a region formed for a holder that was swept meanwhile stays its
    one_lap_less,          // the hand gives up before an undone eviction had its second chance
    // pools that come and go
    drain_taken_kept,    // who takes a page of a region that drains keeps it
    drain_looks_once,    // a page taken between the look at it and its seal does not stop the drain
    drain_reopened,      // a successor opens the regions of a pool that drains
    leave_in_use,        // a pool leaves while a page of it is in use
    units_without_wait,  // units of a removed pool are given away before every client has let go of them
    seen_epoch_late,     // a client acknowledges an epoch that it read after the pools
    undo_join_at_once,   // a pool that clients were told of is undone without an epoch
    count,
};

#if defined(MARU_STEPPED) || defined(MARU_WITH_MUTANT)
extern Mutant active_mutant;  // the simulator sets it between two runs, the option `mutant` for a build
// Not constexpr: a `const bool` that begins with it would be folded while nothing is active yet.
inline bool mutant(Mutant which) {
    return active_mutant == which;
}
#else
constexpr bool mutant(Mutant) {
    return false;
}
#endif

}  // namespace maru
