// A bad page of mapped memory (poison, a file that was truncated, a device that has gone) as an answer
// instead of the end of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <type_traits>

namespace maru::shm {

/// Calls `work(context)`, which touches [at, at + size). False when a SIGBUS at an address of that range
/// ended it; then it stopped at any point, and nothing in it is unwound: it must own nothing (copies and
/// checksums do not). Calls may nest.
///
/// A SIGBUS anywhere else goes to the handler that was there before, or ends the process as ever.
/// Threads: any; each has its own guards. Signals: the handler only reads this thread's guards and jumps.
/// Cost:    a few nanoseconds; the first call of a process installs the handler.
bool survives_bus_error(const void* at, std::size_t size, void (*work)(void*), void* context);

/// The same for anything that can be called.
template <class Work>
bool survives_bus_error(const void* at, std::size_t size, Work&& work) {
    return survives_bus_error(
        at, size, [](void* context) { (*static_cast<std::remove_reference_t<Work>*>(context))(); }, &work);
}

struct Watched;

/// Stands for mapped memory that code goes on reading and writing word by word when it has gone. The first
/// SIGBUS in it replaces all of it by zeroes that belong to this process alone, and the access is made again.
///
/// Promise: who has read a zero of the replacement and then asks `lost` is told true.
/// Threads: `lost` any; the rest is the owner's. It goes before the memory is unmapped.
/// Cost:    nothing until something is lost.
class ZeroedWhenLost {
  public:
    ZeroedWhenLost() = default;
    /// Whole pages of one mapping, as large as the mapping's pages are.
    explicit ZeroedWhenLost(std::span<std::byte> memory);
    ~ZeroedWhenLost();
    ZeroedWhenLost(const ZeroedWhenLost&) = delete;
    ZeroedWhenLost& operator=(const ZeroedWhenLost&) = delete;
    ZeroedWhenLost& operator=(ZeroedWhenLost&& other) noexcept;

    bool lost() const;

  private:
    Watched* watched_ = nullptr;
};

}  // namespace maru::shm
