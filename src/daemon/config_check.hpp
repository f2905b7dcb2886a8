// What the parts of the config must hold together, wherever they came from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/config.hpp"

namespace maru::daemon {

/// A pool and where it was asked for.
struct PoolSource {
    pool::PoolConfig config;
    std::string where;                           // "FILE:LINE", "command line"
    std::map<std::string, std::string> origins;  // by the key's last part: "size"
};

/// Replaces the config's pools. Refuses two of one name or one file, and more than a domain can have.
Result<void> add_pools(Config& config, const std::vector<PoolSource>& pools);

/// Relations between values; moves the pool of control.pool to the front.
Result<void> check_config(Config& config);

/// "KIND:WHAT[:SIZE]" of the command line.
Result<PoolSource> parse_pool_argument(const std::string& argument);

}  // namespace maru::daemon
