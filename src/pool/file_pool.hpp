// Pools that are files: of a tmpfs, a hugetlbfs, a file system with dax, or without a name.
#pragma once

#include <functional>
#include <memory>

#include "pool/pool.hpp"
#include "pool/pool_file.hpp"

namespace maru::pool {

/// What differs between the kinds of files.
struct FileKind {
    std::uint64_t alignment = 4 * KiB;
    bool blocks_are_data = true;  ///< see Sizing
    /// Looks at the opened file before anything of it is changed: refuses it, or describes it in the facts.
    std::function<Result<void>(const PoolFile& file, PoolFacts* facts)> look;
    std::function<Result<std::uint64_t>()> free;  ///< see Sizing
    std::function<Error()> too_full;              ///< see Sizing
};

/// Opens or makes the file of `config.path`, whose size is rounded down to the alignment, and takes its
/// memory from the NUMA node that the config names. Everything else as open() says.
Result<std::unique_ptr<Pool>> open_file_pool(const PoolConfig& config, const FileKind& kind);
/// The same for a file without a name, as it was made or kept; `what` stands for its path in errors.
Result<std::unique_ptr<Pool>> open_nameless_pool(const PoolConfig& config, const FileKind& kind,
                                                 Descriptor file, const std::string& what);

/// What stands before every error text of a pool.
Error refused(const PoolConfig& config, const std::string& text);

}  // namespace maru::pool
