// Host entries: which machines serve this domain, and what becomes of the clients of one that falls silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "table/sweep.hpp"

namespace maru::table {

/// A machine and its boot; two machines never share both (a cloned one shares the id, not the boot).
struct HostFacts {
    std::uint64_t id[2] = {0, 0};
    std::uint64_t boot[2] = {0, 0};
    std::string name;  // for people; at most host_name_max bytes are kept

    bool same_id(const HostFacts& other) const { return id[0] == other.id[0] && id[1] == other.id[1]; }
    bool same_boot(const HostFacts& other) const {
        return boot[0] == other.boot[0] && boot[1] == other.boot[1];
    }
};
inline constexpr std::size_t host_name_max = 56;

struct HostView {
    std::uint32_t number = 0;
    HostPhase phase = HostPhase::free;
    std::uint32_t generation = 0;
    std::uint64_t beat = 0;
    HostFacts facts;
};

/// A host entry as it reads now; nothing for a free one or a number that does not exist. Of a JOINING one the
/// facts may be those of the entry's former host.
std::optional<HostView> read_host(const Control& control, std::uint32_t number);
/// The entry of this host id, JOINING ones aside.
std::optional<HostView> find_host(const Control& control, const HostFacts& facts);

/// Takes a free entry for a host that has none. Full: code full, with the number of entries and the remedy.
/// Death: leaves the entry JOINING; the watchers of other hosts free it after the grace.
Result<HostView> join_host(const Control& control, const HostFacts& facts);
/// Takes over the entry that an earlier daemon of this host left, whatever its phase, under the next
/// generation. Who may do so is the caller's to know (same boot, or a beat that has stood still for the
/// grace). Contended: somebody else has just changed the entry.
Result<HostView> take_over_host(const Control& control, const HostView& was, const HostFacts& facts);

/// The entry is ACTIVE in this generation: not fenced, not taken over, not released.
bool is_active(const Control& control, const HostView& host);
/// A sign of life. Only the host's own daemon calls it.
void beat(const Control& control, const HostView& host);
/// ACTIVE -> FENCED, JOINING -> FREE, in the generation of the view. False: it has changed meanwhile.
bool fence_host(const Control& control, const HostView& silent);
/// ACTIVE -> LEFT: the daemon ends and no client of this host is left.
bool leave_host(const Control& control, const HostView& host);
/// FENCED or LEFT -> FREE: its clients are swept, the entry may carry another host.
bool free_host(const Control& control, const HostView& host);

/// Verdict "gone" about every client of a host, its daemon's own slot included: published objects stay,
/// regions become adoptable, the slots are QUARANTINED. May be repeated, and is: a daemon that does not know
/// yet that it is fenced may give out another slot.
SweepReport quarantine_clients_of(Worker& sweeper, std::uint32_t host);
/// Verdict "proven dead" about every client of a host, by an administrator's word. Returns how many.
std::size_t sweep_clients_of(Worker& sweeper, std::uint32_t host, SweepReport* report);

}  // namespace maru::table
