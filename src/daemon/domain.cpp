#include "daemon/domain.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "base/size.hpp"
#include "daemon/config_check.hpp"
#include "pool/devices.hpp"
#include "pool/holders.hpp"
#include "table/pools.hpp"

namespace maru::daemon {
namespace {

constexpr std::uint64_t head_bytes = 4096;

std::uint64_t mapped_length(const pool::Pool& pool, std::uint64_t bytes) {
    return std::min(round_up(bytes, pool.alignment()), pool.size());
}

Result<void> open_pools(const std::vector<pool::PoolConfig>& configs, const OpenPool& open, Domain* domain) {
    for (const auto& config : configs) {
        auto opened = open(config);
        if (!opened) return opened.error();
        for (const auto& warning : (*opened)->facts().warnings)
            domain->warnings.push_back(warning);
        domain->pools.push_back(std::move(*opened));
        domain->configs.push_back(config);
    }
    return {};
}

Uuid uuid_of(const table::PoolEntry& entry) {
    Uuid uuid;
    for (std::size_t i = 0; i < uuid.bytes.size(); ++i)
        uuid.bytes[i] = static_cast<std::uint8_t>(entry.uuid[i / 8].load(shm::relaxed) >> (8 * (i % 8)));
    return uuid;
}

/// A device is known by the UUID in its header, anything else by the name in the config.
bool is_pool_of(const pool::Pool& pool, const table::PoolEntry& entry) {
    if (pool.kind() != pool::Kind::devdax) return pool.name() == entry.name.get();
    return pool.facts().device && pool.facts().device->uuid == uuid_of(entry);
}

struct Opened {
    std::unique_ptr<pool::Pool> pool;
    pool::PoolConfig config;
};

Result<void> check_same(const pool::Pool& pool, const table::PoolView& view) {
    if (static_cast<std::uint32_t>(pool.kind()) == view.kind && pool.size() == view.bytes) return {};
    return Error{Code::invalid, "pool '" + view.name + "' is " + format_size(pool.size()) + " of kind " +
                                    pool::name_of(pool.kind()) + ", the domain was formatted with " +
                                    format_size(view.bytes) + " of kind " +
                                    pool::name_of(static_cast<pool::Kind>(view.kind)) +
                                    ": set [[pool]] as it was, or make the domain anew with --format"};
}

/// A pool that was added at run time and is in no config: its entry says where it is.
Result<Opened> open_by_source(const table::PoolView& view, const OpenPool& open, Domain* domain,
                              ExitCode* exit) {
    auto source = parse_pool_argument(view.source, view.number);
    if (!source)
        return Error{source.error().code, "pool '" + view.name +
                                              "' was added at run time, and its entry reads \"" +
                                              view.source + "\": " + source.error().text};
    Opened made;
    made.config = source->config;
    made.config.name = view.name;
    made.config = pool::located(made.config);
    auto locks = lock_pools({made.config}, exit);
    if (!locks) return locks.error();
    *exit = ExitCode::no_pool;
    auto opened = open(made.config);
    if (!opened) return opened.error();
    domain->locks.push_back(std::move(locks->front()));
    made.pool = std::move(*opened);
    return made;
}

/// One entry of the control region and the pool that the config, or the entry itself, has for it.
Result<Opened> take_pool_for(const table::PoolView& view, const OpenPool& open, Domain* domain,
                             ExitCode* exit) {
    const auto& entry = domain->control->pool(view.number);
    for (std::size_t p = 0; p < domain->pools.size(); ++p) {
        auto& pool = domain->pools[p];
        if (!pool || !is_pool_of(*pool, entry)) continue;
        pool->rename(view.name);
        if (const auto same = check_same(*pool, view); !same) return same.error();
        return Opened{std::move(pool), domain->configs[p]};
    }
    const bool is_device = view.kind == static_cast<std::uint32_t>(pool::Kind::devdax);
    if (const auto here = is_device ? pool::find_device(view.uuid) : Result<std::string>(""); !here)
        return Error{here.error().code, "pool '" + view.name + "' of " + format_size(view.bytes) +
                                            " belongs to the domain: " + here.error().text};
    if (view.source.empty())
        return Error{Code::invalid,
                     "pool '" + view.name + "' of " + format_size(view.bytes) +
                         " belongs to the domain and is not in the config: add it as [[pool]], or make the "
                         "domain anew with --format"};
    auto opened = open_by_source(view, open, domain, exit);
    if (!opened) return opened;
    if (const auto same = check_same(*opened->pool, view); !same) return same.error();
    return opened;
}

/// Brings the pools into the order of the domain's entries. Those it does not know are closed: in a local
/// domain the server adds them (pools.hpp), else a warning says so.
Result<void> match_pools(const OpenPool& open, Domain* domain, ExitCode* exit) {
    std::vector<std::unique_ptr<pool::Pool>> matched;
    std::vector<pool::PoolConfig> configs;
    const auto& control = *domain->control;
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        const auto view = table::read_pool(control, p);
        if (!view || !table::is_live(view->state)) continue;
        auto taken = take_pool_for(*view, open, domain, exit);
        if (!taken) return taken.error();
        matched.resize(p + 1);
        configs.resize(p + 1);
        matched[p] = std::move(taken->pool);
        configs[p] = std::move(taken->config);
    }
    for (const auto& pool : domain->pools)
        if (pool && control.coherence() != table::Coherence::local)
            domain->warnings.push_back(
                "pool '" + pool->name() + "' of " + format_size(pool->size()) +
                " is not part of the domain and is not used: make the domain anew with "
                "--format to take it in");
    domain->pools = std::move(matched);
    domain->configs = std::move(configs);
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

/// The header of each device says what this domain knows; one that does already is not written.
Result<void> write_headers(const Domain& domain) {
    const auto& control = *domain.control;
    for (std::uint32_t p = 0; p < domain.pools.size(); ++p) {
        if (!domain.pools[p]) continue;
        auto& pool = *domain.pools[p];
        if (pool.kind() != pool::Kind::devdax) continue;
        pool::DeviceHeader header;
        header.uuid = uuid_of_pool(control, p);
        header.domain = control.domain();
        header.size = pool.size();
        header.region_size = control.region_unit();
        header.role = p == 0 ? pool::DeviceRole::control : pool::DeviceRole::data;
        if (pool.facts().device == header) continue;
        if (const auto written = pool.enter_domain(header); !written) return written;
    }
    return {};
}

/// Brings the device that carries the control region to the front, where "any" found several.
void put_control_first(Domain* domain) {
    for (std::size_t p = 1; p < domain->pools.size(); ++p) {
        const auto& first = domain->pools.front()->facts().device;
        const auto& device = domain->pools[p]->facts().device;
        if (domain->pools.front()->kind() != pool::Kind::devdax ||
            (first && first->role == pool::DeviceRole::control) || !device ||
            device->role != pool::DeviceRole::control)
            continue;
        std::swap(domain->pools.front(), domain->pools[p]);
        std::swap(domain->configs.front(), domain->configs[p]);
        std::swap(domain->locks.front(), domain->locks[p]);
    }
}

/// The kernel keeps its own page descriptors on this pool's device.
bool has_page_descriptors(const pool::Pool& pool, const std::vector<pool::DaxDevice>& devices) {
    struct stat status {};
    if (pool.kind() != pool::Kind::devdax || ::fstat(pool.descriptor(), &status) != 0) return false;
    return std::any_of(devices.begin(), devices.end(), [&](const pool::DaxDevice& device) {
        return device.number == status.st_rdev && device.pages_on_device;
    });
}

/// Where hosts share a device, no kernel may keep its own data on it.
Result<void> check_page_descriptors(const Domain& domain, table::Coherence coherence) {
    if (coherence == table::Coherence::local) return {};
    const auto devices = pool::list_devices();
    for (const auto& pool : domain.pools)
        if (has_page_descriptors(*pool, devices))
            return Error{
                Code::invalid,
                "pool '" + pool->name() + "': the kernel keeps its page descriptors on " + pool->path() +
                    " itself (namespace with --map=dev), and control.coherence is \"" + name_of(coherence) +
                    "\": hosts would overwrite each other's kernel data. Make the namespace anew with "
                    "ndctl create-namespace -m devdax --map=mem"};
    return {};
}

/// A device of another domain, or with a header that says too little, is not ours to use.
Result<void> check_headers(const Domain& domain) {
    for (const auto& pool : domain.pools) {
        const auto& device = pool->facts().device;
        if (!device) continue;
        if (device->version < pool::device_header_version)
            return Error{Code::version,
                         "pool '" + pool->name() + "': " + pool->path() + " (" + device->uuid.text() +
                             ") has a header of version " + std::to_string(device->version) +
                             ", which says nothing of what is on it: maru --format writes version " +
                             std::to_string(pool::device_header_version) + " and keeps the UUID"};
        if (device->domain.empty() || !domain.control || device->domain == domain.control->domain()) continue;
        return Error{Code::denied, "pool '" + pool->name() + "': " + pool->path() + " (" +
                                       device->uuid.text() + ") belongs to domain " + device->domain.text() +
                                       ", this is " + domain.control->domain().text() +
                                       ": remove it from the config, or free it with maructl device clear"};
    }
    return {};
}

Result<void> attach_or_format(const Config& config, const OpenPool& open, Domain* domain, ExitCode* exit) {
    put_control_first(domain);
    const auto& first = domain->pools.front()->facts();
    Head head;
    // A blank device may have old content behind its head: it is of no domain.
    if (first.kind == pool::Kind::devdax && first.is_new)
        head.blank = true;
    else
        head = look_at_head(*domain->pools.front(), &domain->mapping, &domain->control);
    if (const auto checked = check_headers(*domain); !checked) {
        *exit = ExitCode::no_pool;
        return checked;
    }
    std::string reason;
    *exit = ExitCode::no_pool;
    switch (decide(head, config.control.coherence, false, &reason)) {
        case Decision::refuse:
            return Error{head.fault ? head.fault->code : Code::damaged,
                         "pool '" + domain->pools.front()->name() + "' (" + domain->pools.front()->path() +
                             "): " + reason};
        case Decision::format:
            if (auto free = check_unheld(domain->pools); !free) return free;
            *exit = ExitCode::bad_config;
            return format_domain(config, domain);
        case Decision::attach:
            if (auto alone = check_page_descriptors(*domain, domain->control->coherence()); !alone)
                return alone;
            if (auto matched = match_pools(open, domain, exit); !matched) return matched.error();
            compare_with_config(config, domain);
            return write_headers(*domain);
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
    return uuid_of(control.pool(pool));
}

std::string lock_path_of(const pool::PoolConfig& pool) {
    struct stat status {};
    if (pool.kind == pool::Kind::devdax)  // one lock for all paths of a device
        return "/dev/shm/maru-device-" +
               (::stat(pool.path.c_str(), &status) == 0
                    ? std::to_string(major(status.st_rdev)) + "-" + std::to_string(minor(status.st_rdev))
                    : pool.name) +
               ".lock";
    // A nameless file is found by nobody: what excludes a second daemon is the pool's name.
    return (pool.path.empty() ? pool::default_shm_path(pool.name) : pool.path) + ".lock";
}

std::vector<pool::PoolConfig> located_pools(const Config& config) {
    std::vector<pool::PoolConfig> pools;
    for (const auto& pool : config.pools)
        for (auto& located : pool::located_all(pool))
            pools.push_back(std::move(located));
    return pools;
}

bool is_absent_device(const pool::PoolConfig& config) {
    if (config.kind != pool::Kind::devdax) return false;
    if (config.path == "any") return true;  // located_all found none
    if (config.path.compare(0, 5, "uuid:") != 0) return false;
    const auto uuid = Uuid::parse(config.path.substr(5));
    const auto found = uuid ? pool::find_device(*uuid) : Result<std::string>(uuid.error());
    return !found && found.error().code == Code::unavailable;
}

Result<std::vector<LockFile>> lock_pools(const std::vector<pool::PoolConfig>& pools, ExitCode* exit) {
    std::vector<LockFile> locks;
    // First: who may not open a device, or names it twice, is told that and not what became of its lock.
    if (const auto usable = pool::check_devices(pools); !usable) {
        *exit = ExitCode::no_pool;
        return usable.error();
    }
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

Result<void> check_unheld(const std::vector<std::unique_ptr<pool::Pool>>& pools) {
    for (const auto& pool : pools) {
        if (!pool || pool->kind() != pool::Kind::devdax) continue;
        const auto holders = pool::holders_of(pool->descriptor());
        if (!holders.empty())
            return Error{Code::denied,
                         "pool '" + pool->name() + "': " + pool->path() + " is in use by " +
                             pool::text_of(holders) +
                             ", which would lose what it has there: end it, or, if that is meant, "
                             "run maru --format --force"};
    }
    return {};
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
    if (auto alone = check_page_descriptors(*domain, config.control.coherence); !alone) return alone;
    std::vector<std::uint64_t> sizes;
    for (const auto& pool : domain->pools)
        sizes.push_back(pool->size());
    table::FormatPlan plan = format_plan(config, sizes);
    if (plan.domain.empty()) plan.domain = Uuid::random();
    plan.clients = client_slots(config);
    plan.pools.resize(domain->pools.size());
    for (std::size_t p = 0; p < plan.pools.size(); ++p) {
        auto& entry = plan.pools[p];
        const auto& device = domain->pools[p]->facts().device;
        if (device && !device->uuid.empty()) entry.uuid = device->uuid;
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
    return write_headers(*domain);
}

Result<Domain> open_domain(const Config& config, ExitCode* exit, const OpenPool& open) {
    auto configs = located_pools(config);
    Domain domain;
    // A device that is not there yet is taken when it appears; the control region cannot wait for its own.
    for (std::size_t c = configs.size(); c-- > 1;) {
        if (!is_absent_device(configs[c])) continue;
        domain.warnings.push_back("pool '" + configs[c].name + "': no device is \"" + configs[c].path +
                                  "\" yet; it is taken in when it appears");
        configs.erase(configs.begin() + static_cast<std::ptrdiff_t>(c));
    }
    auto locks = lock_pools(configs, exit);
    if (!locks) return locks.error();
    domain.locks = std::move(*locks);
    *exit = ExitCode::no_pool;
    if (auto opened = open_pools(configs, open, &domain); !opened) return opened.error();
    if (auto ready = attach_or_format(config, open, &domain, exit); !ready) return ready.error();
    for (auto& lock : domain.locks)
        lock.keep();  // clients hold locks in it when this daemon has ended
    *exit = ExitCode::clean;
    return domain;
}

}  // namespace maru::daemon
