// Looking at everybody's pins, as rarely and as briefly as can be, and the epoch that makes it rare.
#include <algorithm>
#include <bit>

#include "base/mutant.hpp"
#include "table/pins.hpp"

namespace maru::table {
namespace {

std::uint32_t chunks_in_use(const Control& control) {
    const std::uint64_t mark = control.super().pin_high_water.load(shm::fenced_load);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(mark, control.chunk_count()));
}

/// Calls visit(pin word) for each word that may protect something, until it returns true.
template <class Visit>
bool any_pin(const Control& control, Visit&& visit) {
    const std::uint32_t chunks = chunks_in_use(control);
    for (std::uint32_t number = 0; number < chunks; ++number) {
        PinChunk& chunk = control.chunk(number);
        for (std::uint64_t rest = chunk.summary.load(shm::fenced_load); rest != 0; rest &= rest - 1) {
            const std::uint64_t word = chunk.pins[std::countr_zero(rest)].load(shm::fenced_load);
            if (word != 0 && visit(word)) return true;
        }
    }
    return false;
}

/// Nobody can hold a pin that a scan would find: the answer without looking.
bool filtered(const PageRecord& record, bool keys_only, std::uint64_t bound) {
    const std::uint64_t last = record.last.load(shm::fenced_load);
    if ((last & last::key_pinned) != 0) return false;
    return keys_only || (last & last::epoch_mask) < bound;
}

}  // namespace

bool is_pinned(const Control& control, std::uint32_t record, std::uint32_t generation, bool keys_only) {
    shm::fence(shm::seq_cst);  // pairs with the pin stores: whoever we do not see will see our RETIRING
    const std::uint64_t bound = control.super().bound.load(shm::fenced_load);
    if (filtered(control.record(record), keys_only, bound)) return false;
    const bool found = any_pin(
        control, [&](std::uint64_t word) { return pin::protects(word, record, generation, keys_only); });
    shm::fence(shm::acquire);  // a cleared pin's payload loads come before whatever we do with the page
    return found;
}

void scan_pins(const Control& control, std::span<ScanTarget> targets) {
    shm::fence(shm::seq_cst);  // as in is_pinned, for the whole batch
    const std::uint64_t bound = control.super().bound.load(shm::fenced_load);
    bool look = false;
    std::uint64_t suspects = 0;  // bit i: targets[i] needs the scan
    static_assert(evict_batch <= 64);
    for (std::size_t i = 0; i < targets.size(); ++i) {
        targets[i].pinned = false;
        if (mutant(Mutant::evict_without_scan) || mutant(Mutant::evict_scan_before_retiring)) continue;
        if (filtered(control.record(targets[i].record), false, bound)) continue;
        suspects |= std::uint64_t{1} << i;
        look = true;
    }
    if (look)
        any_pin(control, [&](std::uint64_t word) {
            for (std::uint64_t rest = suspects; rest != 0; rest &= rest - 1) {
                auto& target = targets[static_cast<std::size_t>(std::countr_zero(rest))];
                if (!pin::protects(word, target.record, target.generation, false)) continue;
                target.pinned = true;
                suspects &= ~(rest & (~rest + 1));
            }
            return suspects == 0;
        });
    shm::fence(shm::acquire);
}

void advance_epoch(const Control& control) {
    auto& super = control.super();
    const std::uint64_t before = super.epoch.load(shm::seq_cst);
    const bool late = mutant(Mutant::bound_before_epoch);
    if (!late && !super.epoch.compare_exchange(before, before + 1))
        return;  // another host's daemon has just moved it
    // Only now look: a lease whose `oldest` is not there yet will re-read the epoch and raise its record
    // again.
    shm::fence(shm::seq_cst);
    std::uint64_t bound = before + 1;
    const std::uint32_t chunks = chunks_in_use(control);
    for (std::uint32_t number = 0; number < chunks; ++number) {
        PinChunk& chunk = control.chunk(number);
        const std::uint64_t oldest = chunk.oldest.load(shm::fenced_load);
        if (oldest == 0 || oldest >= bound) continue;
        // A lease released by another thread than its own leaves `oldest` standing: then no lease is in here.
        bool held = false;
        for (const auto& word : chunk.pins)
            held = held || pin::kind(word.load(shm::fenced_load)) == PinKind::lease;
        if (held) bound = oldest;
    }
    if (late && !super.epoch.compare_exchange(before, before + 1)) return;
    for (int round = 0; round < recheck_rounds_max; ++round) {
        const std::uint64_t seen = super.bound.load(shm::relaxed);
        if (seen >= bound || super.bound.compare_exchange(seen, bound)) return;
    }
}

}  // namespace maru::table
