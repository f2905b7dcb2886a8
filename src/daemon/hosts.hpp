// This host among the hosts of its domain: entering, signs of life, fencing those that show none.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "daemon/admin.hpp"
#include "daemon/own_host.hpp"

namespace maru::daemon {

/// What a daemon is in its domain.
struct Place {
    table::HostView host;
    table::Identity self;   // its own client slot
    bool rebooted = false;  // the machine was restarted since this host last served the domain
};

/// Takes this host's entry and a client slot for the daemon itself.
///
/// An entry of this host's id and another boot is taken over once its beat has stood still for host.grace
/// (waited for here; at once when it is fenced or was left in good order). Errors: invalid when the domain is
/// `local` to another host, contended when the beat moves (another machine uses this id), full.
Result<Place> enter_domain(const table::Control& control, const Config& config);

/// Lets the domain's clients know whether they may evict. Several hosts' configs: the last one counts.
void tell_eviction_policy(const table::Control& control, const Config& config);

/// What has become of this host's entry.
enum class Standing {
    current,
    fenced,      // silent for too long: the other hosts have quarantined its clients
    replaced,    // another daemon entered under this host's id, or the entry was released
    reformatted  // the memory holds another domain now, or none
};
const char* name_of(Standing standing);

/// Keeps this host in the domain and watches the others.
///
/// A host whose beat stands still for host.grace, by this daemon's own clock, is fenced: its clients are
/// quarantined, nothing that they hold is reused. Which of several watchers does it does not matter.
///
/// Death:   of the watcher at any point: the others, or its successor, go on.
/// Threads: the loop's.
class Hosts {
  public:
    Hosts(table::Worker& worker, const Config& config, const table::HostView& self, DaemonFacts& facts);

    /// A sign of life, and a look at what has become of our own entry.
    Standing beat();
    /// Looks at the other hosts. Once a second.
    void look_at_others();
    /// The host that counts the domain's seconds: the first that is active.
    bool leads() const;
    /// The daemon ends: with no client left, nobody needs to wait for the grace.
    void leave(bool clients_left);

    const table::HostView& self() const { return self_; }

  private:
    struct Seen {
        std::uint64_t beat = 0;
        std::uint32_t generation = 0;
        std::chrono::steady_clock::time_point since{};
    };
    void look_at(std::uint32_t number);

    table::Worker& worker_;
    const table::Control& control_;
    const Config& config_;
    const table::HostView self_;
    const Uuid domain_;
    DaemonFacts& facts_;
    std::vector<Seen> seen_;
};

}  // namespace maru::daemon
