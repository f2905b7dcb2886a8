// The daemon's own place in the control region.
#include <unistd.h>

#include "base/size.hpp"
#include "daemon/server.hpp"

namespace maru::daemon {
namespace {

table::ClientFacts own_facts() {
    table::ClientFacts facts;
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

/// 128 bits of a text, for the host entry.
void store_text_id(table::Word64 (&words)[2], const std::string& text) {
    std::uint64_t halves[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};  // FNV-1a, over two offsets
    for (const char letter : text)
        for (auto& half : halves)
            half = (half ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
    for (int h = 0; h < 2; ++h)
        words[h].store(halves[h], shm::relaxed);
}

/// Writes this host's entry; true when it was last written before the machine was restarted.
bool enter_host(const table::Control& control, const Config& config) {
    auto& host = control.host(0);
    const BootId boot = own_boot_id();
    const bool was_used = host.state.load(shm::relaxed) != 0;
    const BootId before{{host.boot_id[0].load(shm::relaxed), host.boot_id[1].load(shm::relaxed)}};
    store_text_id(host.host_id, host_id_of(config));
    for (int h = 0; h < 2; ++h)
        host.boot_id[h].store(boot.halves[h], shm::relaxed);
    host.daemon_generation.fetch_add(1, shm::relaxed);
    host.state.store(1, shm::release);  // pairs with nobody yet: one host
    return was_used && before != BootId{} && boot != BootId{} && !(before == boot);
}

/// A slot for this daemon. When clients and dead daemons fill the table, a dead daemon's slot is freed: this
/// process holds the domain's lock, so every daemon slot belongs to the dead.
Result<table::Identity> take_own_slot(const table::Control& control) {
    auto identity = table::open_client(control, own_facts());
    for (std::uint32_t slot = 1; !identity && slot < control.client_count(); ++slot) {
        const auto view = table::read_client(control, slot);
        if (!view || !view->facts.is_daemon) continue;
        (void)table::declare_dead(control, view->identity);
        // The worker borrows the dead identity for its own sweep: both have the same slot and generation.
        table::Worker worker(control, view->identity);
        (void)table::sweep_dead(worker, view->identity);
        identity = table::open_client(control, own_facts());
    }
    return identity;
}

}  // namespace

std::string host_id_of(const Config& config) {
    if (!config.daemon.host_id.empty()) return config.daemon.host_id;
    if (std::string id = first_line("/etc/machine-id"); !id.empty()) return id;
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? std::string(name)
                                                                     : std::string("localhost");
}

Result<table::Identity> enter_domain(const table::Control& control, const Config& config, bool* rebooted) {
    *rebooted = enter_host(control, config);
    auto identity = take_own_slot(control);
    if (!identity) return identity;
    if (!table::activate_client(control, *identity))
        return Error{Code::contended, "client slot " + std::to_string(identity->slot) +
                                          " of the daemon was taken away while it started"};
    // Relaxed: clients that still read the former daemon's policy evict once more or once less.
    const auto policy =
        config.eviction.policy == "none" ? table::EvictionPolicy::none : table::EvictionPolicy::clock;
    control.super().eviction.store(static_cast<std::uint64_t>(policy), shm::relaxed);
    control.super().daemon.store(identity->holder_word(), shm::release);  // read by tools and checks
    control.super().daemon_generation.fetch_add(1, shm::relaxed);
    return identity;
}

}  // namespace maru::daemon
