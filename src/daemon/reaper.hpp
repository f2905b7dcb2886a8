// Who lives, who is gone, who is dead, and what follows from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "daemon/admin.hpp"
#include "daemon/lock_file.hpp"
#include "daemon/loop.hpp"
#include "daemon/process.hpp"
#include "table/clients.hpp"
#include "table/regions.hpp"

namespace maru::daemon {

/// Watches every client slot in use and gives the two verdicts.
///
/// *Gone*: the connection ended without a goodbye and the process still runs. Only what is safe against a
/// living owner is undone; the slot is quarantined until there is proof. *Dead*: the process has ended (its
/// pidfd says so after the kernel closed its files), it runs another program since an exec, or it cannot be
/// seen and nobody holds the lock that only the kernel drops.
/// Everything it had is given back.
///
/// Death:   of the daemon at any point: its successor re-learns who lives and sweeps again.
/// Threads: the loop's.
class Reaper {
  public:
    Reaper(Loop& loop, table::Worker& worker, const LockFile& lock, DaemonFacts& facts);
    ~Reaper();
    Reaper(const Reaper&) = delete;
    Reaper& operator=(const Reaper&) = delete;

    /// Called when a client is found dead whose connection is still open (a child may hold it).
    std::function<void(table::Identity)> on_dead;

    /// Takes over what an earlier daemon of this host left: sweeps its slot and the dead, finds the living,
    /// begins the full pass over the records. `rebooted`: the machine was restarted since, so nobody of then
    /// lives.
    void take_over(bool rebooted);

    /// A client that has just got its slot, or has come back over a new connection.
    void connected(table::Identity identity, Descriptor pidfd);
    /// Its connection has ended without a goodbye.
    void disconnected(table::Identity identity);
    /// An administrator's word: fenced at once; with `kill` its process is killed, and swept when that has
    /// ended. Its session is closed by the caller. Unavailable or denied: fenced, and could not be killed.
    Result<void> disconnect(table::Identity identity, bool kill);
    /// An orderly end: nothing is held any more.
    void goodbye(table::Identity identity);
    /// This host was fenced: every client of it is, too.
    void fence_all();
    /// Looks at those without a connection: at the locks of whom no pidfd watches, and at who gave himself up
    /// while no daemon ran. Once a second.
    void look_at_locks();

    /// Client slots in use by others than this daemon.
    std::size_t watched() const { return watched_.size(); }

  private:
    struct Watched {
        table::Identity identity;
        Descriptor pidfd;
        Operation polling = 0, lingering = 0;
        bool is_connected = false;
    };

    void take_over_slot(const table::ClientView& view, bool rebooted);
    void watch(Watched& watched);
    void linger(Watched& watched);
    void judge(std::uint32_t slot);
    void gone(const Watched& watched);
    void dead(table::Identity identity, const char* proof);
    template <class Sweep>
    table::SweepReport timed(Sweep sweep);
    void forget(std::uint32_t slot);
    void sweep_slice(std::uint32_t from);
    bool said_goodbye(table::Identity identity) const;

    Loop& loop_;
    table::Worker& worker_;
    const table::Control& control_;
    const LockFile& lock_;
    DaemonFacts& facts_;
    std::unordered_map<std::uint32_t, Watched> watched_;
    Operation slicing_ = 0;
};

}  // namespace maru::daemon
