// The control region as it lies in memory (control region layout, version 2).
//
// No pointers, no process-private types, little-endian fixed-width words, tables on 64-byte boundaries. A
// zero word means empty everywhere. Fields are Words, so that nothing here can be read or written past
// shm/word.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "shm/word.hpp"
#include "table/bits.hpp"
#include "table/limits.hpp"

namespace maru::table {

using shm::Word16;
using shm::Word32;
using shm::Word64;
using shm::Word8;

inline constexpr std::uint64_t superblock_magic = 0x4c52544355524d01;  // "\1MRUCTRL"

/// How far hosts may share this domain; declared when it is formatted.
enum class Coherence : std::uint32_t { local = 0, hardware = 1, software = 2 };
const char* name_of(Coherence coherence);
enum class ChecksumMode : std::uint32_t { off = 0, publish = 1, verify = 2 };
/// `none`: a store on a full pool is refused.
enum class EvictionPolicy : std::uint32_t { clock = 0, none = 1 };
/// What an object was evicted for: a store or a claim that needs its page, free memory ahead of demand, an
/// administrator.
enum class EvictReason : std::uint8_t { demand = 0, watermark = 1, admin = 2 };
inline constexpr int evict_reasons = 3;
const char* name_of(EvictReason reason);

/// Text inside shared memory: words of eight bytes, zero-padded.
template <std::size_t Bytes>
struct Text {
    static_assert(Bytes % 8 == 0);
    Word64 words[Bytes / 8];

    void set(std::string_view text) {
        for (std::size_t w = 0; w < Bytes / 8; ++w) {
            std::uint64_t bits = 0;
            for (std::size_t b = 0; b < 8 && w * 8 + b < text.size(); ++b)
                bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[w * 8 + b])) << (8 * b);
            words[w].store(bits, shm::relaxed);
        }
    }
    std::string get() const {
        std::string text;
        for (const auto& word : words) {
            const std::uint64_t bits = word.load(shm::relaxed);
            for (int b = 0; b < 8; ++b) {
                const auto letter = static_cast<char>(bits >> (8 * b) & 0xff);
                if (letter == 0) return text;
                text += letter;
            }
        }
        return text;
    }
};

/// First 4 KiB of the control region. The first 1,024 bytes never change after the format; a checksum covers
/// them. `magic` is written last, with release: a region whose format was cut short has none.
struct alignas(64) Superblock {
    // -- immutable
    Word64 magic;
    Word32 version;
    Word32 coherence;
    Word64 domain_uuid[2];
    Word64 control_bytes;  // size of the whole control region
    Word64 hash_seed;
    Word64 region_unit;  // bytes
    Word64 min_page;     // bytes
    Word32 checksum_mode;
    Word32 records;        // page records, number 0 included
    Word32 index_buckets;  // power of two
    Word32 overflow_buckets;
    Word32 clients;
    Word32 hosts;
    Word32 namespaces;
    Word32 pools;
    Word32 regions;  // one entry per unit of every pool
    Word32 pin_chunks;
    Word64 pools_at, hosts_at, clients_at, client_stats_at, namespaces_at, regions_at, records_at;
    Word64 pin_chunks_at, index_at, overflow_claims_at, granule_claims_at, hints_at;
    Word64 reserved[102];
    Word64 checksum;  // XXH3-64 of all bytes before it
    // -- changes a few times a second at most; read by everybody
    alignas(64) Word64 epoch;  // starts at 1
    Word64 bound;              // no lease older than this epoch is held (pins.hpp)
    Word64 tick;               // seconds, counted by the daemons
    Word64 pin_high_water;     // no chunk at or above this number was ever used
    Word64 daemon;             // holder word of the daemon that owns the control region
    Word64 daemon_generation;  // how many daemons have served this domain
    Word64 eviction;           // EvictionPolicy, as the daemon's config says
    // -- moved by evictors
    alignas(64) Word64 evict_hand;  // counts strides of records, modulo their number
    // -- moved when a pool leaves
    alignas(64) Word64 pools_epoch;  // see pools.hpp
    Word64 reserved_pools[7];
    // -- moved by daemons that evict
    alignas(64) Word64 evicted[8];  // objects by EvictReason; clients count those of `demand` themselves
    // -- counted by clients; so rare that many may write it
    alignas(64) Word64 checksum_failures;  // objects whose value no longer fitted its checksum
    Word64 reserved_failures[7];
    Word64 reserved_tail[8 * 43];
};
static_assert(offsetof(Superblock, checksum) == 1024 - 8);
static_assert(offsetof(Superblock, epoch) == 1024);
static_assert(sizeof(Superblock) == 4096);

/// `joining`: being added, nothing lies in it yet. `leaving`: empty, its file is being deleted. `removed`:
/// keeps its UUID, and its units until every client has let go of them (pools.hpp).
enum class PoolState : std::uint32_t {
    none = 0,
    active = 1,
    draining = 2,
    removed = 3,
    joining = 4,
    leaving = 5,
};
inline constexpr std::uint32_t pool_states = 6;

struct alignas(64) PoolEntry {
    Word64 uuid[2];
    Word32 kind;         // pool::Kind
    Word32 state;        // PoolState
    Word64 bytes;        // whole size of the memory source
    Word64 data_offset;  // where its first unit begins; behind the control region in the control pool
    Word32 first_unit;   // global number of its first unit
    Word32 unit_count;
    Text<64> name;
    Text<112> source;   // how a daemon finds it that has it in no config: KIND:WHAT[:SIZE]; of one that is
                        // leaving, the file to delete
    Word64 left_epoch;  // of one that is leaving or removed: what pools_epoch became
    Word64 reserved;
};
static_assert(sizeof(PoolEntry) == 256);

struct alignas(64) HostEntry {
    Word64 host_id[2];
    Word64 boot_id[2];
    Word64 state;  // host_state
    Word64 reserved[3];
    Word64 beat;  // a count, on a line of its own: only its host writes it
    Text<56> name;
};
static_assert(sizeof(HostEntry) == 128);

struct alignas(64) ClientEntry {
    Word64 state;  // client_state
    Word32 host;
    Word32 pid;
    Word64 pid_namespace;
    Word64 start_time;  // field 22 of /proc/PID/stat, clock ticks since boot
    Word64 exec_stamp;  // changes with exec
    Word64 random;      // told by the client, told again when it reconnects
    Word32 uid;
    Word32 gid;
    Word32 name_space;
    Word32 is_daemon;
    Word64 connected_tick;
    Text<128> instance_id;
    Word64 pools_seen;  // written by the client: it maps no pool that left up to this pools_epoch
    Word64 read_only;   // written by its daemon, 1: it may look up and retrieve, and no more
    Word64 reserved[5];
};
static_assert(sizeof(ClientEntry) == 256);

/// What a client did. Each thread counts in its own pin chunk; a chunk that goes back adds its counts here.
enum class Counter : std::uint8_t {
    lookups,  // in shared memory those that missed: a hit counts once; who reads adds the hits (clients.cpp)
    hits,
    stores,
    duplicates,
    deletes,
    evictions,
    rescues,
    contended,
};
inline constexpr int counter_count = 8;

struct alignas(64) CounterLine {
    Word64 counts[counter_count];
};
static_assert(sizeof(CounterLine) == 64);

struct alignas(64) NamespaceEntry {
    Word64 state;  // namespace_state
    Text<64> name;
    Word64 quota;    // bytes; 0: none
    Word64 epoch;    // raised by a flush; a record carries the epoch of its publication
    Word64 claimed;  // bytes of the pages of its regions, as a daemon last counted them
    Word64 rules;    // namespace_rules: which half of `members` counts, and what its numbers are
    Word32 members[2][namespace_members_max];  // user ids, then group ids, then group ids that only read
    Word64 reserved[3];
};
static_assert(sizeof(NamespaceEntry) == 256);

struct alignas(64) RegionEntry {
    // -- read by all; written only while FORMATTING by the owner named in `state`
    Word64 state;  // RegionState
    Word32 pool;
    Word32 unit_count;
    Word32 page_4k;  // page size in units of 4 KiB
    Word32 page_count;
    Word32 first_record;
    Word32 granules;
    Word32 name_space;
    Word32 head;  // of a `part`: the region it belongs to
    Word64 reserved0[3];
    // -- hot: hints, and the client that allocates here
    alignas(64) Word64 holder;
    Word64 reserved1[7];
    alignas(64) Word64 reserved2[8];
};
static_assert(sizeof(RegionEntry) == 192);

/// One page. First line: everything a lookup needs before it compares the key.
struct alignas(64) PageRecord {
    Word64 state;
    Word32 region;      // } where the page lies: written only while SEALED, so that an address computed
    Word32 page_index;  // } from them under a pin cannot change
    Word32 page_4k;     // }
    Word16 name_space;  // }
    Word16 key_length;
    Word64 hash_low;
    Word64 hash_high;
    Word64 length;  // of the value, bytes
    Word64 last;    // see namespace last
    Word32 namespace_epoch;
    Word16 publication_tick;  // } when it was published, in bits of the coarse clock (age.hpp)
    Word8 visited;
    Word8 publication_high;  // }
    // -- the key, first part
    Word64 key[key_inline_max / 8];
    Word64 checksum;  // XXH3-64 of the value, where the domain asks for it
};
static_assert(sizeof(PageRecord) == 192 && offsetof(PageRecord, key) == 64);

/// Pin slots of one thread of one client.
struct alignas(64) PinChunk {
    Word64 owner;    // holder word
    Word64 epoch;    // goes up with each owner; its low bits stand in each pin word
    Word64 oldest;   // oldest epoch of a lease in here, 0 when there is none
    Word64 summary;  // bit i: pin i may protect something
    Word64 reserved[4];
    CounterLine counters;  // written by the owning thread only
    Word64 pins[pins_per_chunk];
};
static_assert(sizeof(PinChunk) == 640);

struct alignas(64) Bucket {
    Word64 slots[slots_per_bucket];
    Word64 link;  // 0, or 1 + number of an overflow bucket
};
static_assert(sizeof(Bucket) == 64);

}  // namespace maru::table
