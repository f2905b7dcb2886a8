#include "daemon/reload.hpp"

namespace maru::daemon {
namespace {

bool same_pools(const std::vector<pool::PoolConfig>& left, const std::vector<pool::PoolConfig>& right) {
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i)
        if (left[i].name != right[i].name || left[i].kind != right[i].kind || left[i].path != right[i].path ||
            left[i].size != right[i].size)
            return false;
    return true;
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
    fixed(fresh.control.min_page == was.control.min_page, "control.min_page", format);
    fixed(fresh.control.coherence == was.control.coherence, "control.coherence", format);
    fixed(fresh.checksum.mode == was.checksum.mode, "checksum.mode", format);
    fixed(fresh.embedded_default ? was.embedded_default : same_pools(fresh.pools, was.pools), "[[pool]]",
          restart);

    running->daemon.log_level = fresh.daemon.log_level;
    running->control.key_pin_ttl = fresh.control.key_pin_ttl;
    running->eviction = fresh.eviction;
    running->host = fresh.host;
    return notices;
}

}  // namespace maru::daemon
