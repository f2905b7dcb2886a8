// An attached control region: checked once, then typed tables at fixed places.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/uuid.hpp"
#include "table/layout.hpp"

namespace maru::table {

/// One pool as a format lays it down.
struct PoolPlan {
    Uuid uuid;
    std::uint32_t kind = 0;  // pool::Kind
    std::string name;
    std::uint64_t bytes = 0;        // whole size of the memory source
    std::uint64_t data_offset = 0;  // first byte that units may use
};

/// Everything a format needs to know. `plan_control` fills what is zero.
struct FormatPlan {
    Uuid domain;
    std::uint64_t region_unit = 0;  // 0: power of two near a 64th of all pools, 2 MiB to 1 GiB
    std::uint64_t min_page = page_align;
    std::uint32_t records = 0;  // objects at most; 0: by the rule of daemon_and_tools, control.max_objects
    std::uint32_t clients = 256;
    std::uint32_t hosts = 16;
    std::uint32_t namespaces = 64;
    std::uint32_t pins = 65536;
    std::uint64_t max_bytes = 0;  // of all pools there will ever be at one time; 0: twice those given here
    Coherence coherence = Coherence::local;
    ChecksumMode checksum = ChecksumMode::off;
    std::vector<PoolPlan> pools;  // the first one carries the control region at its head
};

/// How the memory is split: what --check-config prints and what a format lays down.
struct ControlSizes {
    std::uint64_t region_unit = 0;
    std::uint32_t records = 0, buckets = 0, overflow_buckets = 0, pin_chunks = 0, regions = 0;
    std::uint64_t records_bytes = 0, index_bytes = 0, pins_bytes = 0, other_bytes = 0;
    std::uint64_t control_bytes = 0;           // rounded up to a whole page of 4 KiB
    std::vector<std::uint32_t> units_of_pool;  // whole units that each pool gives
};

/// Sizes of the control region for a plan; an error says which number does not fit and what to change.
/// Touches nothing.
Result<ControlSizes> plan_control(const FormatPlan& plan);

/// A key ready for the table: its bytes (borrowed) and its keyed hash.
struct Key {
    std::string_view bytes;
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint32_t name_space = 0;
    std::uint32_t namespace_epoch = 0;
};

/// Where a page lies, read from its record under a pin.
struct PageLocation {
    std::uint32_t region = 0;
    std::uint32_t page_index = 0;
    std::uint32_t page_4k = 0;
    std::uint64_t page_bytes() const { return std::uint64_t{page_4k} * page_align; }
};

/// A control region attached at some address of this process.
///
/// Promise: after a successful attach every table lies inside the mapping; the sizes and places are private
///          copies, so that later damage to the superblock moves nothing.
/// Threads: any number.
class Control {
  public:
    /// Lays down an empty control region over `memory`, whatever was there. `memory` must have room for
    /// plan_control(plan).control_bytes. Death in the middle leaves no magic: the region reads as blank.
    static Result<Control> format(std::span<std::byte> memory, const FormatPlan& plan);

    /// Attaches to what a format laid down. Refuses, naming both values: blank or foreign memory, another
    /// layout version, a wrong checksum, tables that do not lie inside.
    static Result<Control> attach(std::span<std::byte> memory);

    /// True when the memory holds no control region (no magic, whole or damaged).
    static bool is_blank(std::span<std::byte> memory);

    Superblock& super() const { return *super_; }
    PageRecord& record(std::uint32_t number) const { return records_[number]; }
    Bucket& bucket(std::uint64_t number) const {
        return index_[number];
    }  // overflow buckets follow the home ones
    PinChunk& chunk(std::uint32_t number) const { return chunks_[number]; }
    ClientEntry& client(std::uint32_t slot) const { return clients_[slot]; }
    CounterLine& client_stats(std::uint32_t slot) const { return client_stats_[slot]; }
    RegionEntry& region(std::uint32_t number) const { return regions_[number]; }
    PoolEntry& pool(std::uint32_t number) const { return pools_[number]; }
    HostEntry& host(std::uint32_t number) const { return hosts_[number]; }
    NamespaceEntry& name_space(std::uint32_t number) const { return namespaces_[number]; }
    Word64& overflow_claim(std::uint32_t number) const { return overflow_claims_[number]; }
    Word64& granule_claim(std::uint32_t number) const { return granule_claims_[number]; }
    Word64& hint(std::uint32_t granule) const { return hints_[granule]; }

    std::uint32_t record_count() const { return record_count_; }
    std::uint32_t granule_count() const { return granule_count_; }
    std::uint32_t bucket_count() const { return bucket_count_; }
    std::uint32_t overflow_count() const { return overflow_count_; }
    std::uint32_t chunk_count() const { return chunk_count_; }
    std::uint32_t client_count() const { return client_count_; }
    std::uint32_t region_count() const { return region_count_; }
    std::uint32_t pool_count() const { return pool_count_; }
    std::uint32_t host_count() const { return host_count_; }
    std::uint32_t namespace_count() const { return namespace_count_; }
    std::uint64_t region_unit() const { return region_unit_; }
    std::uint64_t control_bytes() const { return control_bytes_; }
    Coherence coherence() const { return coherence_; }
    ChecksumMode checksum_mode() const { return checksum_mode_; }
    Uuid domain() const;

    /// Hashes a key of a namespace. Length must be 1 to key_length_max.
    Key key(std::uint32_t name_space, std::string_view bytes) const;
    /// Home bucket and tag of a hash.
    std::uint64_t home_of(std::uint64_t hash_low) const { return hash_low & (bucket_count_ - 1); }
    static std::uint32_t tag_of(std::uint64_t hash_low) {
        return static_cast<std::uint32_t>(hash_low >> (64 - slot_tag_bits));
    }

    /// Where a record's page lies; false when the record names a place outside every pool (damage).
    bool locate(const PageRecord& record, PageLocation* out) const;
    /// Pool of a region and offset of one of its pages in that pool's memory source; false when out of range.
    bool place(const PageLocation& location, std::uint32_t* pool, std::uint64_t* offset) const;
    /// The same for a region's first byte.
    bool region_place(std::uint32_t region, std::uint32_t* pool, std::uint64_t* offset) const;

    std::uint64_t epoch() const { return super_->epoch.load(shm::acquire); }

  private:
    Control() = default;
    bool bind(std::span<std::byte> memory);

    struct UnitRange {
        std::uint32_t first_unit = 0, unit_count = 0;
        std::uint64_t data_offset = 0;
    };
    UnitRange units_of(std::uint32_t pool) const;

    Superblock* super_ = nullptr;
    PageRecord* records_ = nullptr;
    Bucket* index_ = nullptr;
    PinChunk* chunks_ = nullptr;
    ClientEntry* clients_ = nullptr;
    CounterLine* client_stats_ = nullptr;
    RegionEntry* regions_ = nullptr;
    PoolEntry* pools_ = nullptr;
    HostEntry* hosts_ = nullptr;
    NamespaceEntry* namespaces_ = nullptr;
    Word64* overflow_claims_ = nullptr;
    Word64* granule_claims_ = nullptr;
    Word64* hints_ = nullptr;

    std::uint32_t record_count_ = 0, granule_count_ = 0, bucket_count_ = 0, overflow_count_ = 0,
                  chunk_count_ = 0;
    std::uint32_t client_count_ = 0, region_count_ = 0, pool_count_ = 0, host_count_ = 0,
                  namespace_count_ = 0;
    std::uint64_t region_unit_ = 0, control_bytes_ = 0;
    std::array<std::uint8_t, 192> hash_secret_{};  // of this domain, grown from the superblock's seed
    Coherence coherence_ = Coherence::local;
    ChecksumMode checksum_mode_ = ChecksumMode::off;
};

inline bool Control::locate(const PageRecord& record, PageLocation* out) const {
    // Relaxed: the caller's pin keeps these words from changing.
    out->region = record.region.load(shm::relaxed);
    out->page_index = record.page_index.load(shm::relaxed);
    out->page_4k = record.page_4k.load(shm::relaxed);
    return out->region < region_count_ && out->page_4k != 0;
}

}  // namespace maru::table
