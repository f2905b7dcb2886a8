#include "daemon/config.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/log.hpp"
#include "base/size.hpp"
#include "daemon/config_check.hpp"

namespace maru::daemon {
namespace {

constexpr std::uint64_t file_bytes_max = MiB;
constexpr std::uint64_t default_pool_max = GiB;
constexpr std::uint64_t default_pool_min = 16 * MiB;

/// "FILE:LINE: " of a value that has one.
std::string prefix(const Config& config, const std::string& key) {
    const auto found = config.origins.find(key);
    return found == config.origins.end() ? "" : found->second + ": ";
}

Result<std::string> read_file(const std::string& file) {
    const auto failed = [&](const std::string& reason) {
        return Error{errno == EACCES ? Code::denied : Code::unavailable,
                     "cannot read the config " + file + ": " + reason};
    };
    const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!descriptor || ::fstat(descriptor.get(), &status) != 0) return failed(strerror(errno));
    if (!S_ISREG(status.st_mode))
        return invalid("cannot read the config " + file + ": it is no regular file");
    std::string text;
    std::array<char, 4096> part{};
    while (text.size() <= file_bytes_max) {
        const ssize_t got = ::read(descriptor.get(), part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed(strerror(errno));
        if (got == 0) return text;
        text.append(part.data(), static_cast<std::size_t>(got));
    }
    return invalid("the config " + file + " is larger than " + format_size(file_bytes_max));
}

/// One pool that fits, of the size that its file has if there is one.
Result<void> add_default_pool(Config& config) {
    pool::PoolConfig made;
    made.name = "default";
    const auto there = pool::existing_bytes(made);
    if (there && *there > 0) {
        made.size = *there;
    } else {
        const auto free = pool::free_bytes_of("/dev/shm");
        if (!free) return free.error();
        made.size = round_down(std::min(default_pool_max, *free / 4), 2 * MiB);
        if (made.size < default_pool_min)
            return Error{Code::full, "/dev/shm has " + format_size(*free) +
                                         " free, a quarter of it is too little for a " + "default pool (" +
                                         format_size(default_pool_min) +
                                         " at least): free some of it, or configure a [[pool]] elsewhere"};
    }
    config.pools = {made};
    config.embedded_default = true;
    return {};
}

Result<void> apply(Config& config, const CommandLine& command_line) {
    if (!command_line.pools.empty()) {
        std::vector<PoolSource> pools;
        for (const auto& argument : command_line.pools) {
            auto source = parse_pool_argument(argument, pools.size());
            if (!source) return source.error();
            pools.push_back(*source);
        }
        if (const auto added = add_pools(config, pools); !added) return added.error();
    }
    if (!command_line.socket.empty()) {
        // What a shell's user writes is meant from where the shell stands.
        std::error_code problem;
        config.daemon.socket = std::filesystem::absolute(command_line.socket, problem).string();
        if (problem) return invalid("--socket " + command_line.socket + ": " + problem.message());
        config.origins["daemon.socket"] = command_line_origin;
    }
    if (!command_line.log_level.empty()) {
        const auto level = parse_log_level(command_line.log_level);
        if (!level) return invalid("--log-level: " + level.error().text);
        config.daemon.log_level = *level;
        config.origins["daemon.log_level"] = command_line_origin;
    }
    return {};
}

}  // namespace

Result<void> check_config(Config& config) {
    if (config.eviction.low_free_percent >= config.eviction.high_free_percent) {
        const char* key =
            config.origins.count("eviction.high_free") > 0 ? "eviction.high_free" : "eviction.low_free";
        return invalid(prefix(config, key) + "eviction.low_free must be below eviction.high_free");
    }
    const auto& wanted = config.control.pool;
    if (wanted.empty() || config.pools.empty()) return {};  // load_config looks again when it has added one
    const auto found = std::find_if(config.pools.begin(), config.pools.end(),
                                    [&](const auto& candidate) { return candidate.name == wanted; });
    if (found == config.pools.end()) {
        std::string names;
        for (const auto& candidate : config.pools)
            names += (names.empty() ? "" : ", ") + candidate.name;
        return invalid(prefix(config, "control.pool") + "control.pool = \"" + wanted +
                       "\" names no pool (there is " + names + ")");
    }
    std::rotate(config.pools.begin(), found, found + 1);
    return {};
}

Result<Config> load_config(const CommandLine& command_line) {
    Config config;
    if (!command_line.config_file.empty()) {
        const auto text = read_file(command_line.config_file);
        if (!text) return text.error();
        auto parsed = parse_config(*text, command_line.config_file);
        if (!parsed) return parsed.error();
        config = std::move(*parsed);
    }
    if (const auto applied = apply(config, command_line); !applied) return applied.error();
    if (config.pools.empty())
        if (const auto added = add_default_pool(config); !added) return added.error();
    if (const auto checked = check_config(config); !checked) return checked.error();
    return config;
}

Result<SocketPath> find_socket(const Config& config) {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    SocketPath found;
    const std::string runtime = variable("RUNTIME_DIRECTORY");  // systemd: several are divided by colons
    const std::string session = variable("XDG_RUNTIME_DIR");
    if (!config.daemon.socket.empty()) {
        const auto origin = config.origins.find("daemon.socket");
        found = {config.daemon.socket, origin == config.origins.end() ? "config" : origin->second};
    } else if (const auto asked = variable("MARU_SOCKET"); !asked.empty()) {
        found = {asked, "$MARU_SOCKET"};
    } else if (!runtime.empty()) {
        found = {runtime.substr(0, runtime.find(':')) + "/maru.sock", "$RUNTIME_DIRECTORY"};
    } else if (::geteuid() == 0) {
        found = {"/run/maru/maru.sock", "default for root"};
    } else if (!session.empty() &&
               session.front() == '/') {  // the specification says to ignore a relative one
        found = {session + "/maru.sock", "$XDG_RUNTIME_DIR"};
    } else {
        found = {"/tmp/maru-" + std::to_string(::geteuid()) + "/maru.sock", "default"};
    }
    const std::string named = "socket path \"" + found.path + "\" (" + found.origin + ")";
    if (found.path.front() != '/') return invalid(named + " is not absolute: begin it with /");
    constexpr std::size_t length_max = sizeof(sockaddr_un::sun_path) - 1;
    if (found.path.size() > length_max)
        return Error{Code::too_large, named + " has " + std::to_string(found.path.size()) +
                                          " characters, a socket address holds " +
                                          std::to_string(length_max) +
                                          ": choose a shorter one with --socket"};
    return found;
}

Result<std::string> socket_path(const Config& config) {
    auto found = find_socket(config);
    if (!found) return found.error();
    return std::move(found->path);
}

table::FormatPlan format_plan(const Config& config, const std::vector<std::uint64_t>& pool_bytes) {
    table::FormatPlan plan;
    plan.domain = Uuid::random();
    plan.region_unit = config.control.region_size;
    plan.min_page = config.control.min_page;
    plan.records = static_cast<std::uint32_t>(config.control.max_objects);  // read_count kept it in range
    plan.clients = config.control.max_clients;
    plan.hosts = config.control.max_hosts;
    plan.namespaces = config.control.max_namespaces;
    plan.pins = config.control.max_pins;
    plan.max_bytes = config.control.max_pool_bytes;
    plan.coherence = config.control.coherence;
    plan.checksum = config.checksum.mode;
    for (std::size_t i = 0; i < config.pools.size() && i < pool_bytes.size(); ++i) {
        table::PoolPlan made;
        made.uuid = Uuid::random();
        made.kind = static_cast<std::uint32_t>(config.pools[i].kind);
        made.name = config.pools[i].name;
        made.bytes = pool_bytes[i];
        plan.pools.push_back(std::move(made));
    }
    return plan;
}

}  // namespace maru::daemon
