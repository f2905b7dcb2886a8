#include "pool/fsdax_pool.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>

#include "pool/file_pool.hpp"

#ifndef STATX_ATTR_DAX
#define STATX_ATTR_DAX 0x00200000
#endif

namespace maru::pool {
namespace {

constexpr std::uint64_t fsdax_alignment = 2 * MiB;  // a large page of the device's memory

/// The kernel's own word on this very file: set while it is mapped past the page cache.
bool is_dax(int descriptor) {
    struct statx status {};
    return ::statx(descriptor, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) == 0 &&
           (status.stx_attributes & STATX_ATTR_DAX) != 0;
}

struct MountOf {
    std::string point = "its file system", type = "unknown", options;
};

MountOf mount_of_file(int descriptor) {
    struct stat status {};
    MountOf found;
    if (::fstat(descriptor, &status) != 0) return found;
    const std::string device =
        std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string id, parent, number, root, point, word, type, source, options;
        words >> id >> parent >> number >> root >> point;
        if (number != device) continue;
        while (words >> word && word != "-") {
        }
        words >> type >> source >> options;
        found = {point, type, options};
    }
    return found;
}

}  // namespace

std::string fsdax_path(const PoolConfig& config) {
    const bool slash = !config.path.empty() && config.path.back() == '/';
    return config.path + (slash ? "" : "/") + "maru-" + config.name;
}

Result<std::unique_ptr<Pool>> open_fsdax(const PoolConfig& config) {
    if (!config.numa_nodes.empty())
        return refused(config, "the memory of kind fsdax is the device's: remove [[pool]] numa_node");
    FileKind kind;
    kind.alignment = fsdax_alignment;
    kind.blocks_are_data = false;
    kind.look = [&config](const PoolFile& file, PoolFacts* facts) -> Result<void> {
        const MountOf mount = mount_of_file(file.descriptor.get());
        if (is_dax(file.descriptor.get())) {
            facts->description = mount.type + " with dax at " + mount.point;
            return {};
        }
        const std::string without =
            mount.point + " (" + mount.type + ", " + mount.options + ") does not map this file with dax";
        const std::string remedy = "mount an ext4 or xfs on a pmem device with -o dax";
        if (!config.allow_page_cache)
            return refused(config, without + ": " + remedy +
                                       ", or set allow_page_cache = true if the page cache will do");
        facts->description = mount.type + " at " + mount.point + ", in the page cache";
        facts->warnings.push_back("pool '" + config.name + "': " + without +
                                  ", its memory is the page cache, written back to the disk "
                                  "(allow_page_cache = true): " +
                                  remedy);
        return {};
    };
    return open_file_pool(config, kind);
}

}  // namespace maru::pool
