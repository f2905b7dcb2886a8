#include "pool/pool.hpp"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "pool/devices.hpp"
#include "pool/fsdax_pool.hpp"
#include "pool/hugetlb_pool.hpp"
#include "pool/numa_placement.hpp"
#include "pool/shm_pool.hpp"

namespace maru::pool {
namespace {

constexpr Kind all_kinds[] = {Kind::devdax, Kind::fsdax, Kind::shm, Kind::hugetlb, Kind::numa};

}  // namespace

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::devdax:
            return "devdax";
        case Kind::fsdax:
            return "fsdax";
        case Kind::shm:
            return "shm";
        case Kind::hugetlb:
            return "hugetlb";
        case Kind::numa:
            return "numa";
    }
    return "unknown";
}

const char* name_of(Placement placement) {
    switch (placement) {
        case Placement::bind:
            return "bind";
        case Placement::preferred:
            return "preferred";
        case Placement::interleave:
            return "interleave";
    }
    return "unknown";
}

Result<Kind> parse_kind(const std::string& name) {
    std::string known;
    for (const Kind kind : all_kinds) {
        if (name == name_of(kind)) return kind;
        known += std::string(known.empty() ? "" : ", ") + name_of(kind);
    }
    return Error{Code::invalid, "\"" + name + "\" is not a kind of pool (kinds: " + known + ")"};
}

bool is_built(Kind kind) {
    return kind != Kind::numa || has_placement();
}

std::string built_kinds() {
    std::string built;
    for (const Kind kind : all_kinds)
        if (is_built(kind)) built += std::string(built.empty() ? "" : ", ") + name_of(kind);
    return built;
}

Result<void> check_name(const std::string& name) {
    constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (name.empty()) return Error{Code::invalid, "a pool's name is empty"};
    if (name.size() > name_length_max)
        return Error{Code::invalid, "pool name '" + name.substr(0, 24) + "...' has " +
                                        std::to_string(name.size()) + " characters, at most " +
                                        std::to_string(name_length_max) + " are allowed"};
    if (const auto at = name.find_first_not_of(letters); at != std::string::npos)
        return Error{Code::invalid, "pool name '" + name + "': character " + std::to_string(at + 1) +
                                        " is not allowed (letters, digits, '-', '_' and '.' are)"};
    return {};
}

Result<std::unique_ptr<Pool>> open(const PoolConfig& config, Descriptor kept) {
    if (const auto named = check_name(config.name); !named) return named.error();
    if (!is_built(config.kind))
        return Error{Code::invalid, "pool '" + config.name + "': kind " + name_of(config.kind) +
                                        " is not in this build (available: " + built_kinds() + ")"};
    const PoolConfig wanted = located(config);
    switch (config.kind) {
        case Kind::hugetlb:
            return open_hugetlb(wanted, std::move(kept));
        case Kind::fsdax:
            return open_fsdax(wanted);
        case Kind::devdax:
            return open_devdax(wanted);
        default:
            return open_shm(wanted);
    }
}

PoolConfig located(const PoolConfig& config) {
    PoolConfig found = config;
    struct stat status {};
    switch (config.kind) {
        case Kind::shm:
        case Kind::numa:
            if (config.path.empty()) found.path = default_shm_path(config.name);
            break;
        case Kind::hugetlb:
            if (config.path.empty()) found.path = hugetlb_path(config);
            break;
        case Kind::fsdax:
            if (::stat(config.path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
                found.path = fsdax_path(config);
            break;
        case Kind::devdax:
            break;
    }
    return found;
}

std::vector<PoolConfig> located_all(const PoolConfig& config) {
    std::vector<PoolConfig> found;
    if (config.kind != Kind::devdax || config.path != "any") {
        found.push_back(located(config));
        if (config.kind != Kind::devdax) return found;
        if (const auto path = path_of(config.path)) found[0].path = *path;  // else open() says why not
        return found;
    }
    for (const auto& path : usable_devices()) {
        found.push_back(config);
        found.back().path = path;
        found.back().name += "-" + path.substr(path.rfind('/') + 1);
    }
    if (found.empty()) found.push_back(config);  // open() says that there is none
    return found;
}

std::optional<std::uint64_t> existing_bytes(const PoolConfig& config) {
    if (config.kind == Kind::devdax) {
        PoolConfig whole = config;
        whole.size = 0;
        const auto opened = open_devdax(whole);
        if (!opened) return std::nullopt;
        return (*opened)->size();
    }
    struct stat status {};
    if (::lstat(located(config).path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<std::uint64_t>(status.st_size);
}

std::string default_shm_path(const std::string& name) {
    return "/dev/shm/maru-" + name + "-" + std::to_string(::geteuid());
}

Result<std::uint64_t> free_bytes_of(const std::string& path) {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0)
        return Error{Code::unavailable, "cannot look how much " + path + " has free: " + strerror(errno)};
    return std::uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace maru::pool
