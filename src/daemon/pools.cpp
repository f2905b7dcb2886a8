#include "daemon/pools.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault_point.hpp"
#include "base/size.hpp"
#include "daemon/config_check.hpp"
#include "daemon/kept_pools.hpp"
#include "pool/devices.hpp"
#include "pool/holders.hpp"
#include "table/regions.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds drain_beat{200}, drain_slice{5};
constexpr std::chrono::seconds device_beat{2};
constexpr int looks_after_change = 3;

bool is_symbolic(const pool::PoolConfig& config) {
    return config.kind == pool::Kind::devdax &&
           (config.path == "any" || config.path.compare(0, 5, "uuid:") == 0);
}

bool same_device(const std::string& one, const std::string& other) {
    struct stat first {
    }, second{};
    return one == other || (::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
                            S_ISCHR(first.st_mode) && first.st_rdev == second.st_rdev);
}

/// Deletes what is left of a pool of an earlier daemon: a regular file of this user's, nothing else.
void delete_rest(const std::string& path) {
    struct stat status {};
    if (path.empty() || path.front() != '/' || ::lstat(path.c_str(), &status) != 0) return;
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
        spdlog::warn("{} was the file of a pool that was being taken away, and is not this user's: it stays",
                     path);
        return;
    }
    if (::unlink(path.c_str()) != 0)
        spdlog::warn("cannot delete {}, the file of a pool that was taken away: {}", path,
                     std::strerror(errno));
}

/// The file of a pool that was being added or removed; empty for a device.
std::string rest_of(const table::PoolView& pool) {
    if (pool.kind == static_cast<std::uint32_t>(pool::Kind::devdax)) return {};
    if (pool.state != table::PoolState::joining) return pool.source;
    auto source = parse_pool_argument(pool.source, pool.number);
    if (!source || source->config.kind == pool::Kind::devdax) return {};
    source->config.name = pool.name;
    return pool::located(source->config).path;
}

/// A pool that was made here for nothing.
void forget_new(pool::Pool& pool) {
    if (pool.is_new() && pool.kind() != pool::Kind::devdax) (void)pool.remove();
}

}  // namespace

Pools::~Pools() {
    parts_.loop.cancel(draining_);
    parts_.loop.cancel(looking_);
    beside_.wait();
    if (!joining_) return;
    if (opened_) forget_new(**opened_);
    table::undo_join(control_, joining_->number);
    unlock(joining_->config);
}

// -- what clients are told

std::vector<wire::PoolDescription> Pools::describe() const {
    std::vector<wire::PoolDescription> list;
    for (std::uint32_t p = 0; p < parts_.domain.pools.size(); ++p) {
        if (!parts_.domain.pools[p]) continue;
        const auto& pool = *parts_.domain.pools[p];
        wire::PoolDescription description;
        description.uuid = uuid_of_pool(control_, p);
        description.kind = static_cast<std::uint32_t>(pool.kind());
        description.name = pool.name();
        description.path = pool.path();
        description.bytes = pool.size();
        description.alignment = pool.alignment();
        description.offset = pool.offset();
        list.push_back(std::move(description));
    }
    return list;
}

std::vector<Descriptor> Pools::descriptors() const {
    std::vector<Descriptor> list;
    for (const auto& pool : parts_.domain.pools)
        if (pool) list.emplace_back(::fcntl(pool->descriptor(), F_DUPFD_CLOEXEC, 0));
    return list;
}

void Pools::send_list(Session& session, std::uint32_t request) const {
    session.send(wire::encode_frame(request, wire::PoolList{describe()}), descriptors());
}

void Pools::tell_clients() const {
    parts_.each_client([this](Session& session) { send_list(session, 0); });
}

// -- adding

bool Pools::is_open(const pool::PoolConfig& config) const {
    for (std::size_t p = 0; p < parts_.domain.pools.size(); ++p) {
        const auto& pool = parts_.domain.pools[p];
        if (!pool) continue;
        const bool same = config.kind == pool::Kind::devdax
                              ? pool->kind() == pool::Kind::devdax && same_device(pool->path(), config.path)
                              : pool->name() == config.name;
        if (same) return true;
    }
    return false;
}

Result<void> Pools::lock(const pool::PoolConfig& config) {
    const std::string path = lock_path_of(config);
    for (const auto& held : parts_.domain.locks)
        if (held.path() == path) return {};
    ExitCode exit = ExitCode::clean;
    auto taken = lock_pools({config}, &exit);
    if (!taken) return taken.error();
    taken->front().keep();
    parts_.domain.locks.push_back(std::move(taken->front()));
    return {};
}

void Pools::unlock(const pool::PoolConfig& config) {
    auto& locks = parts_.domain.locks;
    const std::string path = lock_path_of(config);
    const auto found = std::find_if(locks.begin() + 1, locks.end(),  // the first is the domain's
                                    [&](const auto& lock) { return lock.path() == path; });
    if (found == locks.end()) return;
    found->remove();
    locks.erase(found);
}

/// The memory behind an entry that is joining.
Result<void> Pools::enter(const Joining& joining, std::unique_ptr<pool::Pool> pool) {
    const auto& [number, config] = joining;
    const auto view = table::read_pool(control_, number);
    if (!view || pool->size() != view->bytes) {
        forget_new(*pool);
        return Error{Code::invalid, "pool '" + config.name + "' is " + format_size(pool->size()) + ", " +
                                        format_size(config.size) + " was asked for"};
    }
    if (pool->kind() == pool::Kind::devdax) {
        pool::DeviceHeader header;
        header.uuid = view->uuid;
        header.domain = control_.domain();
        header.size = pool->size();
        header.region_size = control_.region_unit();
        header.role = pool::DeviceRole::data;
        if (auto written = pool->enter_domain(header); !written) return written;
    }
    pool->rename(config.name);
    for (const auto& warning : pool->facts().warnings)
        spdlog::warn("{}", warning);
    auto& domain = parts_.domain;
    if (domain.pools.size() <= number) domain.pools.resize(number + 1);
    if (domain.configs.size() <= number) domain.configs.resize(number + 1);
    domain.pools[number] = std::move(pool);
    domain.configs[number] = config;
    return {};
}

Result<std::uint32_t> Pools::add(const pool::PoolConfig& wanted, const std::string& source) {
    const auto joining = begin_add(wanted, source);
    if (!joining) return joining.error();
    return end_add(*joining, open_pool(joining->config));
}

/// Everything that can be refused without memory, and the entry.
Result<Pools::Joining> Pools::begin_add(const pool::PoolConfig& wanted, const std::string& source) {
    if (control_.coherence() != table::Coherence::local)
        return Error{Code::denied,
                     "pool '" + wanted.name + "': this domain is shared by hosts (coherence " +
                         table::name_of(control_.coherence()) +
                         "), and only a local one takes pools while it is served: write it into the "
                         "config and make the domain anew with --format"};
    pool::PoolConfig config = pool::located(wanted);
    if (is_absent_device(config))
        return Error{Code::unavailable, "pool '" + config.name + "': there is no device \"" + config.path +
                                            "\" here (maructl device list)"};
    for (std::uint32_t p = 0; p < control_.pool_count(); ++p) {
        const auto other = table::read_pool(control_, p);
        if (other && other->state != table::PoolState::removed && other->name == config.name)
            return Error{Code::invalid, "pool name '" + config.name + "' is taken (" +
                                            table::name_of(other->state) + "): `maructl pools` lists them"};
    }
    if (is_open(config))
        return Error{Code::invalid, "pool '" + config.name + "': " + config.path + " is in use already"};
    // What a death in here leaves is deleted: so it must not have been there before.
    if (!source.empty() && config.kind != pool::Kind::devdax && pool::existing_bytes(config).value_or(0) != 0)
        return Error{Code::invalid,
                     "pool '" + config.name + "': " + config.path +
                         " exists already: delete it if its content may go, or take another name"};
    table::NewPool made;
    made.kind = static_cast<std::uint32_t>(config.kind);
    made.name = config.name;
    made.source = source;
    made.bytes = config.size;
    made.uuid = Uuid::random();
    if (auto locked = lock(config); !locked) return locked.error();
    const auto give_up = [&](Error error) {
        unlock(config);
        return error;
    };
    if (config.kind == pool::Kind::devdax) {
        const auto device = pool::open(config);
        if (!device) return give_up(device.error());
        const auto& header = (*device)->facts().device;
        if (header && !header->domain.empty() && header->domain != control_.domain())
            return give_up(
                Error{Code::denied, "pool '" + config.name + "': " + config.path + " (" +
                                        header->uuid.text() + ") belongs to domain " + header->domain.text() +
                                        ": free it with maructl device clear if its content may go"});
        if (const auto holders = pool::holders_of((*device)->descriptor()); !holders.empty())
            return give_up(Error{Code::denied, "pool '" + config.name + "': " + config.path +
                                                   " is in use by " + pool::text_of(holders) +
                                                   ", which would lose what it has there: end it first"});
        if (header && !header->uuid.empty()) made.uuid = header->uuid;
        made.bytes = (*device)->size();
        config.path = (*device)->path();
    }
    const auto number = table::join_pool(control_, made);
    if (!number) return give_up(number.error());
    return Joining{*number, std::move(config)};
}

Result<std::uint32_t> Pools::end_add(const Joining& joining, OpenedPool opened) {
    const auto& [number, config] = joining;
    const auto entered = opened ? enter(joining, std::move(*opened)) : Result<void>(opened.error());
    if (!entered) {
        table::undo_join(control_, number);
        unlock(config);
        return entered.error();
    }
    tell_clients();
    fault_point("pool.told");
    (void)table::activate_pool(control_, number);
    const auto& pool = *parts_.domain.pools[number];
    parts_.prefault.add(number, pool, config);
    spdlog::info("pool '{}' of {} was added{}", config.name, format_size(pool.size()),
                 config.path.empty() ? "" : " at " + config.path);
    return number;
}

// -- taking away

Result<std::uint32_t> Pools::named(const std::string& name) const {
    std::string known;
    for (std::uint32_t p = 0; p < control_.pool_count(); ++p) {
        const auto pool = table::read_pool(control_, p);
        if (!pool || !table::is_live(pool->state)) continue;
        if (pool->name == name) return p;
        known += (known.empty() ? "" : ", ") + pool->name;
    }
    return Error{Code::unavailable, "there is no pool \"" + name + "\": there is " + known};
}

Result<void> Pools::may_leave(std::uint32_t number) const {
    const std::string name = control_.pool(number).name.get();
    if (control_.coherence() != table::Coherence::local)
        return Error{Code::denied, "pool '" + name + "' is used by several hosts (coherence " +
                                       table::name_of(control_.coherence()) +
                                       "): only a local domain gives up pools while it is served"};
    if (number == 0)
        return Error{Code::invalid,
                     "pool '" + name + "' carries the control region: it stays as long as the domain does"};
    return {};
}

void Pools::drain_on() {
    draining_ = 0;
    bool any = false;
    const Deadline deadline = deadline_after(drain_slice);
    for (std::uint32_t p = 0; p < control_.pool_count(); ++p) {
        const auto pool = table::read_pool(control_, p);
        if (!pool || pool->state != table::PoolState::draining) continue;
        any = true;
        if (MonotonicClock::now() >= deadline) continue;
        const std::uint32_t from =
            drain_from_ >= pool->first_unit && drain_from_ - pool->first_unit < pool->unit_count ? drain_from_
                                                                                                 : 0;
        drain_from_ = table::drain_pass(parts_.worker, p, from, false, deadline).value_or(0);
    }
    if (any) draining_ = parts_.loop.after(drain_beat, [this] { drain_on(); });
}

Result<Pools::Removal> Pools::remove(std::uint32_t number, bool evict) {
    if (auto allowed = may_leave(number); !allowed) return allowed.error();
    Removal removal;
    if (control_.pool(number).state.load(shm::relaxed) ==
            static_cast<std::uint32_t>(table::PoolState::active) &&
        !evict && table::content_of(control_, number).regions != 0)
        return removal;  // said by the caller, with what is in it
    (void)table::begin_drain(parts_.worker, number);
    const auto next =
        table::drain_pass(parts_.worker, number, evict_from_, evict, deadline_after(2 * drain_slice));
    evict_from_ = next.value_or(0);
    removal.pass_is_over = !next;
    if (draining_ == 0) draining_ = parts_.loop.after(drain_beat, [this] { drain_on(); });
    if (table::leave_pool(control_, number, parts_.domain.pools[number]->path())) {
        finish_removal(number);
        removal.removed = true;
    }
    return removal;
}

/// Of an entry that is leaving: clients let go of it, its file goes, its device is free for another domain.
void Pools::finish_removal(std::uint32_t number) {
    auto& pool = parts_.domain.pools[number];
    const auto config = parts_.domain.configs[number];
    const std::string name = pool->name();
    parts_.prefault.forget(number);
    if (auto gone = pool->remove(); !gone) spdlog::warn("pool '{}': {}", name, gone.error().text);
    fault_point("pool.file_gone");
    if (pool->facts().ends_with_holder) forget_pool(config);
    pool.reset();
    unlock(config);
    table::finish_leaving(control_, number);
    std::erase_if(parts_.config.pools, [&](const auto& listed) { return listed.name == name; });
    tell_clients();
    spdlog::info("pool '{}' was removed; its memory goes as clients let go of it", name);
}

// -- taking over, and what the config says

void Pools::take_over() {
    if (control_.coherence() != table::Coherence::local) return;
    const auto begun = table::take_over_pools(
        parts_.worker, [](const table::PoolView& pool) { delete_rest(rest_of(pool)); });
    for (const auto& pool : begun) {
        if (pool.state == table::PoolState::joining)  // what the config lists is added again below
            spdlog::warn("pool '{}' was being added when the daemon ended: that is undone", pool.name);
        else if (pool.state == table::PoolState::leaving)
            spdlog::info("pool '{}' was being removed when the daemon ended: that is finished", pool.name);
        else if (draining_ == 0)
            draining_ = parts_.loop.after(drain_beat, [this] { drain_on(); });
    }
    for (const auto& [name, reason] : rescan().refused)
        spdlog::warn("pool '{}' of the config is not used: {}", name, reason);
}

void Pools::start() {
    if (!names_devices() || control_.coherence() != table::Coherence::local) return;
    devices_ = pool::devices_now();
    looking_ = parts_.loop.after(device_beat, [this] { look_for_devices(); });
}

bool Pools::names_devices() const {
    return std::any_of(parts_.config.pools.begin(), parts_.config.pools.end(), is_symbolic);
}

/// Names and drivers every two seconds; the devices themselves are touched when that has changed.
void Pools::look_for_devices() {
    auto now = pool::devices_now();
    if (now != devices_) looks_left_ = looks_after_change;
    devices_ = std::move(now);
    if (looks_left_ > 0) {
        --looks_left_;
        tell_of_gone_devices();
        for (const auto& [name, reason] : rescan().refused)
            spdlog::warn("pool '{}' of the config is not used: {}", name, reason);
    }
    looking_ = parts_.loop.after(device_beat, [this] { look_for_devices(); });
}

void Pools::tell_of_gone_devices() {
    const auto devices = pool::list_devices();
    gone_.resize(parts_.domain.pools.size());
    for (std::size_t p = 0; p < gone_.size(); ++p) {
        const auto& pool = parts_.domain.pools[p];
        struct stat status {};
        if (!pool || pool->kind() != pool::Kind::devdax || ::fstat(pool->descriptor(), &status) != 0)
            continue;
        const bool gone = std::none_of(devices.begin(), devices.end(), [&](const pool::DaxDevice& device) {
            return device.number == status.st_rdev && device.mode == pool::DeviceMode::devdax;
        });
        if (gone == gone_[p]) continue;
        gone_[p] = gone;
        if (gone)
            spdlog::warn(
                "pool '{}': its device {} was disabled or has gone; what lies there cannot be read: end maru "
                "and its "
                "clients, bring it back (daxctl enable-device), and start them again; or drain the pool",
                pool->name(), pool->path());
        else
            spdlog::warn(
                "pool '{}': its device {} is back, but not for who had it before: restart maru and its "
                "clients",
                pool->name(), pool->path());
    }
}

/// Adds what the config lists and the domain does not have.
Pools::Rescan Pools::rescan() {
    Rescan result;
    if (parts_.config.embedded_default) return result;
    for (const auto& wanted : parts_.config.pools) {
        for (const auto& config : pool::located_all(wanted)) {
            if (is_absent_device(config)) continue;
            pool::PoolConfig found = config;
            if (is_symbolic(config)) {
                const auto uuid = Uuid::parse(config.path.substr(5));
                const auto path = uuid ? pool::find_device(*uuid) : Result<std::string>(uuid.error());
                if (!path) continue;
                found.path = *path;
            }
            if (is_open(found)) continue;
            std::optional<table::PoolView> before;
            std::optional<Uuid> uuid;
            if (found.kind == pool::Kind::devdax)
                if (const auto device = pool::open(found); device && (*device)->facts().device)
                    uuid = (*device)->facts().device->uuid;
            for (std::uint32_t p = 1; p < control_.pool_count(); ++p) {
                auto view = table::read_pool(control_, p);
                if (view && view->state == table::PoolState::removed && !view->uuid.empty() &&
                    (uuid ? view->uuid == *uuid : view->name == found.name))
                    before = std::move(view);
            }
            if (before && wanted.path == "any") continue;  // taken away by name: "any" does not bring it back
            const auto added = add(found, "");
            if (!added) {
                result.refused.emplace_back(found.name, added.error().text);
                continue;
            }
            if (before)
                spdlog::warn(
                    "pool '{}' was removed at run time, and the config still lists it: it is back; take it "
                    "out of the config if it is to stay away",
                    found.name);
            result.added.push_back(found.name);
        }
    }
    return result;
}

void Pools::take_config(const Config& fresh) {
    if (fresh.embedded_default) return;
    if (parts_.config.embedded_default) return;  // said by apply_changes
    for (const auto& pool : fresh.pools) {
        const bool known = std::any_of(parts_.config.pools.begin(), parts_.config.pools.end(),
                                       [&](const auto& other) { return other.name == pool.name; });
        if (!known) parts_.config.pools.push_back(pool);
    }
    if (looking_ == 0) start();
    const auto result = rescan();
    for (const auto& [name, reason] : result.refused)
        spdlog::warn("pool '{}' of the config is not added: {}", name, reason);
}

}  // namespace maru::daemon
