// The daemon's own place in the control region.
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/size.hpp"
#include "daemon/hosts.hpp"
#include "daemon/process.hpp"

namespace maru::daemon {
namespace {

table::ClientFacts own_facts(std::uint32_t host) {
    table::ClientFacts facts;
    facts.host = host;
    facts.pid = static_cast<std::uint32_t>(::getpid());
    facts.uid = ::geteuid();
    facts.gid = ::getegid();
    facts.pid_namespace = own_pid_namespace();
    facts.start_time = start_time_of(facts.pid);
    facts.random = random_bits();
    facts.is_daemon = true;
    facts.instance_id = "maru daemon";
    return facts;
}

/// A `local` domain knows one host. One that ended in good order and left no client makes room.
Result<void> check_local(const table::Control& control, const table::HostFacts& own) {
    if (control.coherence() != table::Coherence::local) return {};
    for (std::uint32_t number = 0; number < control.host_count(); ++number) {
        const auto other = table::read_host(control, number);
        if (!other || other->facts.same_id(own)) continue;
        if (other->phase == table::HostPhase::left && table::free_host(control, *other)) continue;
        return Error{
            Code::invalid,
            "domain " + control.domain().text() + " is local to host '" + other->facts.name +
                "', this is host '" + own.name + "'. If both are the same machine, set daemon.host_id = \"" +
                other->facts.name +
                "\"; to share it between hosts, make it anew with control.coherence = \"hardware\" and "
                "maru --format"};
    }
    return {};
}

/// The entry that this host's id has belongs to another boot: a machine that was restarted since, or another
/// machine with the same id.
Result<void> wait_for_silence(const table::Control& control, const Config& config, const table::HostView& was,
                              const table::HostFacts& own) {
    if (was.phase != table::HostPhase::active) return {};
    spdlog::info(
        "host '{}' last served this domain under another boot id: taking its entry over once it has "
        "been silent for {} s",
        own.name, std::chrono::duration_cast<std::chrono::seconds>(config.host.grace).count());
    ::sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%lld",
                 static_cast<long long>(std::chrono::microseconds(config.host.grace).count() + 30'000'000));
    const auto moves = beats_within(control, was, config.host.grace);
    if (!moves) return moves.error();
    if (!*moves) return {};
    return Error{Code::contended,
                 "host id '" + own.name + "' is in use by a machine that lives: its boot id is " +
                     boot_text(was.facts) + ", that of this machine " + boot_text(own) +
                     ". Set daemon.host_id to a name of its own on one of them (cloned machines share a "
                     "machine-id)"};
}

Result<table::HostView> enter_host(const table::Control& control, const Config& config, bool* rebooted) {
    const table::HostFacts own = own_host(config);
    if (auto alone = check_local(control, own); !alone) return alone.error();
    const auto was = table::find_host(control, own);
    if (!was) return table::join_host(control, own);
    const bool known = (was->facts.boot[0] | was->facts.boot[1]) != 0 && (own.boot[0] | own.boot[1]) != 0;
    *rebooted = known && !was->facts.same_boot(own);
    if (*rebooted)
        if (auto silent = wait_for_silence(control, config, *was, own); !silent) return silent.error();
    return table::take_over_host(control, *was, own);
}

/// A slot for this daemon. When clients and dead daemons fill the table, a dead daemon's slot is freed: this
/// process holds the domain's lock on this host, so every daemon slot of this host belongs to the dead.
Result<table::Identity> take_own_slot(const table::Control& control, std::uint32_t host) {
    auto identity = table::open_client(control, own_facts(host));
    for (std::uint32_t slot = 1; !identity && slot < control.client_count(); ++slot) {
        const auto view = table::read_client(control, slot);
        if (!view || !view->facts.is_daemon || view->facts.host != host) continue;
        (void)table::declare_dead(control, view->identity);
        // The worker borrows the dead identity for its own sweep: both have the same slot and generation.
        table::Worker worker(control, view->identity);
        (void)table::sweep_dead(worker, view->identity);
        identity = table::open_client(control, own_facts(host));
    }
    return identity;
}

}  // namespace

Result<Place> enter_domain(const table::Control& control, const Config& config) {
    Place place;
    auto host = enter_host(control, config, &place.rebooted);
    if (!host) return host.error();
    place.host = *host;
    const auto identity = take_own_slot(control, place.host.number);
    if (!identity) return identity.error();
    place.self = *identity;
    if (!table::activate_client(control, *identity))
        return Error{Code::contended, "client slot " + std::to_string(identity->slot) +
                                          " of the daemon was taken away while it started"};
    tell_eviction_policy(control, config);
    control.super().daemon.store(identity->holder_word(), shm::release);  // read by tools and checks
    control.super().daemon_generation.fetch_add(1, shm::relaxed);
    return place;
}

void tell_eviction_policy(const table::Control& control, const Config& config) {
    // Relaxed: clients that still read the former policy evict once more or once less.
    const auto policy =
        config.eviction.policy == "none" ? table::EvictionPolicy::none : table::EvictionPolicy::clock;
    control.super().eviction.store(static_cast<std::uint64_t>(policy), shm::relaxed);
}

}  // namespace maru::daemon
