// Kind `fsdax`: a file on a file system that maps the device's own memory (mount option dax).
#pragma once

#include <memory>
#include <string>

#include "pool/pool.hpp"

namespace maru::pool {

/// `config.path` is the file. Refused without dax unless `config.allow_page_cache`.
Result<std::unique_ptr<Pool>> open_fsdax(const PoolConfig& config);

/// FOLDER/maru-NAME.
std::string fsdax_path(const PoolConfig& config);

}  // namespace maru::pool
