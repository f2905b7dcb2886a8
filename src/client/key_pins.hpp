// Which key pins this client holds, by key: what unpin takes away.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/zeroed.hpp"
#include "table/pins.hpp"

namespace maru::client {

/// A multiset of (key, pin token) by open addressing. A key's identity is its keyed 128-bit hash.
///
/// Threads: any number, without a lock; every call ends after a bounded number of steps.
/// Expiry:  the daemon may end a pin by itself; such entries are thrown out by whoever meets them while
/// looking for
///          room.
/// Memory:  touched where used; no call allocates.
class KeyPins {
  public:
    /// `pins` is how many pin slots the domain has: more entries cannot stand at once.
    KeyPins(const table::Control& control, table::Identity identity);

    /// False when there is no room near the key, which takes thousands of standing pins of neighbours.
    bool add(const table::Key& key, std::uint64_t token);
    /// Takes one entry of the key out; 0 when there is none. The caller ends the pin.
    std::uint64_t take(const table::Key& key);

  private:
    struct Entry {
        std::atomic<std::uint64_t> token;  // 0: empty; `filling`: being written
        std::atomic<std::uint64_t> low, high;
    };
    static constexpr std::uint64_t filling = 1;  // no pin has it: its generation would be 0
    static constexpr std::uint32_t window = 4096;

    bool fill(Entry& entry, const table::Key& key, std::uint64_t token);
    bool stands(std::uint64_t token) const;

    const table::Control& control_;
    table::Identity identity_;
    std::uint32_t mask_;
    Zeroed<Entry> entries_;
    Zeroed<std::atomic<std::uint32_t>> reach_;  // by home: how far from it an entry was ever put, plus 1
};

}  // namespace maru::client
