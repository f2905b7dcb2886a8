// Pools that come and go while a domain is in use. Daemons of a local domain add and remove them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "table/worker.hpp"

namespace maru::table {

// A pool goes through   none -> joining -> active -> draining -> leaving -> removed (-> none).
//
// and back to active when the drain is cancelled. src/table/README.md tells the rules; in short:
// Added: the entry stands with `joining` before its memory is made, so that a successor of a daemon that died
// meanwhile knows what to undo. A client that meets a page of a pool it does not map asks its daemon for it.
// Drained: the regions are DRAINING, and their free pages are sealed one by one; nothing new goes in, what is
// there ages out or is evicted.
// Removed: `leaving`, when no unit belongs to a region; then pools_epoch is raised. A client that reads it
// and has let go of every pool that left writes it into its entry (pools_seen). The units are another pool's
// only when every client slot in use has seen that epoch.

/// A pool's entry as it reads now.
struct PoolView {
    std::uint32_t number = 0;
    Uuid uuid;
    std::uint32_t kind = 0;  // pool::Kind
    PoolState state = PoolState::none;
    std::uint64_t bytes = 0, data_offset = 0;
    std::uint32_t first_unit = 0, unit_count = 0;
    std::string name, source;
};
/// Nothing for `none`, a state that does not exist, and units beyond the table.
std::optional<PoolView> read_pool(const Control& control, std::uint32_t number);
/// Pages may lie in it: active or draining.
bool is_live(PoolState state);
const char* name_of(PoolState state);
/// Units of all pools that pages may lie in.
std::uint64_t live_units(const Control& control);
/// The pool with this UUID that clients may map (joining, active or draining).
std::optional<PoolView> find_pool(const Control& control, const Uuid& uuid);

/// What a new pool's entry says.
struct NewPool {
    Uuid uuid;
    std::uint32_t kind = 0;
    std::string name;    // 1 to 63 bytes, of no other live pool
    std::string source;  // at most pool_source_max bytes
    std::uint64_t bytes = 0;
};
inline constexpr std::size_t pool_source_max = 111;

/// An entry in state `joining` with units of its own. Code full, naming control.max_pool_bytes, when there is
/// no room; the text names clients whose acknowledgement would make some.
Result<std::uint32_t> join_pool(const Control& control, const NewPool& pool);
/// joining -> active: regions are formed in it from here on.
bool activate_pool(const Control& control, std::uint32_t number);
/// joining -> none. Only while no client can have been told of it.
void undo_join(const Control& control, std::uint32_t number);

/// active -> draining, and every region of it DRAINING. Also for a pool that is draining already: a successor
/// takes over what its predecessor's drain left.
bool begin_drain(Worker& daemon, std::uint32_t number);
/// draining -> active: its regions serve again, with what was sealed of them. False for a pool that is not
/// draining. A death in it leaves an active pool whose regions the successor's recover_regions opens.
bool cancel_drain(Worker& daemon, std::uint32_t number);
/// What is left of a pool that is drained.
struct PoolContent {
    std::uint32_t regions = 0;
    std::uint64_t published = 0, reserved = 0, retired = 0, bad = 0;
};
PoolContent content_of(const Control& control, std::uint32_t number);
/// Seals what is free, with `evict` evicts what nobody holds, and gives back the units of regions that are
/// empty. Goes on from region `from` until the deadline; the region to go on from, or nothing when the pass
/// is over.
std::optional<std::uint32_t> drain_pass(Worker& daemon, std::uint32_t number, std::uint32_t from, bool evict,
                                        Deadline deadline);
/// Client slots that keep pages of a pool: by a lease, a key pin or a reservation.
struct PoolHolder {
    std::uint32_t slot = 0;
    std::uint64_t pages = 0;
};
std::vector<PoolHolder> holders_of(const Control& control, std::uint32_t number);

/// draining and empty -> leaving, with the next pools_epoch; `file` is what remains to be deleted. Also for
/// one that is joining, and of which clients may have been told; and for one that is leaving: what a death
/// between two stores left is done. False when a unit is still in use.
bool leave_pool(const Control& control, std::uint32_t number, const std::string& file);
/// leaving -> removed.
void finish_leaving(const Control& control, std::uint32_t number);
/// What a daemon does at its start, after recover_regions, with pools that its predecessor was adding (they
/// leave), removing (that is finished) or draining (that goes on). `delete_memory` is called for what leaves.
/// Returns those pools as they read before.
std::vector<PoolView> take_over_pools(Worker& daemon,
                                      const std::function<void(const PoolView&)>& delete_memory);
/// Client slots in use that have not said yet that they let go of what left up to this epoch.
std::vector<std::uint32_t> slots_behind(const Control& control, std::uint64_t epoch);

/// The domain still has this pool under this number, or is about to.
bool still_there(const Control& control, std::uint32_t number, const Uuid& uuid);
/// A client lets go of every pool that left: `mapped` are those that it maps, by number, and `forget` ends
/// every use of one, or answers false, which ends this. Then it says so in the entry of its slot, if
/// `may_say`. Death before that: the slot is in use, and behind, until it is swept.
void let_go_of_left(const Control& control, std::uint32_t slot, std::span<const std::optional<Uuid>> mapped,
                    const std::function<bool(std::uint32_t)>& forget, const std::function<bool()>& may_say);

}  // namespace maru::table
