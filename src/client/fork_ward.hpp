// What must not be used by a forked child.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace maru::client {

/// The part of a client that the fork handler reaches. The child's copies of the descriptors are closed
/// there: a lock or a connection that lived on in a child would hide the parent's death.
struct ForkWard {
    static constexpr std::uint64_t not_open = ~std::uint64_t{0};

    /// Number of this client among all clients of this process while it may be used, else `not_open`.
    std::atomic<std::uint64_t> serial{not_open};
    std::atomic<bool> forked{false};
    std::atomic<int> socket{-1};
    std::atomic<int> lock{-1};
};

/// Held while a descriptor comes to be or goes and its number is written to the ward, so that no fork falls
/// between.
std::mutex& fork_gate();

/// From here on a fork takes care of the ward. Each ward is unregistered before it goes.
void register_ward(ForkWard& ward);
void unregister_ward(ForkWard& ward);

/// A number that no client of this process had before; never 0.
std::uint64_t next_serial();

}  // namespace maru::client
