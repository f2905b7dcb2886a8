#include "pool/numa_placement.hpp"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#ifdef MARU_WITH_NUMA
#include <numa.h>
#include <numaif.h>
#endif

#include "base/size.hpp"
#include "pool/file_pool.hpp"

namespace maru::pool {

std::string text_of_nodes(const std::vector<std::uint32_t>& nodes) {
    std::string text = nodes.size() == 1 ? "node " : "nodes ";
    for (std::size_t i = 0; i < nodes.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(nodes[i]);
    return text;
}

std::uint64_t available_in(const std::string& meminfo) {
    // Node 0 MemFree:         1234 kB
    std::uint64_t bytes = 0;
    std::istringstream lines(meminfo);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string node, number, name;
        std::uint64_t kilobytes = 0;
        if (!(words >> node >> number >> name >> kilobytes)) continue;
        if (name == "MemFree:" || name == "Active(file):" || name == "Inactive(file):")
            bytes += kilobytes * KiB;
    }
    return bytes;
}

#ifndef MARU_WITH_NUMA

bool has_placement() {
    return false;
}

Result<void> bind_memory(int, const PoolConfig& config, std::uint64_t) {
    return refused(config,
                   "this build cannot place memory on a NUMA node (built without libnuma): remove "
                   "[[pool]] numa_node");
}

Result<void> describe_placement(int, const PoolConfig&, std::uint64_t, PoolFacts*) {
    return {};
}

#else

namespace {

constexpr std::uint64_t samples_max = 1024;

bool has_memory(std::uint32_t node) {
    return node <= static_cast<std::uint32_t>(numa_max_node()) &&
           numa_node_size64(static_cast<int>(node), nullptr) > 0;
}

std::string nodes_with_memory() {
    std::vector<std::uint32_t> nodes;
    for (std::uint32_t node = 0; node <= static_cast<std::uint32_t>(numa_max_node()); ++node)
        if (has_memory(node)) nodes.push_back(node);
    return text_of_nodes(nodes);
}

std::uint64_t available_on(std::uint32_t node) {
    std::ifstream in("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
    std::ostringstream text;
    text << in.rdbuf();
    return available_in(text.str());
}

int mode_of(Placement placement) {
    switch (placement) {
        case Placement::bind:
            return MPOL_BIND;
        case Placement::preferred:
            return MPOL_PREFERRED;
        case Placement::interleave:
            return MPOL_INTERLEAVE;
    }
    return MPOL_BIND;
}

Result<void> check_nodes(int descriptor, const PoolConfig& config) {
    if (numa_available() < 0)
        return refused(config, "this kernel has no NUMA policies: remove [[pool]] numa_node");
    std::uint64_t free = 0;
    for (const auto node : config.numa_nodes) {
        if (!has_memory(node))
            return refused(config, "NUMA node " + std::to_string(node) + " has no memory here (there is in " +
                                       nodes_with_memory() + "): set [[pool]] numa_node to one that has");
        free += available_on(node);
    }
    if (config.placement == Placement::preferred && config.numa_nodes.size() > 1)
        return refused(config, "placement \"preferred\" takes one node, [[pool]] numa_node names " +
                                   text_of_nodes(config.numa_nodes));
    struct stat status {};
    if (config.kind == Kind::hugetlb || !config.reserve || config.placement != Placement::bind ||
        ::fstat(descriptor, &status) != 0)
        return {};
    const auto taken = std::uint64_t{512} * static_cast<std::uint64_t>(status.st_blocks);
    if (config.size <= taken || config.size - taken <= free) return {};
    return Error{Code::full, "pool '" + config.name + "': NUMA " + text_of_nodes(config.numa_nodes) +
                                 " has " + format_size(free) + " free, " + format_size(config.size) +
                                 " are needed: lower [[pool]] size, or set placement = \"preferred\""};
}

/// How many of some pages, spread evenly, lie on which node; negative numbers are errors of the kernel's.
Result<std::map<int, std::uint64_t> > sample_nodes(const shm::Mapping& mapping, std::uint64_t alignment) {
    const std::uint64_t pages = mapping.size() / alignment;
    const std::uint64_t step = std::max<std::uint64_t>(1, pages / samples_max);
    std::vector<void*> samples;
    for (std::uint64_t page = 0; page < pages; page += step) {
        auto* at = mapping.data() + page * alignment;
        (void)*static_cast<volatile std::byte*>(at);  // a page that this process does not map has no answer
        samples.push_back(at);
    }
    std::vector<int> nodes(samples.size(), -1);
    if (::move_pages(0, samples.size(), samples.data(), nullptr, nodes.data(), 0) != 0)
        return Error{Code::unavailable, strerror(errno)};
    std::map<int, std::uint64_t> counts;
    for (const int node : nodes)
        ++counts[node];
    return counts;
}

}  // namespace

bool has_placement() {
    return true;
}

Result<void> bind_memory(int descriptor, const PoolConfig& config, std::uint64_t alignment) {
    if (const auto checked = check_nodes(descriptor, config); !checked) return checked;
    const std::string what = "pool '" + config.name + "'";
    auto mapping = shm::Mapping::map(descriptor, 0, config.size, what.c_str(), alignment);
    if (!mapping) return mapping.error();
    bitmask* mask = numa_allocate_nodemask();
    for (const auto node : config.numa_nodes)
        numa_bitmask_setbit(mask, node);
    // The policy of a shared mapping belongs to the file and stays with it.
    const long failed =
        ::mbind(mapping->data(), mapping->size(), mode_of(config.placement), mask->maskp, mask->size + 1, 0);
    const int reason = errno;
    numa_free_nodemask(mask);
    if (failed != 0)
        return Error{reason == EPERM ? Code::denied : Code::unavailable,
                     what + ": its memory cannot be placed on NUMA " + text_of_nodes(config.numa_nodes) +
                         ": " + strerror(reason) +
                         (reason == EPERM ? "; the container's seccomp profile may forbid mbind" : "")};
    return {};
}

Result<void> describe_placement(int descriptor, const PoolConfig& config, std::uint64_t alignment,
                                PoolFacts* facts) {
    const std::string asked =
        "NUMA " + text_of_nodes(config.numa_nodes) + " (" + name_of(config.placement) + ")";
    if (!config.reserve) {
        facts->description += ", " + asked + " at first use";
        return {};
    }
    const std::string what = "pool '" + config.name + "'";
    auto mapping = shm::Mapping::map(descriptor, 0, config.size, what.c_str(), alignment);
    if (!mapping) return mapping.error();
    const auto counts = sample_nodes(*mapping, alignment);
    if (!counts) {
        facts->description += ", " + asked + ", not read back";
        facts->warnings.push_back(
            what + ": " + asked +
            " is asked for, where its pages lie cannot be read: " + counts.error().text);
        return {};
    }
    std::uint64_t there = 0, all = 0;
    std::string elsewhere;
    for (const auto& [node, count] : *counts) {
        all += count;
        const bool wanted =
            node >= 0 && std::find(config.numa_nodes.begin(), config.numa_nodes.end(),
                                   static_cast<std::uint32_t>(node)) != config.numa_nodes.end();
        if (wanted)
            there += count;
        else
            elsewhere += (elsewhere.empty() ? "" : ", ") + std::to_string(count) +
                         (node >= 0 ? " on node " + std::to_string(node) : " nowhere");
    }
    const std::string got =
        std::to_string(there) + " of " + std::to_string(all) + " pages looked at lie there";
    facts->description += ", " + asked + ": " + got;
    if (there != all)
        facts->warnings.push_back(what + ": " + asked + " is asked for, only " + got + " (" + elsewhere +
                                  "): memory that was taken before stays where it is, make the pool anew "
                                  "with --format to move it");
    return {};
}

#endif

}  // namespace maru::pool
