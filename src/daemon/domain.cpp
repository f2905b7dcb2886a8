#include "daemon/domain.hpp"

#include <algorithm>

#include "base/size.hpp"

namespace maru::daemon {
namespace {

constexpr std::uint64_t head_bytes = 4096;

std::uint64_t mapped_length(const pool::Pool& pool, std::uint64_t bytes) {
    return std::min(round_up(bytes, pool.alignment()), pool.size());
}

bool is_active(const table::PoolEntry& entry) {
    return entry.state.load(shm::relaxed) != static_cast<std::uint32_t>(table::PoolState::none) &&
           entry.state.load(shm::relaxed) != static_cast<std::uint32_t>(table::PoolState::removed);
}

Result<void> open_pools(const std::vector<pool::PoolConfig>& configs, const OpenPool& open, Domain* domain) {
    for (const auto& config : configs) {
        auto opened = open(config);
        if (!opened) return opened.error();
        for (const auto& warning : (*opened)->facts().warnings)
            domain->warnings.push_back(warning);
        domain->pools.push_back(std::move(*opened));
    }
    return {};
}

/// One entry of the control region and the pool that the config has for it.
Result<std::unique_ptr<pool::Pool>> take_pool_for(const table::PoolEntry& entry, Domain* domain) {
    const std::string name = entry.name.get();
    const std::uint64_t bytes = entry.bytes.load(shm::relaxed);
    for (auto& pool : domain->pools) {
        if (!pool || pool->name() != name) continue;
        if (static_cast<std::uint32_t>(pool->kind()) != entry.kind.load(shm::relaxed) ||
            pool->size() != bytes)
            return Error{Code::invalid,
                         "pool '" + name + "' is " + format_size(pool->size()) + " of kind " +
                             pool::name_of(pool->kind()) + ", the domain was formatted with " +
                             format_size(bytes) + " of kind " +
                             pool::name_of(static_cast<pool::Kind>(entry.kind.load(shm::relaxed))) +
                             ": set [[pool]] as it was, or make the domain anew with --format"};
        return std::move(pool);
    }
    return Error{Code::invalid,
                 "pool '" + name + "' of " + format_size(bytes) +
                     " belongs to the domain and is not in the config: add it as [[pool]], or make the "
                     "domain anew with --format"};
}

/// Brings the pools into the order of the domain's entries; those it does not know stay out with a warning.
Result<void> match_pools(Domain* domain) {
    std::vector<std::unique_ptr<pool::Pool>> matched;
    const auto& control = *domain->control;
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        if (!is_active(control.pool(p))) continue;
        auto taken = take_pool_for(control.pool(p), domain);
        if (!taken) return taken.error();
        matched.push_back(std::move(*taken));
    }
    for (const auto& pool : domain->pools)
        if (pool)
            domain->warnings.push_back(
                "pool '" + pool->name() + "' of " + format_size(pool->size()) +
                " is not part of the domain and is not used: make the domain anew with "
                "--format to take it in");
    domain->pools = std::move(matched);
    return {};
}

std::uint32_t daemons_of(const Config& config) {
    return daemon_slots(config.control.coherence, config.control.max_hosts);
}

/// Without slot 0, which names nobody.
std::uint32_t client_slots(const Config& config) {
    return std::min(config.control.max_clients + daemons_of(config), table::max_clients - 1);
}

void compare(Domain* domain, const char* key, std::uint64_t wanted, std::uint64_t formatted) {
    if (wanted == formatted) return;
    domain->warnings.push_back(std::string(key) + " is " + std::to_string(wanted) +
                               " in the config, the domain was "
                               "formatted with " +
                               std::to_string(formatted) +
                               ", which stays in force: make the domain anew with --format to change it");
}

/// Says where the config wants something else than what was formatted.
void compare_with_config(const Config& config, Domain* domain) {
    const auto& control = *domain->control;
    if (config.control.region_size != 0)
        compare(domain, "control.region_size", config.control.region_size, control.region_unit());
    if (config.control.max_objects != 0)
        compare(domain, "control.max_objects",
                round_up(config.control.max_objects, table::records_per_granule),
                control.record_count() - table::records_per_granule);
    compare(domain, "control.max_clients", client_slots(config) - daemons_of(config),
            slots_for_clients(control));
    compare(domain, "control.coherence", static_cast<std::uint32_t>(config.control.coherence),
            static_cast<std::uint32_t>(control.coherence()));
    compare(domain, "checksum.mode", static_cast<std::uint32_t>(config.checksum.mode),
            static_cast<std::uint32_t>(control.checksum_mode()));
}

Result<void> attach_or_format(const Config& config, Domain* domain, ExitCode* exit) {
    const Head head = look_at_head(*domain->pools.front(), &domain->mapping, &domain->control);
    std::string reason;
    *exit = ExitCode::no_pool;
    switch (decide(head, config.control.coherence, false, &reason)) {
        case Decision::refuse:
            return Error{head.fault ? head.fault->code : Code::damaged,
                         "pool '" + domain->pools.front()->name() + "' (" + domain->pools.front()->path() +
                             "): " + reason};
        case Decision::format:
            *exit = ExitCode::bad_config;
            return format_domain(config, domain);
        case Decision::attach:
            if (auto matched = match_pools(domain); !matched) return matched.error();
            compare_with_config(config, domain);
            return {};
    }
    return {};
}

}  // namespace

Decision decide(const Head& head, table::Coherence wanted, bool asked, std::string* reason) {
    if (asked) return Decision::format;
    if (head.blank) {
        if (wanted == table::Coherence::local) return Decision::format;
        *reason =
            "the memory is blank, and control.coherence is not local: another host may be about to use it; "
            "format it on one host with maru --format";
        return Decision::refuse;
    }
    if (!head.fault) return Decision::attach;
    *reason = head.fault->text +
              "; nothing was changed. If its content may go, make the domain anew with maru "
              "--format";
    return Decision::refuse;
}

Uuid uuid_of_pool(const table::Control& control, std::uint32_t pool) {
    Uuid uuid;
    for (std::size_t i = 0; i < uuid.bytes.size(); ++i)
        uuid.bytes[i] =
            static_cast<std::uint8_t>(control.pool(pool).uuid[i / 8].load(shm::relaxed) >> (8 * (i % 8)));
    return uuid;
}

std::string lock_path_of(const pool::PoolConfig& pool) {
    // A nameless file is found by nobody: what excludes a second daemon is the pool's name.
    return (pool.path.empty() ? pool::default_shm_path(pool.name) : pool.path) + ".lock";
}

std::vector<pool::PoolConfig> located_pools(const Config& config) {
    std::vector<pool::PoolConfig> pools;
    for (const auto& pool : config.pools)
        pools.push_back(pool::located(pool));
    return pools;
}

Result<std::vector<LockFile>> lock_pools(const std::vector<pool::PoolConfig>& pools, ExitCode* exit) {
    std::vector<LockFile> locks;
    for (const auto& pool : pools) {
        const std::string path = lock_path_of(pool);
        bool busy = false;
        auto lock = LockFile::take(path, &busy);
        if (!lock) {
            *exit = busy ? ExitCode::owned : ExitCode::no_pool;
            if (!busy) return lock.error();
            return Error{lock.error().code, "another daemon owns pool '" + pool.name + "' (" + pool.path +
                                                "): " + lock.error().text +
                                                "; stop it, or name another pool"};
        }
        locks.push_back(std::move(*lock));
    }
    return locks;
}

Head look_at_head(const pool::Pool& pool, shm::Mapping* mapping, std::optional<table::Control>* control) {
    Head head;
    auto first = pool.map(0, mapped_length(pool, head_bytes), "control region");
    if (!first) {
        head.fault = first.error();
        return head;
    }
    head.blank = table::Control::is_blank(first->bytes());
    if (head.blank) return head;
    const auto* super = shm::table_at<table::Superblock>(first->bytes(), 0, 1);
    // Not checked yet: the mapping is cut to the pool's size, and attach compares the rest.
    const std::uint64_t told = super == nullptr ? 0 : super->control_bytes.load(shm::relaxed);
    const std::uint64_t bytes = std::clamp<std::uint64_t>(told, head_bytes, pool.size());
    auto whole = pool.map(0, mapped_length(pool, bytes), "control region");
    if (!whole) {
        head.fault = whole.error();
        return head;
    }
    auto attached = table::Control::attach(whole->bytes());
    if (!attached) {
        head.fault = attached.error();
        return head;
    }
    *mapping = std::move(*whole);
    control->emplace(std::move(*attached));
    return head;
}

Result<void> format_domain(const Config& config, Domain* domain) {
    std::vector<std::uint64_t> sizes;
    for (const auto& pool : domain->pools)
        sizes.push_back(pool->size());
    table::FormatPlan plan = format_plan(config, sizes);
    if (plan.domain.empty()) plan.domain = Uuid::random();
    plan.clients = client_slots(config);
    plan.pools.resize(domain->pools.size());
    for (std::size_t p = 0; p < plan.pools.size(); ++p) {
        auto& entry = plan.pools[p];
        if (entry.uuid.empty()) entry.uuid = Uuid::random();
        entry.kind = static_cast<std::uint32_t>(domain->pools[p]->kind());
        entry.name = domain->pools[p]->name();
        entry.bytes = domain->pools[p]->size();
    }
    const auto planned = table::plan_control(plan);
    if (!planned) return planned.error();
    const auto& control_pool = *domain->pools.front();
    auto mapping = control_pool.map(0, mapped_length(control_pool, planned->control_bytes), "control region");
    if (!mapping) return mapping.error();
    auto control = table::Control::format(mapping->bytes(), plan);
    if (!control) return control.error();
    domain->mapping = std::move(*mapping);
    domain->control.emplace(std::move(*control));
    domain->formatted = true;
    return {};
}

Result<Domain> open_domain(const Config& config, ExitCode* exit, const OpenPool& open) {
    const auto configs = located_pools(config);
    Domain domain;
    auto locks = lock_pools(configs, exit);
    if (!locks) return locks.error();
    domain.locks = std::move(*locks);
    *exit = ExitCode::no_pool;
    if (auto opened = open_pools(configs, open, &domain); !opened) return opened.error();
    if (auto ready = attach_or_format(config, &domain, exit); !ready) return ready.error();
    for (auto& lock : domain.locks)
        lock.keep();  // clients hold locks in it when this daemon has ended
    *exit = ExitCode::clean;
    return domain;
}

}  // namespace maru::daemon
