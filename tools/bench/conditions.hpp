// Under which circumstances figures were taken.
#pragma once

#include <string>

namespace maru::bench {

/// Processors, their model, load average, page size of shared memory.
std::string machine_conditions();

/// Largest page that the kernel uses in this process's mapping of `address`, and how much of it is huge:
/// "4 KiB pages" or "4 KiB pages, 512.0 MiB of it huge".
std::string pages_of(const void* address);

}  // namespace maru::bench
