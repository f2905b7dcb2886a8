// --check-config: effective values as a TOML file that reads back as the same, and how memory is split.
#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/size.hpp"
#include "daemon/config_check.hpp"
#include "daemon/config_keys.hpp"

namespace maru::daemon {
namespace {

constexpr std::size_t comment_column = 40;

std::string line(const std::string& key, const std::string& value, const std::string& comment) {
    std::string text = key + " = " + value;
    text.resize(std::max(text.size() + 2, comment_column), ' ');
    return text + "# " + comment + "\n";
}

/// Values that the config leaves open, as the daemon would settle them here.
class Explanation {
  public:
    /// `found`: the config with the devices that are here.
    Explanation(const Config& config, const Config& found, SocketPath socket,
                const table::ControlSizes& sizes)
        : config_(config), found_(found), socket_(std::move(socket)), sizes_(sizes) {}

    std::string values() const {
        std::string text;
        std::string section;
        for (const auto& key : config_keys()) {
            const auto dot = key.name.find('.');
            if (key.name.substr(0, dot) != section) {
                section = key.name.substr(0, dot);
                text += (text.empty() ? "[" : "\n[") + section + "]\n";
            }
            text += line(key.name.substr(dot + 1), value_of(key), origin_of(key.name));
        }
        return text;
    }

    std::string pools() const {
        std::string text;
        for (const auto& pool : config_.pools) {
            const std::string whole = origin("pool." + pool.name, "embedded default");
            text += "\n[[pool]]\n";
            for (const auto& key : pool_keys()) {
                const std::string last = key.name.substr(5);
                const bool from_argument =
                    whole == command_line_origin && (last == "name" || last == "kind" || last == "size");
                const bool chosen =
                    config_.embedded_default && (last == "name" || last == "kind" || last == "size");
                std::string value = key.show(pool);
                if (last == "path" && pool.path.empty()) value = quoted(pool::located(pool).path);
                text += line(
                    last, value,
                    origin("pool." + pool.name + "." + last, from_argument || chosen ? whole : "default"));
            }
        }
        return text;
    }

    std::string namespaces() const {
        std::string text;
        for (const auto& one : config_.namespaces) {
            text += "\n[[namespace]]\n";
            for (const auto& key : namespace_keys()) {
                const std::string last = key.name.substr(key.name.find('.') + 1);
                text += line(last, key.show(one), origin("namespace." + one.name + "." + last));
            }
        }
        return text;
    }

    std::string memory() const {
        std::string text = "\n# Memory\n";
        for (std::size_t i = 0; i < found_.pools.size(); ++i) {
            const auto& pool = found_.pools[i];
            const std::uint64_t control = i == 0 ? sizes_.control_bytes : 0;
            const std::uint64_t data = sizes_.units_of_pool[i] * sizes_.region_unit;
            text += "# pool '" + pool.name + "': " + format_size(pool.size);
            if (control > 0) text += ", control region " + format_size(control) + percent(control, pool.size);
            text += ", pages " + format_size(data) + " (" + std::to_string(sizes_.units_of_pool[i]) +
                    " units of " + format_size(sizes_.region_unit) + "), unused " +
                    format_size(pool.size - control - data) + "\n";
        }
        text += "# control region: page records " + format_size(sizes_.records_bytes) + " (" +
                std::to_string(sizes_.records) + "), index " + format_size(sizes_.index_bytes) + " (" +
                std::to_string(sizes_.buckets) + " buckets, " + std::to_string(sizes_.overflow_buckets) +
                " for overflow), pins " + format_size(sizes_.pins_bytes) + " (" +
                std::to_string(sizes_.pin_chunks) + " chunks), the rest " + format_size(sizes_.other_bytes) +
                "\n";
        return text;
    }

  private:
    std::string origin(const std::string& key, const char* otherwise = "default") const {
        const auto found = config_.origins.find(key);
        return found == config_.origins.end() ? otherwise : found->second;
    }
    std::string origin(const std::string& key, const std::string& otherwise) const {
        return origin(key, otherwise.c_str());
    }

    static std::string percent(std::uint64_t part, std::uint64_t whole) {
        char text[32];
        std::snprintf(text, sizeof text, " (%.2f %%)",
                      100.0 * static_cast<double>(part) / static_cast<double>(whole));
        return text;
    }

    std::string value_of(const ConfigKey<Config>& key) const {
        if (key.name == "daemon.socket") return quoted(socket_.path);
        if (key.name == "control.pool") return quoted(config_.pools.front().name);
        Config settled = config_;
        if (settled.control.max_objects == 0)
            settled.control.max_objects = sizes_.records - table::records_per_granule;
        if (settled.control.region_size == 0) settled.control.region_size = sizes_.region_unit;
        if (settled.control.max_pool_bytes == 0)
            settled.control.max_pool_bytes = sizes_.regions * sizes_.region_unit;
        return key.show(settled);
    }

    std::string origin_of(const std::string& key) const {
        if (key == "daemon.socket") return socket_.origin;
        const std::string known = origin(key);
        if (key == "daemon.group" && ::getgrnam(config_.daemon.group.c_str()) == nullptr)
            return known +
                   (known == "default" ? ": no such group here, so the caller's" : ": no such group here");
        if (key == "daemon.log_file" && config_.daemon.log_file.empty()) return known + ": stderr";
        if (key == "daemon.host_id" && config_.daemon.host_id.empty()) return known + ": the machine-id";
        if (key == "control.pool" && config_.control.pool.empty()) return known + ": the first pool";
        if ((key == "control.max_objects" && config_.control.max_objects == 0) ||
            (key == "control.max_pool_bytes" && config_.control.max_pool_bytes == 0) ||
            (key == "control.region_size" && config_.control.region_size == 0))
            return known + ": by the size of the pools";
        return known;
    }

    const Config& config_;
    const Config& found_;
    SocketPath socket_;
    const table::ControlSizes& sizes_;
};

}  // namespace

Result<std::string> explain_config(const Config& config, const CommandLine& command_line) {
    if (config.pools.empty()) return Error{Code::invalid, "the config has no pool: use load_config"};
    auto socket = find_socket(config);
    if (!socket) return socket.error();
    std::vector<std::uint64_t> pool_bytes;
    Config found = config;
    found.pools.clear();
    for (const auto& pool : config.pools)
        for (auto& located : pool::located_all(pool)) {
            if (located.size == 0) located.size = pool::existing_bytes(located).value_or(0);
            if (located.size == 0)
                return Error{Code::unavailable,
                             "pool '" + located.name + "': " + located.path +
                                 " cannot be had here, so that its size is not known: daxctl "
                                 "list and maructl device list show what there is"};
            pool_bytes.push_back(round_down(located.size, table::page_align));
            found.pools.push_back(std::move(located));
        }
    const auto sizes = table::plan_control(format_plan(found, pool_bytes));
    if (!sizes) return sizes.error();
    const Explanation explanation(config, found, *socket, *sizes);
    const std::string head =
        "# Effective configuration (" +
        (command_line.config_file.empty() ? "no config file" : command_line.config_file) + ")\n\n";
    return head + explanation.values() + explanation.pools() + explanation.namespaces() +
           explanation.memory();
}

}  // namespace maru::daemon
