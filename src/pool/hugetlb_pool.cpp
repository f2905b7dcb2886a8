#include "pool/hugetlb_pool.hpp"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bit>
#include <fstream>
#include <sstream>

#include "base/size.hpp"
#include "pool/file_pool.hpp"

#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif

namespace maru::pool {
namespace {

std::uint64_t page_size_of(const PoolConfig& config) {
    return config.page_size != 0 ? config.page_size : hugetlb_page_default;
}

/// "2MiB", as a config takes it.
std::string short_size(std::uint64_t bytes) {
    return bytes >= GiB ? std::to_string(bytes / GiB) + "GiB" : std::to_string(bytes / MiB) + "MiB";
}

std::string folder_of_pages(std::uint64_t page_size) {
    return "hugepages-" + std::to_string(page_size / KiB) + "kB";
}

Result<void> check_file_system(int descriptor, const PoolConfig& config) {
    struct statfs status {};
    const std::uint64_t page = page_size_of(config);
    if (::fstatfs(descriptor, &status) != 0 || status.f_type != HUGETLBFS_MAGIC)
        return refused(config, config.path + " is not on a hugetlbfs: mount -t hugetlbfs -o pagesize=" +
                                   short_size(page) + " none /dev/hugepages, or leave [[pool]] path out");
    const auto found = static_cast<std::uint64_t>(status.f_bsize);
    if (found == page) return {};
    return refused(config, config.path + " has pages of " + format_size(found) + ", [[pool]] page_size is " +
                               format_size(page) + ": set page_size = \"" + short_size(found) +
                               "\", or another path");
}

Result<Descriptor> make_nameless(const PoolConfig& config) {
    const auto shift = static_cast<unsigned>(std::countr_zero(page_size_of(config)));
    const std::string name = "maru-" + config.name;
    Descriptor made(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_HUGETLB | shift << MFD_HUGE_SHIFT));
    if (!made)
        return Error{Code::unavailable, "pool '" + config.name + "': cannot make a file of pages of " +
                                            format_size(page_size_of(config)) + ": " + strerror(errno)};
    return made;
}

}  // namespace

HugetlbRoom hugetlb_room(std::uint64_t page_size, const std::string& folder) {
    HugetlbRoom room;
    const std::string at = folder + "/" + folder_of_pages(page_size) + "/";
    const auto read = [&](const char* name, std::uint64_t* value) {
        std::ifstream in(at + name);
        return static_cast<bool>(in >> *value);
    };
    room.known = read("nr_hugepages", &room.total) && read("free_hugepages", &room.free) &&
                 read("resv_hugepages", &room.reserved) && read("surplus_hugepages", &room.surplus);
    read("nr_overcommit_hugepages", &room.overcommit);
    return room;
}

std::string too_few_pages(const PoolConfig& config, const HugetlbRoom& room) {
    const std::uint64_t page = page_size_of(config);
    const std::uint64_t needed = config.size / page;
    const std::uint64_t left = room.left();
    const std::string enough = std::to_string(room.total + (needed > left ? needed - left : needed));
    const std::string command =
        page == hugetlb_page_default
            ? "sysctl -w vm.nr_hugepages=" + enough
            : "echo " + enough + " > /sys/kernel/mm/hugepages/" + folder_of_pages(page) + "/nr_hugepages";
    return "pool '" + config.name + "': " + std::to_string(left) + " of " + std::to_string(room.total) +
           " huge pages of " + format_size(page) + " are free, " + std::to_string(needed) + " (" +
           format_size(config.size) + ") are needed: " + command +
           (page >= GiB ? " (soon after boot, or hugepagesz=1G hugepages=" + enough +
                              " on the kernel's "
                              "command line)"
                        : "") +
           ", or lower [[pool]] size";
}

std::string hugetlb_path(const PoolConfig& config) {
    std::ifstream mounts("/proc/self/mounts");
    std::string device, point, type;
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        if (!(words >> device >> point >> type) || type != "hugetlbfs") continue;
        struct statfs status {};
        if (::statfs(point.c_str(), &status) != 0 || ::access(point.c_str(), W_OK | X_OK) != 0) continue;
        if (static_cast<std::uint64_t>(status.f_bsize) != page_size_of(config)) continue;
        return point + "/maru-" + config.name + "-" + std::to_string(::geteuid());
    }
    return {};
}

Result<std::unique_ptr<Pool>> open_hugetlb(const PoolConfig& config, Descriptor kept) {
    const std::uint64_t page = page_size_of(config);
    if (!std::has_single_bit(page))
        return refused(config, "page_size " + std::to_string(page) + " is no power of two");
    if (!hugetlb_room(page).known)
        return refused(config,
                       "this kernel has no huge pages of " + format_size(page) +
                           " (ls /sys/kernel/mm/hugepages shows what it has): set [[pool]] page_size");
    if (config.huge_pages == HugePages::never)
        return refused(config, "kind hugetlb is huge pages, hugepages = \"never\" contradicts it");
    FileKind kind;
    kind.alignment = page;
    kind.free = [page]() -> Result<std::uint64_t> {
        const std::uint64_t left = hugetlb_room(page).left();
        return left > UINT64_MAX / page ? UINT64_MAX : left * page;
    };
    PoolConfig sized = config;
    sized.size = round_down(config.size, page);
    kind.too_full = [sized, page] { return Error{Code::full, too_few_pages(sized, hugetlb_room(page))}; };
    kind.look = [&](const PoolFile& file, PoolFacts* facts) -> Result<void> {
        if (!config.reserve && file.empty)
            return refused(config, "kind hugetlb cannot be sparse: set reserve = true");
        if (config.path.empty()) {
            facts->description = "nameless file, huge pages of " + format_size(page);
            facts->warnings.push_back(
                "pool '" + config.name +
                "' has no name in any file system: its content ends with the daemon "
                "unless systemd keeps it (FileDescriptorStoreMax=); mount a hugetlbfs with pages of " +
                short_size(page) + " (mount -t hugetlbfs -o pagesize=" + short_size(page) +
                " none /dev/hugepages) to keep it over restarts");
            return {};
        }
        facts->description = "hugetlbfs, huge pages of " + format_size(page);
        return check_file_system(file.descriptor.get(), config);
    };
    if (!config.path.empty()) return open_file_pool(config, kind);
    if (kept)
        return open_nameless_pool(config, kind, std::move(kept), "the kept file of pool " + config.name);
    auto made = make_nameless(config);
    if (!made) return made.error();
    return open_nameless_pool(config, kind, std::move(*made), "the nameless file");
}

}  // namespace maru::pool
