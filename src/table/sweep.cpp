#include "table/sweep.hpp"

#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/index.hpp"
#include "table/regions.hpp"

namespace maru::table {
namespace {

/// What a sweep does with one record of an owner. Every step is a compare-and-swap that another sweeper may
/// repeat. `dead`: proven; else only what is safe against a living owner.
void sweep_record(Worker& sweeper, std::uint32_t number, Owner owner, bool dead, SweepReport* report) {
    const Control& control = sweeper.control();
    if (number == 0 || number >= control.record_count()) return;
    PageRecord& record = control.record(number);
    for (int round = 0; round < retire_rounds_max; ++round) {
        const std::uint64_t word = record.state.load(shm::acquire);
        const State state = State::unpack(word);
        const bool owned = state.owner == owner || (mutant(Mutant::sweep_owner_number) &&
                                                    state.owner.slot == owner.slot && owner.slot != 0);
        const std::uint64_t given_back = state_word(Phase::free, state.generation + 1);
        const std::uint64_t published = state_word(Phase::published, state.generation, {}, state.attempt);
        fault_point("sweep.in_records");
        if (state.phase == Phase::reserved && owned) {
            if (!dead || !record.state.compare_exchange(word, given_back)) return;
            set_hint(control, number);
            ++report->reserved;
            return;
        }
        if (state.phase == Phase::publishing && owned) {
            if (!mutant(Mutant::sweep_committed_away) && has_final_slot(control, number, state.generation)) {
                if (record.state.compare_exchange(word, published)) ++report->publishing_final;
                continue;
            }
            if (!dead) return;
            if (!mutant(Mutant::sweep_tentative_left)) clear_slots(control, number, state.generation, true);
            if (!mutant(Mutant::sweep_committed_away) && has_final_slot(control, number, state.generation))
                continue;
            if (!record.state.compare_exchange(word, given_back)) continue;
            set_hint(control, number);
            ++report->publishing_tentative;
            return;
        }
        if ((state.phase == Phase::retiring_evict || state.phase == Phase::retiring_delete) && owned &&
            !mutant(Mutant::sweep_without_retiring)) {
            if (record.state.compare_exchange(word, published)) ++report->retiring;
            continue;
        }
        if (state.phase == Phase::retired && finish_retired(sweeper, number, word)) ++report->retired;
        return;
    }
}

void fold_counters(const Control& control, CounterLine& from) {
    auto& total = control.client_stats(0);
    for (int c = 0; c < counter_count; ++c) {
        const std::uint64_t count = from.counts[c].exchange(0, shm::relaxed);
        if (count != 0) total.counts[c].fetch_add(count, shm::relaxed);
    }
}

void sweep_chunk_words(Worker& sweeper, PinChunk& chunk, std::uint64_t epoch, Owner owner, bool dead,
                       SweepReport* report) {
    for (auto& place : chunk.pins) {
        const std::uint64_t word = place.load(shm::acquire);
        if (word == 0) continue;
        if (!mutant(Mutant::sweep_any_epoch) && pin::Epoch::get(word) != (epoch & pin::Epoch::mask)) continue;
        fault_point("sweep.in_pins");
        if (mutant(Mutant::sweep_pins_first)) place.compare_exchange(word, 0);
        sweep_record(sweeper, pin::record(word), owner, dead, report);
        if (dead && mutant(Mutant::sweep_pins_left)) continue;
        if (mutant(Mutant::sweep_any_epoch)) place.exchange(0, shm::seq_cst);
        const bool key_pin = pin::kind(word) == PinKind::key;
        if (!dead && !key_pin) continue;  // a living owner's leases and reservations stay
        if (!place.compare_exchange(word, 0)) continue;
        report->key_pins += key_pin;
        report->leases += pin::kind(word) == PinKind::lease;
        // The page behind it may have been waiting for this pin.
        if (dead) sweep_record(sweeper, pin::record(word), owner, dead, report);
    }
}

void sweep_chunks(Worker& sweeper, Identity who, bool dead, SweepReport* report) {
    const Control& control = sweeper.control();
    for (std::uint32_t c = 0; c < control.chunk_count(); ++c) {
        PinChunk& chunk = control.chunk(c);
        // The epoch before the owner: seen in this order it is this owner's or an older one, never the next
        // one's, so that a sweeper that comes late clears no word of the next owner.
        const std::uint64_t epoch = chunk.epoch.load(shm::acquire);
        if (chunk.owner.load(shm::acquire) != who.holder_word()) continue;
        sweep_chunk_words(sweeper, chunk, epoch, who.owner(), dead, report);
        if (!dead) continue;
        fold_counters(control, chunk.counters);
        // `summary` and `oldest` stay as they are: the next owner resets them, and until then they cost a
        // look.
        if (chunk.owner.compare_exchange(who.holder_word(), 0)) ++report->chunks;
    }
}

/// An overflow bucket that was being linked: the parent's link decides.
void sweep_overflow_claims(const Control& control, Owner owner, SweepReport* report) {
    for (std::uint32_t n = 0; n < control.overflow_count(); ++n) {
        Word64& place = control.overflow_claim(n);
        const std::uint64_t word = place.load(shm::acquire);
        if (!overflow_claim::in_progress(word) || overflow_claim::owner(word) != owner) continue;
        const std::uint64_t parent = overflow_claim::Parent::get(word);
        const bool linked = parent < std::uint64_t{control.bucket_count()} + control.overflow_count() &&
                            control.bucket(parent).link.load(shm::acquire) == n + 1;
        if (place.compare_exchange(word, linked ? overflow_claim::linked : 0)) ++report->overflow_claims;
    }
}

void let_go_of_regions(Worker& sweeper, Identity who, SweepReport* report) {
    const Control& control = sweeper.control();
    for (std::uint32_t r = 0; r < control.region_count(); ++r) {
        if (control.region(r).holder.load(shm::relaxed) != who.holder_word()) continue;
        release_region(sweeper, r, who.holder_word());
        ++report->regions;
    }
}

}  // namespace

void SweepReport::add(const SweepReport& other) {
    reserved += other.reserved;
    publishing_tentative += other.publishing_tentative;
    publishing_final += other.publishing_final;
    retiring += other.retiring;
    retired += other.retired;
    leases += other.leases;
    key_pins += other.key_pins;
    chunks += other.chunks;
    overflow_claims += other.overflow_claims;
    regions += other.regions;
}

SweepReport sweep_gone(Worker& sweeper, Identity gone) {
    SweepReport report;
    quarantine_client(sweeper.control(), gone);  // first: from here on its calls are refused
    sweep_chunks(sweeper, gone, mutant(Mutant::sweep_gone_as_dead), &report);
    let_go_of_regions(sweeper, gone, &report);
    return report;
}

SweepReport sweep_dead(Worker& sweeper, Identity dead) {
    SweepReport report;
    const Control& control = sweeper.control();
    const std::uint64_t expected = client_state::pack(ClientPhase::dead, dead.generation);
    if (dead.slot == 0 || dead.slot >= control.client_count() ||
        control.client(dead.slot).state.load(shm::acquire) != expected)
        return report;
    if (mutant(Mutant::sweep_slot_first))
        control.client(dead.slot).state.compare_exchange(
            expected, client_state::pack(ClientPhase::free, dead.generation + 1));
    sweep_chunks(sweeper, dead, true, &report);
    if (!mutant(Mutant::sweep_claims_left)) sweep_overflow_claims(control, dead.owner(), &report);
    let_go_of_regions(sweeper, dead, &report);
    fold_counters(control, control.client_stats(dead.slot));
    // Last: only now may the slot carry another client, under the next generation.
    control.client(dead.slot).state.compare_exchange(
        expected, client_state::pack(ClientPhase::free, dead.generation + 1));
    return report;
}

bool owner_is_dead(const Control& control, Owner owner) {
    if (owner.slot == 0 || owner.slot >= control.client_count()) return true;
    const std::uint64_t word = control.client(owner.slot).state.load(shm::acquire);
    const ClientPhase phase = client_state::phase(word);
    return Owner::of(owner.slot, client_state::generation(word)) != owner || phase == ClientPhase::free ||
           phase == ClientPhase::dead;
}

std::uint32_t sweep_records(Worker& sweeper, std::uint32_t from, std::uint32_t count,
                            bool (*is_dead)(const Control&, Owner), SweepReport* report) {
    const Control& control = sweeper.control();
    const std::uint32_t end = count < control.record_count() - from ? from + count : control.record_count();
    for (std::uint32_t number = from; number < end; ++number) {
        const State state = State::unpack(control.record(number).state.load(shm::acquire));
        switch (state.phase) {
            case Phase::reserved:
            case Phase::publishing:
            case Phase::retiring_evict:
            case Phase::retiring_delete:
                if (is_dead(control, state.owner)) sweep_record(sweeper, number, state.owner, true, report);
                break;
            case Phase::retired:
                sweep_record(sweeper, number, {}, true, report);
                break;
            default:
                break;
        }
    }
    return end == control.record_count() ? 0 : end;
}

}  // namespace maru::table
