// What the kernel tells under /proc, in small files.
#pragma once

#include <cstdint>
#include <string>

namespace maru {

/// The first 2047 bytes of a small file; empty when it cannot be read (errno says why).
std::string read_small_file(const std::string& path);

/// Field 22 of FOLDER/stat, a process's folder: clock ticks between boot and the process's start; 0 when it
/// cannot be read.
std::uint64_t start_time_in(const std::string& folder);

}  // namespace maru
