// Client slots: who is connected, and what a death verdict does to a slot.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "table/pins.hpp"

namespace maru::table {

/// Who a client is, beyond its slot (host, pid and start time name a process; a pid alone names nobody).
struct ClientFacts {
    std::uint32_t host = 0, pid = 0, uid = 0, gid = 0, name_space = 0;
    std::uint64_t pid_namespace = 0, start_time = 0, exec_stamp = 0, random = 0;
    bool is_daemon = false, read_only = false;
    std::string instance_id;
};

/// Takes a free client slot and fills it; it is CONNECTING. Full: code full, with both numbers.
Result<Identity> open_client(const Control& control, const ClientFacts& facts);
/// Whether it may only look up and retrieve; in force from its next call on.
void set_read_only(const Control& control, Identity identity, bool read_only);
/// CONNECTING -> DEAD: the client never began to work. False: it did, or the slot is not CONNECTING.
bool take_back_connecting(const Control& control, Identity identity);
/// CONNECTING -> ACTIVE, by the client itself. False: the daemon took the slot back.
bool activate_client(const Control& control, Identity identity);
/// ACTIVE -> QUARANTINED: gone without proof. Its next call is refused.
bool quarantine_client(const Control& control, Identity identity);
/// CONNECTING, ACTIVE or QUARANTINED -> DEAD. Only with proof of death (or after an orderly goodbye).
bool declare_dead(const Control& control, Identity identity);

struct ClientView {
    Identity identity;
    ClientPhase phase = ClientPhase::free;
    ClientFacts facts;
    std::uint64_t connected_tick = 0;
};
/// A client slot as it reads now; nothing for a free one.
std::optional<ClientView> read_client(const Control& control, std::uint32_t slot);

/// Counters of one client: its own line and those of its chunks.
struct Counts {
    std::uint64_t of[counter_count] = {};
};
Counts count_client(const Control& control, Identity identity);
/// The counters of every client slot that is in use, by its number: those of its present generation.
std::vector<Counts> count_each(const Control& control);
/// Everything that was ever counted in this domain; evictions for every reason.
Counts count_all(const Control& control);
/// Objects that were evicted, by EvictReason. None of them ever counts down.
std::array<std::uint64_t, evict_reasons> count_evictions(const Control& control);

}  // namespace maru::table
