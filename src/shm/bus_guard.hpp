// A bad page of mapped memory (poison, a file that was truncated, a device that has gone) as an answer
// instead of the end of the process.
#pragma once

#include <cstddef>
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

}  // namespace maru::shm
