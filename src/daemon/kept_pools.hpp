// What systemd passes to this daemon: its socket, and pools that no name leads to, kept from the daemon
// before.
#pragma once

#include <string>
#include <vector>

#include "pool/pool.hpp"

namespace maru::daemon {

struct PassedDescriptor {
    int number = -1;
    std::string name;
};
/// Every descriptor that systemd passed, in its order; closed on exec, and passed again at the next call.
Result<std::vector<PassedDescriptor>> passed_descriptors();
bool is_kept_pool(const std::string& name);

/// Opens a pool; one that ends with its last holder is taken from systemd's store when it is there, and put
/// there when it was made (needs FileDescriptorStoreMax= in the unit; without systemd nothing is kept).
Result<std::unique_ptr<pool::Pool>> open_pool(const pool::PoolConfig& config);

/// A pool that has left is not kept any longer.
void forget_pool(const pool::PoolConfig& config);

}  // namespace maru::daemon
