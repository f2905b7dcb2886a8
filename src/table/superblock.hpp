// The immutable part of the superblock as words, for the format, the attach and the repair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "table/control.hpp"

namespace maru::table {

inline constexpr std::size_t immutable_words = offsetof(Superblock, checksum) / 8;
using ImmutableWords = std::array<std::uint64_t, immutable_words>;

ImmutableWords read_immutable(const Superblock& super);
/// Of the words as they are once the format is complete, whatever the magic is now.
std::uint64_t checksum_of(ImmutableWords words);

/// What stands in `magic` while a repair is under way, so that nobody serves half of it.
enum class RepairStage { none, deciding, indexing };
inline constexpr std::uint64_t magic_deciding =
    superblock_magic + 0x0100000000000000;  // records are being settled
inline constexpr std::uint64_t magic_indexing =
    superblock_magic + 0x0200000000000000;  // they are: the rest follows

/// Attaches as Control::attach does, also to what a repair was cut short in.
Result<Control> attach_for_repair(std::span<std::byte> memory);

}  // namespace maru::table
