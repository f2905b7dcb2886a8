#include "client/key_pins.hpp"

#include <algorithm>
#include <bit>

namespace maru::client {
namespace {

std::uint32_t table_size(const table::Control& control) {
    return std::bit_ceil(std::max(2 * control.chunk_count() * table::pins_per_chunk, 128u));
}

}  // namespace

KeyPins::KeyPins(const table::Control& control, table::Identity identity)
    : control_(control),
      identity_(identity),
      mask_(table_size(control) - 1),
      entries_(mask_ + std::size_t{1}),
      reach_(mask_ + std::size_t{1}) {}

bool KeyPins::stands(std::uint64_t token) const {
    const table::Word64* pin = table::pin_of_token(control_, identity_, token);
    if (pin == nullptr) return false;
    const std::uint64_t word = pin->load(shm::acquire);  // pairs with the expiry's compare-and-swap
    return table::pin::kind(word) == table::PinKind::key &&
           table::pin::Sequence::get(word) == table::PinToken::Sequence::get(token) &&
           table::pin::same_generation(word,
                                       static_cast<std::uint32_t>(table::PinToken::Generation::get(token)));
}

bool KeyPins::fill(Entry& entry, const table::Key& key, std::uint64_t token) {
    std::uint64_t there = entry.token.load(std::memory_order_relaxed);  // the exchange below decides
    if (there == filling || (there != 0 && stands(there))) return false;
    if (!entry.token.compare_exchange_strong(there, filling, std::memory_order_acquire)) return false;
    entry.low.store(key.low, std::memory_order_relaxed);
    entry.high.store(key.high, std::memory_order_relaxed);
    entry.token.store(token, std::memory_order_release);  // pairs with the acquire in `take`
    return true;
}

bool KeyPins::add(const table::Key& key, std::uint64_t token) {
    const auto home = static_cast<std::uint32_t>(key.low) & mask_;
    const std::uint32_t steps = std::min(window, mask_ + 1);
    for (std::uint32_t step = 0; step < steps; ++step) {
        // Before the entry can be seen, so that a later `take` of this thread looks far enough.
        std::uint32_t reach = reach_[home].load(std::memory_order_relaxed);
        while (reach < step + 1 &&
               !reach_[home].compare_exchange_weak(reach, step + 1, std::memory_order_relaxed)) {
        }
        if (fill(entries_[(home + step) & mask_], key, token)) return true;
    }
    return false;
}

std::uint64_t KeyPins::take(const table::Key& key) {
    const auto home = static_cast<std::uint32_t>(key.low) & mask_;
    const std::uint32_t steps =
        reach_[home].load(std::memory_order_relaxed);  // ordered by what ordered the pin
    for (std::uint32_t step = 0; step < steps; ++step) {
        Entry& entry = entries_[(home + step) & mask_];
        std::uint64_t token =
            entry.token.load(std::memory_order_acquire);  // pairs with the release in `fill`
        if (token <= filling || entry.low.load(std::memory_order_relaxed) != key.low ||
            entry.high.load(std::memory_order_relaxed) != key.high)
            continue;
        // A token is never used twice, so that a slot refilled meanwhile for another key makes this fail.
        if (entry.token.compare_exchange_strong(token, 0, std::memory_order_relaxed)) return token;
    }
    return 0;
}

}  // namespace maru::client
