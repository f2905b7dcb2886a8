#include "daemon/reload.hpp"

#include <algorithm>

namespace maru::daemon {
namespace {

/// Every pool that the daemon was started with is there as it was; new ones are no matter of this.
bool keeps_pools(const Config& fresh, const Config& was) {
    if (fresh.embedded_default || was.embedded_default) return fresh.embedded_default == was.embedded_default;
    return std::all_of(was.pools.begin(), was.pools.end(), [&](const auto& pool) {
        return std::any_of(fresh.pools.begin(), fresh.pools.end(), [&](const auto& now) {
            return now.name == pool.name && now.kind == pool.kind && now.path == pool.path &&
                   now.size == pool.size;
        });
    });
}

}  // namespace

std::vector<std::string> apply_changes(const Config& fresh, Config* running) {
    std::vector<std::string> notices;
    const auto fixed = [&](bool same, const char* key, const char* remedy) {
        if (!same) notices.push_back(std::string(key) + " has changed and stays as it was: " + remedy);
    };
    const char* restart = "restart the daemon";
    const char* format = "it is fixed when the domain is formatted";
    const auto& was = *running;
    fixed(fresh.daemon.socket == was.daemon.socket, "daemon.socket", restart);
    fixed(fresh.daemon.socket_mode == was.daemon.socket_mode, "daemon.socket_mode", restart);
    fixed(fresh.daemon.group == was.daemon.group, "daemon.group", restart);
    fixed(fresh.daemon.log_file == was.daemon.log_file, "daemon.log_file", restart);
    fixed(fresh.daemon.host_id == was.daemon.host_id, "daemon.host_id", restart);
    fixed(fresh.daemon.event_backend == was.daemon.event_backend, "daemon.event_backend", restart);
    fixed(fresh.metrics.listen == was.metrics.listen, "metrics.listen", restart);
    fixed(fresh.control.max_objects == was.control.max_objects, "control.max_objects", format);
    fixed(fresh.control.max_clients == was.control.max_clients, "control.max_clients", format);
    fixed(fresh.control.max_hosts == was.control.max_hosts, "control.max_hosts", format);
    fixed(fresh.control.max_namespaces == was.control.max_namespaces, "control.max_namespaces", format);
    fixed(fresh.control.max_pins == was.control.max_pins, "control.max_pins", format);
    fixed(fresh.control.region_size == was.control.region_size, "control.region_size", format);
    fixed(fresh.control.max_pool_bytes == was.control.max_pool_bytes, "control.max_pool_bytes", format);
    fixed(fresh.control.min_page == was.control.min_page, "control.min_page", format);
    fixed(fresh.control.coherence == was.control.coherence, "control.coherence", format);
    fixed(fresh.checksum.mode == was.checksum.mode, "checksum.mode", format);
    fixed(keeps_pools(fresh, was), "[[pool]] of a pool that is in use",
          "it is added and taken away with maructl pool add, drain and remove");

    running->daemon.log_level = fresh.daemon.log_level;
    running->control.key_pin_ttl = fresh.control.key_pin_ttl;
    running->eviction = fresh.eviction;
    running->host = fresh.host;
    return notices;
}

}  // namespace maru::daemon
