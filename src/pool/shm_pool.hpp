// Kinds `shm` and `numa`: a tmpfs file whose whole size is taken when it is made, from a NUMA node where one
// is named.
#pragma once

#include <memory>

#include "pool/pool.hpp"

namespace maru::pool {

/// `config.path` is the file; everything else as open() says.
Result<std::unique_ptr<Pool>> open_shm(const PoolConfig& config);

}  // namespace maru::pool
