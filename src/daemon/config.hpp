// The daemon's configuration: embedded default, TOML file, command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "pool/pool.hpp"
#include "table/namespaces.hpp"

namespace maru::daemon {

/// One [[namespace]]: what the config decides about it.
struct NamespaceConfig {
    std::string name;
    table::NamespacePolicy policy;
};

/// Effective values of one daemon. Every key of conf/maru.toml has a field here; the initialisers are the
/// defaults.
struct Config {
    struct Daemon {
        std::string socket;  // empty: found by socket_path()
        std::uint32_t socket_mode = 0660;
        std::string group = "maru";
        std::string log_level = "info";
        std::string log_file;  // empty: stderr
        std::string host_id;   // empty: machine-id
        std::string event_backend = "auto";
    } daemon;
    struct Control {
        std::string pool;               // name of the pool that carries the control region; empty: the first
        std::uint64_t max_objects = 0;  // 0: by the rule in table::plan_control
        std::uint32_t max_clients = 256, max_hosts = 16, max_namespaces = 64, max_pins = 65536;
        std::uint64_t region_size = 0;  // 0: by the rule in table::plan_control
        std::uint64_t max_pool_bytes =
            0;  // room for pools added at run time; 0: twice the pools of the format
        std::uint64_t min_page = 4096;
        std::chrono::milliseconds key_pin_ttl{300'000};  // 0: never
        table::Coherence coherence = table::Coherence::local;
    } control;
    struct Eviction {
        std::string policy = "clock";  // or none: stores on a full pool are refused
        double low_free_percent = 2, high_free_percent = 5;
    } eviction;
    struct Checksum {
        table::ChecksumMode mode = table::ChecksumMode::off;
    } checksum;
    struct Host {
        std::chrono::milliseconds grace{30'000};  // how long another host may be silent before it is fenced
    } host;
    struct Metrics {
        std::string listen = "127.0.0.1:9464";  // empty: no metrics
    } metrics;
    std::vector<pool::PoolConfig> pools;  // the one of control.pool first, then in the order of the file
    bool embedded_default = false;  // neither file nor --pool names a pool: one shm pool of a size that fits
    std::vector<NamespaceConfig> namespaces;  // in the order of the file
    /// Where each value that is not a default came from: "FILE:LINE" or "command line" by full key
    /// ("daemon.socket", "pool.NAME.size"; "pool.NAME" for the pool as a whole; "namespace.NAME.quota").
    std::map<std::string, std::string> origins;
};

/// What the command line adds on top of the file.
struct CommandLine {
    std::string config_file;
    std::vector<std::string> pools;  // KIND:WHAT[:SIZE]; any replaces the file's pools
    std::string socket;
    std::string log_level;
    bool check_config = false, format = false, remove = false, yes = false, force = false;
};

/// File, then command line, then defaults; validated. Errors read "FILE:LINE: ..." with the nearest known key
/// for an unknown one. Touches nothing but the file (and /dev/shm's free size for the embedded default).
Result<Config> load_config(const CommandLine& command_line);
/// The same from text; `file` names it in errors.
Result<Config> parse_config(const std::string& text, const std::string& file);

/// Effective values with where each came from, and how pools and control memory are split (--check-config).
Result<std::string> explain_config(const Config& config, const CommandLine& command_line);

/// Where the socket goes, first that applies: config, $MARU_SOCKET, $RUNTIME_DIRECTORY/maru.sock,
/// /run/maru/maru.sock as root, $XDG_RUNTIME_DIR/maru.sock, /tmp/maru-UID/maru.sock (whose folder the daemon
/// makes, mode 0700). An error when the first that applies is no absolute path or does not fit into a socket
/// address.
struct SocketPath {
    std::string path;
    std::string origin;  ///< "default", "$MARU_SOCKET", "FILE:LINE", "command line"
};
Result<SocketPath> find_socket(const Config& config);
Result<std::string> socket_path(const Config& config);

/// What a format of these pools lays down, given the pools' real sizes in the config's order.
table::FormatPlan format_plan(const Config& config, const std::vector<std::uint64_t>& pool_bytes);

}  // namespace maru::daemon
