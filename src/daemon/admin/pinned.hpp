// Reading pin words for people: what is pinned, and by whom.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <unordered_map>

#include "base/clock.hpp"
#include "table/control.hpp"

namespace maru::daemon {

/// Number of chunks that may hold pins.
inline std::uint32_t pin_chunks_in_use(const table::Control& control) {
    // acquire: with the release of who raises the mark before its first pin
    const auto mark = control.super().pin_high_water.load(shm::acquire);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(mark, control.chunk_count()));
}

/// Calls `visit` with each pin word of a chunk; `owner` becomes its holder word, 0 for a chunk of nobody.
template <class Visit>
void visit_pins(const table::Control& control, std::uint32_t number, std::uint64_t* owner, Visit&& visit) {
    const auto& chunk = control.chunk(number);
    // acquire: with the compare-and-swap by which a thread takes the chunk
    *owner = chunk.owner.load(shm::acquire);
    if (*owner == 0) return;
    for (auto bits = chunk.summary.load(shm::relaxed); bits != 0; bits &= bits - 1) {
        const auto word = chunk.pins[std::countr_zero(bits)].load(shm::relaxed);
        if (word != 0) visit(word);
    }
}

/// The object that a pin word names, without kind and place.
inline std::uint64_t pinned_object(std::uint64_t word) {
    return table::pin::Record::put(table::pin::Record::get(word)) |
           table::pin::Generation::put(table::pin::Generation::get(word));
}

struct PinsOfObject {
    std::uint32_t leases = 0, key_pins = 0;
};
using PinsByObject = std::unordered_map<std::uint64_t, PinsOfObject>;

/// Pins of all objects as they read now. False when the deadline came first.
inline bool collect_pins(const table::Control& control, Deadline deadline, PinsByObject* pins) {
    const auto end = pin_chunks_in_use(control);
    for (std::uint32_t number = 0; number < end; ++number) {
        if (number % 64 == 63 && MonotonicClock::now() >= deadline) return false;
        std::uint64_t owner = 0;
        visit_pins(control, number, &owner, [&](std::uint64_t word) {
            const auto kind = table::pin::kind(word);
            if (kind == table::PinKind::lease) ++(*pins)[pinned_object(word)].leases;
            if (kind == table::PinKind::key) ++(*pins)[pinned_object(word)].key_pins;
        });
    }
    return true;
}

}  // namespace maru::daemon
