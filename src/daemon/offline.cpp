#include "daemon/offline.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "daemon/config_check.hpp"
#include "daemon/life.hpp"
#include "daemon/own_host.hpp"
#include "table/pools.hpp"

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

/// What was found is the pool of this entry: the device of its UUID, or a file of its size, not a link to
/// one.
bool is_pool_of(const FoundPool& found, const table::PoolView& view) {
    if (!found.pool || static_cast<std::uint32_t>(found.pool->kind()) != view.kind) return false;
    if (found.pool->kind() == pool::Kind::devdax) {
        const auto& device = found.pool->facts().device;
        return device && device->uuid == view.uuid;
    }
    struct stat status {};
    return found.pool->size() == view.bytes && ::lstat(found.config.path.c_str(), &status) == 0 &&
           S_ISREG(status.st_mode);
}

/// Takes in the pools that were added at run time and that no config lists: their entries say where they are.
/// One that is not there as its entry says is left out; who needs it says so.
Result<void> find_added(OfflineDomain* domain, ExitCode* exit) {
    for (std::uint32_t p = 1; p < domain->control->pool_count(); ++p) {
        const auto view = table::read_pool(*domain->control, p);
        if (!view || !table::is_live(view->state) || view->source.empty()) continue;
        const auto source = parse_pool_argument(view->source, p);
        if (!source) continue;
        auto config = source->config;
        config.name = view->name;
        config = pool::located(config);
        const bool known = std::any_of(domain->pools.begin(), domain->pools.end(), [&](const auto& other) {
            return other.config.name == config.name ||
                   (!config.path.empty() && other.config.path == config.path);
        });
        if (known) continue;
        auto locks = lock_pools({config}, exit);
        if (!locks) return locks.error();
        FoundPool found = find_pool(config);
        if (!is_pool_of(found, *view)) continue;
        domain->locks.push_back(std::move(locks->front()));
        domain->pools.push_back(std::move(found));
    }
    return {};
}

/// The machine was restarted since this host last served the domain: no process of that time lives.
bool was_rebooted(const table::HostView& was, const table::HostFacts& now) {
    const auto known = [](const table::HostFacts& facts) { return (facts.boot[0] | facts.boot[1]) != 0; };
    return known(was.facts) && known(now) && !was.facts.same_boot(now);
}

/// A client of this host that lives or might, a client of another host, or nobody.
std::string living_client(const LockFile& lock, const Config& config, const table::Control& control) {
    const table::HostFacts own = own_host(config);
    const auto host = table::find_host(control, own);
    const bool rebooted = host && was_rebooted(*host, own);
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const auto view = table::read_client(control, slot);
        if (!view || view->facts.is_daemon || view->phase == table::ClientPhase::dead) continue;
        const auto other = table::read_host(control, view->facts.host);
        if (other && !other->facts.same_id(own))  // its processes cannot be seen from here
            return "'" + view->facts.instance_id + "' of host '" + other->facts.name +
                   "' (if that is gone for good: maructl host release)";
        if (rebooted && !lock.held(slot)) continue;
        const Life life = life_of(lock, *view);
        if (life == Life::lives) return text_of_client(view->facts);
        if (life == Life::unknown) return text_of_client(view->facts) + ", whose end nothing proves,";
    }
    return {};
}

/// Another host whose daemon may serve the domain.
std::string living_host(const Config& config, const table::Control& control) {
    if (control.coherence() == table::Coherence::local) return {};
    const table::HostFacts own = own_host(config);
    for (std::uint32_t number = 0; number < control.host_count(); ++number) {
        const auto host = table::read_host(control, number);
        if (!host || host->phase != table::HostPhase::active || host->facts.same_id(own)) continue;
        const auto moves = beats_within(control, *host, config.host.grace);
        if (!moves || *moves) return "host '" + host->facts.name + "'";
    }
    return {};
}

std::string user_of(const LockFile& lock, const Config& config,
                    const std::optional<table::Control>& control) {
    std::string user = control ? living_client(lock, config, *control) : std::string();
    if (user.empty() && control) user = living_host(config, *control);
    if (!user.empty()) return user;
    // Whatever the table says: a lock is dropped by the kernel alone.
    return lock.held(1, table::max_clients - 1) ? "a process that holds a client's lock" : std::string();
}

}  // namespace

Result<OfflineDomain> open_offline(const Config& config, const std::vector<pool::PoolConfig>& pools,
                                   ExitCode* exit) {
    OfflineDomain domain;
    auto locks = lock_pools(pools, exit);
    if (!locks) return locks.error();
    domain.locks = std::move(*locks);
    for (const auto& pool : pools)
        domain.pools.push_back(find_pool(pool));
    if (const auto& first = domain.pools.front().pool)
        domain.head = look_at_head(*first, &domain.mapping, &domain.control);
    if (domain.control)
        if (auto added = find_added(&domain, exit); !added) return added.error();
    domain.user = user_of(domain.locks.front(), config, domain.control);
    return domain;
}

}  // namespace maru::daemon
