#include "daemon/offline.hpp"

#include "daemon/life.hpp"
#include "daemon/process.hpp"

namespace maru::daemon {
namespace {

FoundPool find_pool(const pool::PoolConfig& wanted) {
    FoundPool found;
    found.config = wanted;
    found.config.size = pool::existing_bytes(wanted).value_or(0);
    if (found.config.size == 0) return found;
    found.config.prefault = pool::Prefault::none;
    found.config.reserve = wanted.kind == pool::Kind::hugetlb;  // a look takes no memory; there it has all
    auto opened = pool::open(found.config);
    if (opened)
        found.pool = std::move(*opened);
    else
        found.fault = opened.error();
    return found;
}

/// The machine was restarted since the domain was last served: no process of that time lives.
bool was_rebooted(const table::Control& control) {
    const auto& host = control.host(0);
    const BootId before{{host.boot_id[0].load(shm::relaxed), host.boot_id[1].load(shm::relaxed)}},
        now = own_boot_id();
    return before != BootId{} && now != BootId{} && before != now;
}

std::string living_client(const LockFile& lock, const std::optional<table::Control>& control) {
    const bool rebooted = control && was_rebooted(*control);
    for (std::uint32_t slot = 1; control && slot < control->client_count(); ++slot) {
        const auto view = table::read_client(*control, slot);
        if (!view || view->facts.is_daemon || view->phase == table::ClientPhase::dead) continue;
        if (rebooted && !lock.held(slot)) continue;
        const Life life = life_of(lock, *view);
        if (life == Life::lives) return text_of_client(view->facts);
        if (life == Life::unknown) return text_of_client(view->facts) + ", whose end nothing proves,";
    }
    // Whatever the table says: a lock is dropped by the kernel alone.
    return lock.held(1, table::max_clients - 1) ? "a process that holds a client's lock" : std::string();
}

}  // namespace

Result<OfflineDomain> open_offline(const std::vector<pool::PoolConfig>& pools, ExitCode* exit) {
    OfflineDomain domain;
    auto locks = lock_pools(pools, exit);
    if (!locks) return locks.error();
    domain.locks = std::move(*locks);
    for (const auto& pool : pools)
        domain.pools.push_back(find_pool(pool));
    if (const auto& first = domain.pools.front().pool)
        domain.head = look_at_head(*first, &domain.mapping, &domain.control);
    domain.client = living_client(domain.locks.front(), domain.control);
    return domain;
}

}  // namespace maru::daemon
