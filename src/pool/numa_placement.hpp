// From which NUMA node the memory of a file comes: asked for, read back, reported as got.
#pragma once

#include "pool/pool.hpp"

namespace maru::pool {

/// Tells the kernel from which of `config.numa_nodes` the file's memory is to come (a policy of the file
/// itself, good for whoever touches it first). Refuses nodes that have no memory, and with placement "bind"
/// and reserve = true nodes that have too little free, with both sizes: the kernel would end processes for
/// it.
Result<void> bind_memory(int descriptor, const PoolConfig& config, std::uint64_t alignment);

/// Looks where the pages came to lie and adds it to the description; to the warnings where it is not what
/// was asked for. Reads some of the pages of a reserved file.
Result<void> describe_placement(int descriptor, const PoolConfig& config, std::uint64_t alignment,
                                PoolFacts* facts);

/// "node 2" or "nodes 0, 2".
std::string text_of_nodes(const std::vector<std::uint32_t>& nodes);

/// Bytes that a node could give now, from the text of its meminfo: free ones and those of the page cache.
std::uint64_t available_in(const std::string& meminfo);

/// Whether this build can place memory (libnuma).
bool has_placement();

}  // namespace maru::pool
