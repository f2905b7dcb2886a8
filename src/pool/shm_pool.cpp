#include "pool/shm_pool.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include "pool/file_pool.hpp"
#include "pool/huge_pages.hpp"

namespace maru::pool {
namespace {

Result<void> check_file_system(int descriptor, const PoolConfig& config) {
    struct statfs status {};
    if (::fstatfs(descriptor, &status) == 0 && status.f_type == TMPFS_MAGIC) return {};
    return refused(config, config.path + " is not on a tmpfs: set a [[pool]] path under /dev/shm");
}

}  // namespace

Result<std::unique_ptr<Pool>> open_shm(const PoolConfig& config) {
    if (config.kind == Kind::numa && config.numa_nodes.empty())
        return refused(config, "kind numa needs the node whose memory it takes: set [[pool]] numa_node");
    FileKind kind;
    kind.look = [&config](const PoolFile& file, PoolFacts* facts) -> Result<void> {
        const int descriptor = file.descriptor.get();
        if (const auto checked = check_file_system(descriptor, config); !checked) return checked;
        const auto pages = huge_pages_of(descriptor, config.huge_pages);
        if (config.huge_pages == HugePages::require && !pages.on)
            return refused(config, "hugepages = \"require\", but " + pages.text + ": " + pages.remedy +
                                       ", or set hugepages = \"advise\"");
        facts->description = "tmpfs, " + pages.text;
        return {};
    };
    return open_file_pool(config, kind);
}

}  // namespace maru::pool
