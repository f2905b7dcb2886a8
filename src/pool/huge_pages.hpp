// Whether a tmpfs file gets huge pages, told from what the kernel and the mount say.
#pragma once

#include <string>

#include "pool/pool.hpp"

namespace maru::pool {

struct HugePagesFound {
    bool on = false;     ///< the kernel will use them where it can
    std::string text;    ///< "4 KiB pages (/dev/shm is mounted with huge=never)"
    std::string remedy;  ///< when off: what an administrator does
};

/// For a tmpfs file. /sys/kernel/mm/transparent_hugepage/shmem_enabled decides over all mounts when it reads
/// "deny" or "force"; otherwise the mount's own huge= option counts. Changes nothing.
HugePagesFound huge_pages_of(int descriptor, HugePages wanted);

/// The parts of it, on the texts of the two files, for whoever has them otherwise.
std::string selected_word(const std::string& text);  ///< "never" of "always within_size advise [never] deny"
struct MountFound {
    std::string point;
    std::string huge;  ///< "never" when the mount does not say
};
MountFound mount_of(const std::string& mountinfo, unsigned major, unsigned minor);

}  // namespace maru::pool
