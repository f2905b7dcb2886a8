#include "daemon/remake.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "base/size.hpp"
#include "daemon/offline.hpp"
#include "table/regions.hpp"

namespace maru::daemon {
namespace {

ExitCode failed(ExitCode exit, const std::string& text) {
    std::cerr << "maru: " << text << '\n';
    return exit;
}

std::uint64_t published_objects(const table::Control& control) {
    std::uint64_t objects = 0;
    for (std::uint32_t number = 0; number < control.region_count(); ++number) {
        const auto region = table::read_region(control, number);
        if (!region) continue;
        const auto pages = table::count_pages(control, *region);
        for (int phase = 0; phase < table::phase_count; ++phase)
            if (table::is_live(static_cast<table::Phase>(phase))) objects += pages.of[phase];
    }
    return objects;
}

struct Found {
    OfflineDomain domain;
    std::string loss;  // empty: nothing is there
};

/// Locks the pools and looks at what is in them, without making or changing any.
Result<Found> look(const Config& config, const std::vector<pool::PoolConfig>& pools, ExitCode* exit) {
    auto opened = open_offline(config, pools, exit);
    if (!opened) return opened.error();
    Found found{std::move(*opened), {}};
    const auto& domain = found.domain;
    for (std::size_t p = 0; p < domain.pools.size(); ++p) {
        const auto& there = domain.pools[p].config;
        if (there.size == 0) continue;
        found.loss += (found.loss.empty() ? "" : "; ") + there.path + " (" + format_size(there.size) + ")";
        if (p != 0 || !domain.pools[p].pool) continue;  // what cannot be opened is named by its path alone
        if (domain.control)
            found.loss += " with " + std::to_string(published_objects(*domain.control)) +
                          " objects of domain " + domain.control->domain().text();
        else if (domain.head.fault)
            found.loss += ", " + domain.head.fault->text;
    }
    return found;
}

/// 0: yes. Anything else: the exit code, said already.
ExitCode consent(const Found& found, const char* verb, bool yes) {
    if (!found.domain.user.empty())
        return failed(ExitCode::failure, std::string("not ") + verb + ": " + found.domain.user +
                                             " still uses the domain; end it first");
    if (found.loss.empty() || yes) return ExitCode::clean;
    std::cerr << "maru: this loses " << found.loss << '\n';
    if (::isatty(STDIN_FILENO) == 0)
        return failed(ExitCode::bad_config, std::string("not ") + verb + ": say -y if that is meant");
    std::cerr << "Go on? [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    if (answer == "y" || answer == "Y" || answer == "yes") return ExitCode::clean;
    return failed(ExitCode::failure, std::string("not ") + verb);
}

/// Deletes the files of the pools that are there; false with a sentence when one resists.
Result<void> delete_files(const std::vector<pool::PoolConfig>& pools) {
    for (const auto& pool : pools) {
        if (pool.kind == pool::Kind::devdax) {
            auto opened = pool::open(pool);
            if (!opened) return opened.error();
            if (const auto done = (*opened)->remove(); !done) return done;
            continue;
        }
        if (pool.path.empty()) continue;
        if (::unlink(pool.path.c_str()) != 0 && errno != ENOENT)
            return Error{Code::denied, "cannot delete " + pool.path + ": " + std::strerror(errno)};
    }
    return {};
}

/// And the pools that were added to it at run time, with their locks.
Result<void> delete_added(OfflineDomain* domain, std::size_t configured) {
    std::vector<pool::PoolConfig> added;
    for (std::size_t p = configured; p < domain->pools.size(); ++p)
        added.push_back(domain->pools[p].config);
    if (auto done = delete_files(added); !done) return done;
    for (std::size_t p = configured; p < domain->locks.size(); ++p)
        domain->locks[p].remove();
    return {};
}

/// Files of another size than the config's make way; the others keep their memory.
Result<void> make_way(const std::vector<pool::PoolConfig>& pools) {
    std::vector<pool::PoolConfig> other_size;
    for (const auto& pool : pools) {
        const auto bytes = pool::existing_bytes(pool);
        if (bytes && *bytes != pool.size && pool.kind != pool::Kind::devdax) other_size.push_back(pool);
    }
    return delete_files(other_size);
}

/// Of a domain that hosts share one host formats the memory; the header it wrote stops every other.
Result<void> check_first_formatter(const Config& config, const std::vector<pool::PoolConfig>& pools) {
    if (config.control.coherence == table::Coherence::local) return {};
    for (const auto& pool : pools) {
        if (pool.kind != pool::Kind::devdax) continue;
        const auto opened = pool::open(pool);
        if (!opened) continue;  // named when it is opened for the format
        const auto& device = (*opened)->facts().device;
        if (!device || device->domain.empty()) continue;
        return Error{Code::denied,
                     "not formatted: " + (*opened)->path() + " (" + device->uuid.text() +
                         ") belongs to domain " + device->domain.text() +
                         ", which another host may serve: start the daemon to join it, or run maructl "
                         "device clear " +
                         (*opened)->path() + " first if its content may go"};
    }
    return {};
}

}  // namespace

ExitCode format_anew(const Config& config, bool yes, bool force) {
    const auto pools = located_pools(config);
    ExitCode exit = ExitCode::clean;
    auto found = look(config, pools, &exit);
    if (!found) return failed(exit, found.error().text);
    if (exit = consent(*found, "formatted", yes); exit != ExitCode::clean) return exit;
    if (auto alone = check_first_formatter(config, pools); !alone)
        return failed(ExitCode::no_pool, alone.error().text);
    if (auto free = make_way(pools); !free) return failed(ExitCode::no_pool, free.error().text);
    Domain domain;
    for (const auto& pool : pools) {
        auto opened = pool::open(pool);
        if (!opened) return failed(ExitCode::no_pool, opened.error().text);
        domain.pools.push_back(std::move(*opened));
    }
    if (auto free = check_unheld(domain.pools); !free && !force)
        return failed(ExitCode::no_pool, free.error().text);
    if (auto done = format_domain(config, &domain); !done)
        return failed(ExitCode::bad_config, done.error().text);
    if (auto gone = delete_added(&found->domain, pools.size()); !gone)
        return failed(ExitCode::no_pool, gone.error().text);
    std::cout << "formatted domain " << domain.control->domain().text() << '\n';
    return ExitCode::clean;
}

ExitCode remove_domain(const Config& config, bool yes) {
    const auto pools = located_pools(config);
    ExitCode exit = ExitCode::clean;
    auto found = look(config, pools, &exit);
    if (!found) return failed(exit, found.error().text);
    if (exit = consent(*found, "removed", yes); exit != ExitCode::clean) return exit;
    if (auto gone = delete_added(&found->domain, pools.size()); !gone)
        return failed(ExitCode::failure, gone.error().text);
    if (auto done = delete_files(pools); !done) return failed(ExitCode::failure, done.error().text);
    for (auto& lock : found->domain.locks)
        lock.remove();
    std::cout << (found->loss.empty() ? "nothing to remove" : "removed " + found->loss) << '\n';
    return ExitCode::clean;
}

}  // namespace maru::daemon
