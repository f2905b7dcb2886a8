#include "pool/huge_pages.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>

namespace maru::pool {
namespace {

constexpr const char* switch_file = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

std::string read_text(const char* path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace

std::string selected_word(const std::string& text) {
    const auto open = text.find('[');
    const auto close = text.find(']', open);
    if (open == std::string::npos || close == std::string::npos) return {};
    return text.substr(open + 1, close - open - 1);
}

MountFound mount_of(const std::string& mountinfo, unsigned major, unsigned minor) {
    // 25 24 0:23 / /dev/shm rw,relatime shared:5 - tmpfs tmpfs rw,size=24684096k,huge=advise
    const std::string device = std::to_string(major) + ":" + std::to_string(minor);
    MountFound found;
    std::istringstream lines(mountinfo);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string id, parent, number, root, point, word, last;
        words >> id >> parent >> number >> root >> point;
        if (number != device) continue;
        while (words >> word)
            last = word;
        found = {point, "never"};
        std::istringstream options(last);
        for (std::string option; std::getline(options, option, ',');)
            if (option.rfind("huge=", 0) == 0) found.huge = option.substr(5);
    }
    return found;
}

HugePagesFound huge_pages_of(int descriptor, HugePages wanted) {
    if (wanted == HugePages::never) return {false, "4 KiB pages (hugepages = \"never\")", {}};
    const std::string all = selected_word(read_text(switch_file));
    if (all.empty())
        return {false, "4 KiB pages (this kernel has no huge pages for tmpfs)", "use another kernel"};
    if (all == "deny")
        return {false, std::string("4 KiB pages (") + switch_file + " reads deny)",
                std::string("write never to ") + switch_file + " and mount the tmpfs with huge=advise"};
    if (all == "force") return {true, std::string("huge pages (") + switch_file + " reads force)", {}};
    struct stat status {};
    MountFound mount{"its tmpfs", "never"};
    if (::fstat(descriptor, &status) == 0)
        mount = mount_of(read_text("/proc/self/mountinfo"), major(status.st_dev), minor(status.st_dev));
    if (mount.point.empty()) mount = {"its tmpfs", "never"};
    const std::string said = mount.point + " is mounted with huge=" + mount.huge;
    if (mount.huge == "never")
        return {false, "4 KiB pages (" + said + ")", "mount -o remount,huge=advise " + mount.point};
    return {true, "huge pages where the kernel finds them (" + said + ")", {}};
}

}  // namespace maru::pool
