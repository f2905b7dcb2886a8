// The file behind a pool: opened so that nobody can put another one in its place, reserved, read, deleted.
#pragma once

#include <cstdint>
#include <functional>
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
/// The same for a descriptor that somebody kept; `made` and `empty` as the file is.
Result<PoolFile> take_file(Descriptor kept, const std::string& what, const std::string& pool);

/// How a file gets its memory.
struct Sizing {
    std::uint64_t bytes = 0;
    bool reserve = true;          ///< every block now
    bool blocks_are_data = true;  ///< the file system counts nothing but data as a file's blocks
    /// What the file can still grow by; empty: what its file system has free.
    std::function<Result<std::uint64_t>()> free;
    /// The error when that is less than needed; empty: the file system's figures.
    std::function<Error()> too_full;
    /// Between the size and the memory: where it shall come from.
    std::function<Result<void>()> place;
};

/// Gives an empty file its size and, when asked, takes every block of it now. Taking again what is taken
/// is no change. When there is not enough, the error says what is free, and an empty file stays empty.
Result<void> size_and_reserve(const PoolFile& file, const Sizing& sizing, const std::string& path,
                              const std::string& pool);

/// Whether `path` still names the opened file.
bool still_named(int descriptor, const std::string& path);

/// Deletes the opened file by its name; see Pool::remove.
Result<void> delete_file(int descriptor, const std::string& path, const std::string& pool);

/// The folder of a path, for messages and for the file system's figures.
std::string folder_of(const std::string& path);

}  // namespace maru::pool
