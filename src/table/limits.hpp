// Every limit of the control region in one place, with the relations between them.
#pragma once

#include <cstdint>

#include "base/size.hpp"

namespace maru::table {

inline constexpr std::uint32_t layout_version = 2;

// Widths of packed words (bits.hpp). The reasons stand in README.md, "Widths".
inline constexpr int phase_bits = 4, attempt_bits = 12, owner_slot_bits = 10, owner_generation_bits = 6;
inline constexpr int slot_tag_bits = 11, slot_generation_bits = 24, record_bits = 28;
inline constexpr int pin_kind_bits = 2, pin_sequence_bits = 8, pin_epoch_bits = 8, pin_generation_bits = 18;

inline constexpr std::uint32_t max_records = 1u << record_bits;      // record 0 is never used
inline constexpr std::uint32_t max_clients = 1u << owner_slot_bits;  // client slot 0 is never used
inline constexpr int host_bits = 6;
inline constexpr std::uint32_t max_hosts = 1u << host_bits;
inline constexpr std::uint32_t max_namespaces = 4096;
inline constexpr std::uint32_t namespace_members_max = 16;  // users and groups that its rules name
inline constexpr std::uint32_t max_pools = 64;
inline constexpr std::uint32_t max_units = 1u << 20;

inline constexpr std::uint32_t pins_per_chunk = 64;
inline constexpr std::uint32_t max_pin_chunks = 1u << 18;

inline constexpr std::uint32_t records_per_granule = 64;  // one claim word and one hint word each
inline constexpr std::uint32_t evict_stride = 8;          // records that one move of the eviction hand covers
inline constexpr std::uint32_t strides_per_granule = records_per_granule / evict_stride;
inline constexpr std::uint32_t slots_per_bucket = 7;

inline constexpr std::uint32_t key_length_max = 4096;
inline constexpr std::uint32_t key_inline_max = 120;
inline constexpr std::uint64_t page_align = 4 * KiB;

// Bounds of loops: a full neighbourhood, a race or a damaged table is an answer, never an endless loop.
inline constexpr int publish_rounds_max = 40;     // placement attempts before "contended"
inline constexpr int retire_rounds_max = 8;       // looks at a lost compare-and-swap
inline constexpr int recheck_rounds_max = 64;     // looks at a state that others move under a fresh pin
inline constexpr int chain_hops_max = 64;         // overflow buckets behind one home bucket
inline constexpr std::uint32_t evict_batch = 32;  // victims decided with one pin scan
inline constexpr std::uint32_t overflow_probes_max = 4096;  // looks for a free overflow bucket

static_assert(phase_bits + attempt_bits + owner_slot_bits + owner_generation_bits == 32,
              "the other half of a state word is the generation");
static_assert(1 + slot_tag_bits + slot_generation_bits + record_bits == 64);
static_assert(pin_kind_bits + pin_sequence_bits + pin_epoch_bits + pin_generation_bits + record_bits == 64);
static_assert(slot_generation_bits >= 20, "narrower generations were seen to wrap under a frozen reader");
static_assert(attempt_bits >= 4, "narrower attempt counters let a stale retirer complete a later retirement");

}  // namespace maru::table
