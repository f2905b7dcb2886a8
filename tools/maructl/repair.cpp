// maructl check --repair: only on a domain that nobody uses.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "commands.hpp"
#include "fields.hpp"
#include "offline.hpp"
#include "output.hpp"
#include "table/check.hpp"
#include "table/repair.hpp"

namespace maru::ctl {
namespace {

using Mappings = std::vector<shm::Mapping>;

/// Bytes are read by way of the kernel: a page that memory has lost is an error there, not a signal.
std::optional<std::uint64_t> checksum_of(const Mappings& pools, std::size_t pool, std::uint64_t offset,
                                         std::uint64_t length) {
    if (pool >= pools.size() || offset > pools[pool].size() || length > pools[pool].size() - offset)
        return {};
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    std::vector<std::byte> part(std::min<std::uint64_t>(length, MiB));
    for (std::uint64_t done = 0; done < length;) {
        const iovec to{part.data(), std::min<std::uint64_t>(part.size(), length - done)};
        const iovec from{pools[pool].data() + offset + done, to.iov_len};
        const auto got = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
        if (got <= 0) return {};
        XXH3_64bits_update(&state, part.data(), static_cast<std::size_t>(got));
        done += static_cast<std::uint64_t>(got);
    }
    return XXH3_64bits_digest(&state);
}

/// The pools as they are, mapped in the order of the config.
Result<table::RepairSources> open_sources(const daemon::OfflineDomain& domain, Mappings* mappings) {
    table::RepairSources sources;
    for (const auto& found : domain.pools) {
        if (found.fault) return *found.fault;
        if (!found.pool)
            return Error{Code::unavailable, "pool '" + found.config.name + "' (" + found.config.path +
                                                ") does not exist: a repair needs every pool of the domain"};
        auto mapping = shm::Mapping::map(found.pool->descriptor(), 0, found.pool->size(),
                                         found.config.path.c_str(), found.pool->alignment());
        if (!mapping) return mapping.error();
        mappings->push_back(std::move(*mapping));
        table::PoolPlan plan;
        plan.kind = static_cast<std::uint32_t>(found.pool->kind());
        plan.name = found.pool->name();
        plan.bytes = found.pool->size();
        sources.pools.push_back(std::move(plan));
    }
    sources.checksum_of = [mappings](std::uint32_t pool, std::uint64_t offset, std::uint64_t length) {
        return checksum_of(*mappings, pool, offset, length);
    };
    return sources;
}

/// Why the domain may not be repaired now; empty: it may.
std::string obstacle(const Target& target) {
    if (target.daemon)
        return "a daemon serves the domain on " + target.daemon->socket() +
               ": stop it and every client first";
    if (!target.offline->user.empty()) return target.offline->user + " still uses the domain: end it first";
    return {};
}

Json json_of(const table::RepairReport& report, bool sound) {
    auto lost = Json::array();
    for (const auto& object : report.lost)
        lost.push_back({{"record", object.record},
                        {"key", wire::printable(object.key)},
                        {"key_hex", wire::hex_of(object.key)},
                        {"key_length", object.key_length},
                        {"why", object.why}});
    auto mended = Json::array();
    for (const auto& what : report.mended)
        mended.push_back(wire::printable(what));
    return {{"repaired", true}, {"clean", sound},  {"kept", report.kept}, {"lost_total", report.lost_total},
            {"lost", lost},     {"mended", mended}};
}

void say(const Json& report) {
    std::string lines;
    for (const auto& what : report["mended"])
        lines += what.get<std::string>() + "\n";
    for (const auto& object : report["lost"])
        lines += "lost: " + (text(object, "key").empty() ? "an object" : text(object, "key")) + " (record " +
                 count(object, "record") + "): " + text(object, "why") + "\n";
    const auto total = number(report, "lost_total");
    if (total > report["lost"].size())
        lines += "... and " + std::to_string(total - report["lost"].size()) + " more objects\n";
    print(lines + "repaired: " + count(report, "kept") + " objects kept, " + std::to_string(total) +
          " lost; " +
          (report["clean"].get<bool>() ? "the control region is sound\n"
                                       : "findings are left, see maructl check\n"));
}

int refuse(const Options& options, const std::string& why) {
    if (options.json) print(Json{{"repaired", false}, {"clean", false}, {"refused", why}}.dump(2) + "\n");
    complain("not repaired: " + why);
    return exit_no;
}

}  // namespace

int run_repair(const Options& options, const Where& where) {
    auto target = find_target(options, where);
    if (!target) return fail(target.error(), exit_cannot);
    if (const auto why = obstacle(*target); !why.empty()) return refuse(options, why);
    auto& domain = *target->offline;
    if (domain.control && table::look(*domain.control).findings_total == 0) {
        if (options.json)
            print(Json{{"repaired", false}, {"clean", true}}.dump(2) + "\n");
        else
            print("clean: there is nothing to repair\n");
        return exit_done;
    }
    if (domain.head.blank) {
        complain(target->path + ": no domain was formatted here");
        return exit_cannot;
    }
    Mappings mappings;
    const auto sources = open_sources(domain, &mappings);
    if (!sources) return fail(sources.error(), exit_cannot);
    const auto report = table::repair(mappings.front().bytes(), *sources);
    if (!report) return refuse(options, target->path + ": " + report.error().text);
    const auto control = table::Control::attach(mappings.front().bytes());
    const bool sound = control && table::look(*control).findings_total == 0;
    const Json json = json_of(*report, sound);
    if (options.json)
        print(json.dump(2) + "\n");
    else
        say(json);
    return sound ? exit_done : exit_no;
}

}  // namespace maru::ctl
