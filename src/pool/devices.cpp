#include "pool/devices.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#ifdef MARU_WITH_DAXCTL
#include <daxctl/libdaxctl.h>
#endif

#include "base/size.hpp"

namespace maru::pool {
namespace {

namespace fs = std::filesystem;

std::string read_word(const std::string& path) {
    std::ifstream in(path);
    std::string word;
    in >> word;
    return word;
}

std::uint64_t read_number(const std::string& path) {
    return ::strtoull(read_word(path).c_str(), nullptr, 0);
}

std::string folder_of_devices(const DeviceTree& tree) {
    return tree.sysfs + "/bus/dax/devices";
}

/// What sysfs alone knows, or knows as well as the library.
void read_sysfs(const DeviceTree& tree, DaxDevice* device) {
    const std::string at = folder_of_devices(tree) + "/" + device->name;
    std::error_code ignored;
    // An nvdimm namespace is the parent: "pmem" there means that struct page lies on the device itself.
    const fs::path real = fs::canonical(at, ignored);
    device->pages_on_device = !real.empty() && read_word((real.parent_path() / "mode").string()) == "pmem";
    struct stat status {};
    if (::stat(device->path.c_str(), &status) == 0)
        device->number = tree.plain_files ? status.st_ino : status.st_rdev;
}

DaxDevice from_sysfs(const DeviceTree& tree, const std::string& name) {
    const std::string at = folder_of_devices(tree) + "/" + name;
    DaxDevice device;
    device.name = name;
    device.path = tree.dev + "/" + name;
    device.size = read_number(at + "/size");
    device.alignment = read_number(at + "/align");
    const std::string node = read_word(at + "/target_node");
    device.target_node = node.empty() ? -1 : std::atoi(node.c_str());
    std::error_code none;
    const std::string driver = fs::read_symlink(at + "/driver", none).filename().string();
    device.mode = driver == "device_dax" ? DeviceMode::devdax
                  : driver == "kmem"     ? DeviceMode::system_ram
                                         : DeviceMode::disabled;
    read_sysfs(tree, &device);
    return device;
}

#ifdef MARU_WITH_DAXCTL
/// False when the library has nothing to say.
bool list_by_library(const DeviceTree& tree, std::vector<DaxDevice>* devices) {
    daxctl_ctx* context = nullptr;
    if (::daxctl_new(&context) != 0) return false;
    daxctl_region* region = nullptr;
    daxctl_dev* dev = nullptr;
    daxctl_region_foreach(context, region) {
        daxctl_dev_foreach(region, dev) {
            DaxDevice device = from_sysfs(tree, ::daxctl_dev_get_devname(dev));
            device.size = ::daxctl_dev_get_size(dev);
            if (const auto align = ::daxctl_dev_get_align(dev); align != 0) device.alignment = align;
            device.target_node = ::daxctl_dev_get_target_node(dev);
            const bool is_memory = ::daxctl_dev_get_memory(dev) != nullptr;
            device.mode = is_memory                           ? DeviceMode::system_ram
                          : ::daxctl_dev_is_enabled(dev) != 0 ? DeviceMode::devdax
                                                              : DeviceMode::disabled;
            if (device.size != 0) devices->push_back(std::move(device));  // size 0: a seed, not yet a device
        }
    }
    ::daxctl_unref(context);
    return true;
}
#endif

Error refused(const std::string& path, const std::string& text) {
    return Error{Code::invalid, path + ": " + text};
}

/// The device behind a path, by its number.
Result<DaxDevice> device_of(const std::string& path, const DeviceTree& tree) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return Error{Code::unavailable,
                     path + ": " + strerror(errno) + ": daxctl list shows the devices of this machine"};
    if (tree.plain_files ? !S_ISREG(status.st_mode) : !S_ISCHR(status.st_mode))
        return refused(path,
                       "it is no character device: kind devdax takes /dev/daxX.Y (daxctl list), for a "
                       "file take kind shm or fsdax");
    const std::uint64_t number = tree.plain_files ? status.st_ino : status.st_rdev;
    for (auto& device : list_devices(tree))
        if (device.number == number) return std::move(device);
    return refused(path, "it is no DAX device: daxctl list shows those of this machine");
}

Result<void> check_mode(const DaxDevice& device) {
    switch (device.mode) {
        case DeviceMode::devdax:
            break;
        case DeviceMode::system_ram:
            return refused(device.path,
                           "it is system RAM" +
                               (device.target_node >= 0 ? " (node " + std::to_string(device.target_node) + ")"
                                                        : std::string()) +
                               ": take it as kind numa with that numa_node, or run daxctl reconfigure-device "
                               "--mode=devdax --force " +
                               device.name);
        case DeviceMode::disabled:
            return refused(device.path, "it is disabled: daxctl enable-device " + device.name);
    }
    if (device.alignment < 4096 || (device.alignment & (device.alignment - 1)) != 0 ||
        device.size % device.alignment != 0 || device.size < 2 * device.alignment)
        return refused(device.path,
                       "its size of " + std::to_string(device.size) + " bytes at alignment " +
                           std::to_string(device.alignment) +
                           " leaves no room behind a header: daxctl reconfigure-device --align, or "
                           "ndctl create-namespace --align");
    return {};
}

Error one_uuid(const Uuid& uuid, const std::string& left, const std::string& right) {
    return Error{Code::damaged,
                 "two devices have UUID " + uuid.text() + ": " + left + " and " + right +
                     "; one is a copy: give it another with maructl device init --force PATH, or hide it"};
}

Error cannot_open(const DaxDevice& device, int reason) {
    if (reason == EACCES || reason == EPERM)
        return Error{Code::denied,
                     device.path +
                         ": this user may not open it: install conf/udev/60-maru.rules, which gives "
                         "DAX devices to group maru, and run as a member of it"};
    if (reason == EBUSY)
        return Error{Code::unavailable, device.path + ": somebody else has it: daxctl list -u"};
    if (reason == ENXIO || reason == ENODEV)
        return Error{Code::unavailable,
                     device.path +
                         ": the device has gone, or was disabled and enabled while it was in use; "
                         "then bring it back with daxctl disable-device " +
                         device.name + " and daxctl enable-device " + device.name};
    return Error{Code::unavailable, device.path + ": " + strerror(reason)};
}

Error no_usable_device(const DeviceTree& tree) {
    std::string reasons;
    for (const auto& device : list_devices(tree)) {
        const auto opened = open_device(device.path, tree);
        reasons += "; " + (opened ? device.path + ": " + opened->found.fault : opened.error().text);
    }
    return Error{
        Code::unavailable,
        "no DAX device here has maru's header or is blank: daxctl list and maructl device list show what "
        "there is" +
            reasons};
}

}  // namespace

const char* name_of(DeviceMode mode) {
    switch (mode) {
        case DeviceMode::devdax:
            return "devdax";
        case DeviceMode::system_ram:
            return "system-ram";
        case DeviceMode::disabled:
            return "disabled";
    }
    return "unknown";
}

std::vector<DaxDevice> list_devices(const DeviceTree& tree) {
    std::vector<DaxDevice> devices;
#ifdef MARU_WITH_DAXCTL
    const bool done = tree.sysfs == "/sys" && list_by_library(tree, &devices) && !devices.empty();
#else
    const bool done = false;
#endif
    std::error_code none;
    if (!done)
        for (const auto& entry : fs::directory_iterator(folder_of_devices(tree), none)) {
            DaxDevice device = from_sysfs(tree, entry.path().filename().string());
            if (device.size != 0) devices.push_back(std::move(device));
        }
    std::sort(devices.begin(), devices.end(),
              [](const DaxDevice& left, const DaxDevice& right) { return left.name < right.name; });
    return devices;
}

std::string devices_now(const DeviceTree& tree) {
    std::vector<std::string> lines;
    std::error_code problem;  // a kernel without DAX has no such folder
    for (fs::directory_iterator it(folder_of_devices(tree), problem), end; !problem && it != end;
         it.increment(problem)) {
        std::error_code unbound;
        const auto driver = fs::read_symlink(it->path() / "driver", unbound).filename().string();
        lines.push_back(it->path().filename().string() + " " + driver + "\n");
    }
    std::sort(lines.begin(), lines.end());
    std::string text;
    for (const auto& line : lines)
        text += line;
    return text;
}

Result<OpenDevice> open_device(const std::string& path, const DeviceTree& tree) {
    auto device = device_of(path, tree);
    if (!device) return device.error();
    if (const auto checked = check_mode(*device); !checked) return checked.error();
    OpenDevice opened;
    opened.device = std::move(*device);
    opened.descriptor = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!opened.descriptor) return cannot_open(opened.device, errno);
    auto head = shm::Mapping::map(opened.descriptor.get(), 0, opened.device.alignment, path.c_str(),
                                  opened.device.alignment);
    if (!head) return head.error();
    opened.head = std::move(*head);
    opened.found = read_device_head(opened.head.data());
    return opened;
}

Result<std::string> find_device(const Uuid& uuid, const DeviceTree& tree) {
    std::string found, unseen;
    for (const auto& device : list_devices(tree)) {
        const auto opened = open_device(device.path, tree);
        if (!opened) unseen += "; " + opened.error().text;
        if (!opened || opened->found.state != DeviceHead::State::header) continue;
        if (!(opened->found.header.uuid == uuid)) continue;
        if (!found.empty()) return one_uuid(uuid, found, device.path);
        found = device.path;
    }
    if (!found.empty()) return found;
    return Error{Code::unavailable, "no DAX device has UUID " + uuid.text() +
                                        " in its header: maructl device list shows those that have one" +
                                        unseen};
}

Result<void> check_devices(const std::vector<PoolConfig>& pools, const DeviceTree& tree) {
    struct Seen {
        std::string pool;
        DaxDevice device;
        DeviceHead head;
    };
    std::vector<Seen> seen;
    for (const auto& config : pools) {
        if (config.kind != Kind::devdax) continue;
        const std::string what = "pool '" + config.name + "'";
        const auto path = path_of(config.path, tree);
        if (!path) return Error{path.error().code, what + ": " + path.error().text};
        auto opened = open_device(*path, tree);
        if (!opened) return Error{opened.error().code, what + ": " + opened.error().text};
        for (const auto& other : seen) {
            if (other.device.number == opened->device.number)
                return Error{Code::invalid, "pools '" + other.pool + "' and '" + config.name +
                                                "' are one device, " + other.device.path +
                                                ": leave one of them out"};
            if (other.head.state == DeviceHead::State::header &&
                opened->found.state == DeviceHead::State::header &&
                other.head.header.uuid == opened->found.header.uuid)
                return one_uuid(opened->found.header.uuid, other.device.path, opened->device.path);
        }
        seen.push_back({config.name, std::move(opened->device), std::move(opened->found)});
    }
    return {};
}

Result<std::string> path_of(const std::string& path, const DeviceTree& tree) {
    if (path == "any") return no_usable_device(tree);
    if (path.compare(0, 5, "uuid:") != 0) return path;
    const auto uuid = Uuid::parse(path.substr(5));
    if (!uuid) return uuid.error();
    return find_device(*uuid, tree);
}

std::vector<std::string> usable_devices(const DeviceTree& tree) {
    std::vector<std::string> usable;
    for (const auto& device : list_devices(tree)) {
        if (device.mode != DeviceMode::devdax) continue;
        const auto opened = open_device(device.path, tree);
        if (opened && (opened->found.state == DeviceHead::State::blank ||
                       opened->found.state == DeviceHead::State::header))
            usable.push_back(device.path);
    }
    return usable;
}

}  // namespace maru::pool
