// What goes over the slow path: requests of a client, answers of the daemon.
//
// A frame is a 16-byte header and a body of at most `body_max` bytes; descriptors travel beside the first
// byte of their frame (SCM_RIGHTS). Numbers are little-endian. Strings and lists carry a 32-bit count. A
// reader refuses a body that is short, has bytes left over, or holds a count that cannot fit (frame.hpp).
//
// Each request has one answer with the same number, in the order of the requests: hello -> welcome, resume ->
// done, claim -> claimed, give_back -> done, ping -> pong, admin -> admin_answer, bye -> done, ask_pools ->
// pool_list, any of them -> failure. Descriptors of a welcome: the locked lock file first, then one per pool
// in the order of its list; of a pool_list: one per pool. A pool_list with request 0 comes unasked to every
// client when a pool was added or has left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/uuid.hpp"

namespace maru::wire {

inline constexpr std::uint32_t frame_magic = 0x5552414d;  // "MARU"
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::uint32_t body_max = 4u << 20;
inline constexpr std::size_t descriptors_max = 66;  // control, pools, lock, shared events

enum class Type : std::uint16_t {
    hello = 1,    // client -> daemon, first frame of a client
    welcome = 2,  // answer: client slot, pools; descriptors: lock, then one per pool
    resume = 3,   // first frame of a client that was connected to an earlier daemon
    claim = 4,    // memory for allocations
    claimed = 5,
    give_back = 6,  // regions this client no longer wants
    bye = 7,        // orderly end: nothing is held any more. The client may close without reading the answer
    ping = 8,
    pong = 9,
    admin = 10,  // command of an administrator with arguments, as text
    admin_answer = 11,
    failure = 12,  // answer to anything: code and text
    done = 13,     // answer without content
    ask_pools = 14,
    pool_list = 15,  // the pools as they are now
};

/// First 16 bytes of each frame.
struct Header {
    std::uint32_t magic = frame_magic;
    std::uint16_t version = protocol_version;
    Type type = Type::ping;
    std::uint32_t request = 0;  // chosen by who asks, repeated in the answer
    std::uint32_t body = 0;     // bytes that follow
};
inline constexpr std::size_t header_bytes = 16;

struct Hello {
    std::string instance_id;  // 1 to 127 bytes
    std::string name_space;   // empty: the default namespace
    std::uint64_t page_bytes =
        0;  // page size that will be claimed; refused here when impossible. 0: reader only
    std::uint64_t start_time = 0;  // of the process, field 22 of /proc/self/stat
    std::uint64_t exec_stamp = 0;
    std::uint64_t random = 0;
    std::uint64_t pid_namespace = 0;
};

struct PoolDescription {
    Uuid uuid;
    std::uint32_t kind = 0;
    std::string name;
    std::string path;  // as the daemon's host knows it; empty when it has none
    std::uint64_t bytes = 0;
    std::uint64_t alignment = 4096;  // a mapping's length and offset are multiples of this
    std::uint64_t offset = 0;        // where in its descriptor the pool begins: behind a device's header
};

struct Welcome {
    Uuid domain;
    std::uint32_t slot = 0;  // the client slot, CONNECTING until the client's own compare-and-swap
    std::uint32_t generation = 0;
    std::uint32_t name_space = 0;
    std::uint64_t control_bytes = 0;  // at the head of pool 0
    std::uint64_t page_bytes = 0;     // page stride in force
    std::uint64_t free_bytes = 0;     // unclaimed, over all pools
    std::string daemon_version;
    std::vector<PoolDescription> pools;
};

struct PoolList {
    std::vector<PoolDescription> pools;
};

struct Resume {
    Uuid domain;
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;
    std::uint64_t random = 0;
    std::uint64_t start_time = 0;
    std::uint64_t pid_namespace = 0;
};

struct Claim {
    std::uint64_t page_bytes = 0;
    std::uint64_t bytes = 0;  // at least this much, rounded up to whole regions
};

struct ClaimedRegion {
    std::uint32_t region = 0;
    std::uint32_t page_count = 0;
    std::uint64_t page_bytes = 0;
};

struct Claimed {
    std::vector<ClaimedRegion> regions;  // less than asked for, or none, when less is free
    std::string warning;                 // for the person, empty when all is well
};

struct GiveBack {
    std::vector<std::uint32_t> regions;
};

/// `command` is a word of maructl ("status", "pools", "regions", "clients", "keys", "check", "ping");
/// `arguments` is a JSON object. The answer is a JSON value; lists come in parts with a cursor.
struct Admin {
    std::string command;
    std::string arguments;
};
struct AdminAnswer {
    std::string json;
};

struct Failure {
    std::int32_t code = 0;  // maru::Code
    std::string text;
};

}  // namespace maru::wire
