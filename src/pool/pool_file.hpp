// The file behind a pool: opened so that nobody can put another one in its place, reserved, read, deleted.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace maru::pool {

/// A regular file of mode 0600 that belongs to this user and nobody else can open.
struct PoolFile {
    Descriptor descriptor;
    bool made = false;   ///< by this call
    bool empty = false;  ///< holds no block of memory: just made, or left by a death before it was reserved
    std::uint64_t bytes = 0;
};

/// Opens the file, or makes an empty one. Refuses, naming what it found: a relative path, a link, anything
/// but a regular file, another owner, access for others. `pool` names the pool in errors.
Result<PoolFile> open_file(const std::string& path, const std::string& pool);

/// Gives an empty file its size and, when `reserve`, takes every block of it now. Taking again what is taken
/// is no change. When there is not enough, the error says what is free, and an empty file stays empty.
Result<void> size_and_reserve(const PoolFile& file, std::uint64_t bytes, bool reserve,
                              const std::string& path, const std::string& pool);

/// Whether `path` still names the opened file.
bool still_named(int descriptor, const std::string& path);

/// Deletes the opened file by its name; see Pool::remove.
Result<void> delete_file(int descriptor, const std::string& path, const std::string& pool);

/// The folder of a path, for messages and for the file system's figures.
std::string folder_of(const std::string& path);

}  // namespace maru::pool
