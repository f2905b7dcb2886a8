// What each kind of pool takes from the config, and what pools must not share.
#include <algorithm>

#include "base/size.hpp"
#include "daemon/config_check.hpp"
#include "daemon/config_keys.hpp"

namespace maru::daemon {
namespace {

using pool::Kind;

bool is_symbolic(const std::string& path) {
    return path == "any" || path.compare(0, 5, "uuid:") == 0;
}

/// How a pool of this kind is written on the command line.
const char* example_of(Kind kind) {
    switch (kind) {
        case Kind::devdax:
            return "write devdax:/dev/dax0.0, devdax:uuid:UUID or devdax:any";
        case Kind::fsdax:
            return "write fsdax:FOLDER:SIZE, for example fsdax:/mnt/pmem:64GiB";
        case Kind::hugetlb:
            return "write hugetlb:PAGE:SIZE, for example hugetlb:2MiB:8GiB";
        case Kind::numa:
            return "write numa:NODE:SIZE, for example numa:2:64GiB";
        case Kind::shm:
            break;
    }
    return "write shm:NAME:SIZE, for example shm:main:1GiB";
}

Result<void> read_what(const std::string& what, pool::PoolConfig* config) {
    switch (config->kind) {
        case Kind::shm:
            config->name = what;
            return pool::check_name(what);
        case Kind::hugetlb: {
            const auto size = parse_size(what);
            if (!size) return size.error();
            config->page_size = *size;
            return {};
        }
        case Kind::numa: {
            const auto nodes = parse_nodes(what);
            if (!nodes) return nodes.error();
            config->numa_nodes = *nodes;
            return {};
        }
        default:
            config->path = what;
            return {};
    }
}

/// Keys that only some kinds have.
Result<void> check_keys_of_kind(const PoolSource& source) {
    const auto& config = source.config;
    const std::string kind = pool::name_of(config.kind);
    const bool on_device = config.kind == Kind::devdax || config.kind == Kind::fsdax;
    if (config.page_size != 0 && config.kind != Kind::hugetlb)
        return invalid("page_size is for kind hugetlb, this is kind " + kind + ": remove it");
    if (config.allow_page_cache && config.kind != Kind::fsdax)
        return invalid("allow_page_cache is for kind fsdax, this is kind " + kind + ": remove it");
    if (on_device && !config.numa_nodes.empty())
        return invalid("numa_node is not for kind " + kind +
                       ": the device's memory has its place; remove it");
    if (config.placement != pool::Placement::bind && config.numa_nodes.empty())
        return invalid("placement without numa_node places nothing: set numa_node too, or remove it");
    return {};
}

}  // namespace

Result<std::vector<std::uint32_t>> parse_nodes(const std::string& text) {
    std::vector<std::uint32_t> nodes;
    std::size_t at = 0;
    while (at <= text.size()) {
        const auto end = std::min(text.find(',', at), text.size());
        const std::string part = text.substr(at, end - at);
        if (part.empty() || part.size() > 4 || part.find_first_not_of("0123456789") != std::string::npos)
            return invalid("\"" + text + "\" is no NUMA node: write its number, or several with commas");
        nodes.push_back(static_cast<std::uint32_t>(std::stoul(part)));
        at = end + 1;
    }
    return nodes;
}

Result<void> settle_pool(PoolSource* source, std::size_t position) {
    auto& config = source->config;
    if (config.name.empty()) config.name = pool::name_of(config.kind) + std::to_string(position);
    if (config.kind == Kind::hugetlb) {
        if (source->origins.count("hugepages") == 0) config.huge_pages = pool::HugePages::require;
        if (config.page_size == 0) config.page_size = pool::hugetlb_page_default;
    }
    if (config.kind == Kind::numa && config.numa_nodes.empty())
        return invalid("this [[pool]] has no numa_node: kind numa requires it");
    if (config.kind == Kind::devdax && config.path.empty())
        return invalid(
            "this [[pool]] has no path: kind devdax requires one, /dev/daxX.Y, \"uuid:...\" or \"any\"");
    if (config.kind == Kind::fsdax && config.path.empty())
        return invalid("this [[pool]] has no path: kind fsdax requires a folder on a mount with dax");
    if (config.kind != Kind::devdax && is_symbolic(config.path))
        return invalid("path \"" + config.path + "\" is for kind devdax: write an absolute path");
    if (config.kind != Kind::devdax && config.size == 0)
        return invalid("this [[pool]] has no size: size is required");
    return check_keys_of_kind(*source);
}

Result<PoolSource> parse_pool_argument(const std::string& argument, std::size_t position) {
    const auto bad = [&](const std::string& text) { return invalid("--pool " + argument + ": " + text); };
    const auto first = argument.find(':');
    const auto kind = pool::parse_kind(argument.substr(0, first));
    if (!kind) return bad(kind.error().text);
    if (!pool::is_built(*kind))
        return bad(std::string("kind ") + pool::name_of(*kind) +
                   " is not in this build (available: " + pool::built_kinds() + ")");
    PoolSource source;
    source.where = command_line_origin;
    source.config.kind = *kind;
    const bool sized = *kind != Kind::devdax;
    const auto last = sized ? argument.rfind(':') : argument.size();
    if (first == std::string::npos || first == last || first + 1 == last) return bad(example_of(*kind));
    const auto what = read_what(argument.substr(first + 1, last - first - 1), &source.config);
    if (!what) return bad(what.error().text);
    if (sized) {
        const auto size = parse_size(argument.substr(last + 1));
        if (!size) return bad(size.error().text);
        if (*size < 4 * KiB) return bad("size " + std::to_string(*size) + " is below 4 KiB");
        source.config.size = *size;
    }
    const bool is_path = *kind == Kind::devdax || *kind == Kind::fsdax;
    if (is_path && source.config.path.front() != '/' && !is_symbolic(source.config.path))
        return bad("\"" + source.config.path + "\" is no absolute path: " + example_of(*kind));
    if (const auto settled = settle_pool(&source, position); !settled) return bad(settled.error().text);
    return source;
}

Result<void> add_pools(Config& config, const std::vector<PoolSource>& pools) {
    if (pools.size() > table::max_pools)
        return invalid(pools[table::max_pools].where + ": this is one pool too many, a domain has at most " +
                       std::to_string(table::max_pools));
    std::erase_if(config.origins,
                  [](const auto& origin) { return origin.first.compare(0, 5, "pool.") == 0; });
    config.pools.clear();
    for (const auto& source : pools) {
        const std::string path = pool::located(source.config).path;
        for (std::size_t other = 0; other < config.pools.size(); ++other) {
            const auto& earlier = config.pools[other];
            if (earlier.name == source.config.name)
                return invalid(source.where + ": pool name '" + earlier.name + "' is taken by the pool of " +
                               pools[other].where + ": give each pool a name of its own");
            if (!path.empty() && pool::located(earlier).path == path)
                return invalid(source.where + ": pool '" + source.config.name + "' has the file " + path +
                               " of pool '" + earlier.name + "' (" + pools[other].where +
                               "): give each pool a path of its own");
        }
        config.pools.push_back(source.config);
        config.origins["pool." + source.config.name] = source.where;
        for (const auto& [key, where] : source.origins)
            config.origins["pool." + source.config.name + "." + key] = where;
    }
    return {};
}

}  // namespace maru::daemon
