#include "daemon/hosts.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace maru::daemon {

const char* name_of(Standing standing) {
    switch (standing) {
        case Standing::current:
            return "current";
        case Standing::fenced:
            return "fenced";
        case Standing::replaced:
            return "replaced";
        case Standing::reformatted:
            return "reformatted";
    }
    return "unknown";
}

Hosts::Hosts(table::Worker& worker, const Config& config, const table::HostView& self, DaemonFacts& facts)
    : worker_(worker),
      control_(worker.control()),
      config_(config),
      self_(self),
      domain_(control_.domain()),
      facts_(facts),
      seen_(control_.host_count()) {}

Standing Hosts::beat() {
    if (control_.super().magic.load(shm::acquire) != table::superblock_magic || control_.domain() != domain_)
        return Standing::reformatted;
    if (table::is_active(control_, self_)) {
        table::beat(control_, self_);
        return Standing::current;
    }
    const auto now = table::read_host(control_, self_.number);
    const bool ours = now && now->generation == self_.generation && now->phase == table::HostPhase::fenced;
    return ours ? Standing::fenced : Standing::replaced;
}

bool Hosts::leads() const {
    for (std::uint32_t number = 0; number < self_.number; ++number) {
        const auto host = table::read_host(control_, number);
        if (host && host->phase == table::HostPhase::active) return false;
    }
    return true;
}

void Hosts::look_at_others() {
    if (control_.coherence() == table::Coherence::local) return;
    for (std::uint32_t number = 0; number < control_.host_count(); ++number)
        if (number != self_.number) look_at(number);
}

void Hosts::look_at(std::uint32_t number) {
    const auto host = table::read_host(control_, number);
    Seen& seen = seen_[number];
    if (!host) {
        seen = {};
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    const bool news = seen.since == std::chrono::steady_clock::time_point{} || host->beat != seen.beat ||
                      host->generation != seen.generation;
    if (news) seen = {host->beat, host->generation, now};
    switch (host->phase) {
        case table::HostPhase::active:
        case table::HostPhase::joining:
            if (now - seen.since < config_.host.grace || !table::fence_host(control_, *host)) return;
            ++facts_.hosts_fenced;
            spdlog::warn(
                "host {} ('{}') has shown no sign of life for {} s and is fenced: what its clients "
                "published stays, what they held is quarantined until it comes back or is released "
                "(maructl host release {})",
                number, host->facts.name,
                std::chrono::duration_cast<std::chrono::seconds>(config_.host.grace).count(), number);
            break;
        case table::HostPhase::fenced:
            break;
        default:
            return;
    }
    // Again and again: a host that does not know yet may have given out another slot, and who fenced it may
    // have died before this.
    facts_.swept.add(table::quarantine_clients_of(worker_, number));
}

void Hosts::leave(bool clients_left) {
    if (!clients_left) (void)table::leave_host(control_, self_);
}

}  // namespace maru::daemon
