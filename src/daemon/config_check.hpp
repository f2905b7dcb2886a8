// What the parts of the config must hold together, wherever they came from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/config.hpp"

namespace maru::daemon {

/// A value that cannot be.
inline Error invalid(const std::string& text) {
    return Error{Code::invalid, text};
}

inline constexpr const char* command_line_origin = "command line";

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

/// "KIND:WHAT[:SIZE]" of the command line; `position` names a pool that gets no name there.
Result<PoolSource> parse_pool_argument(const std::string& argument, std::size_t position);

/// Fills what the kind decides and refuses what it cannot have; without a "FILE:LINE" before the text.
Result<void> settle_pool(PoolSource* source, std::size_t position);

}  // namespace maru::daemon
