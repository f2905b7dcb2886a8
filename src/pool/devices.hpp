// The DAX devices of this machine: what the kernel says of them, and the header on them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pool/device_header.hpp"
#include "pool/pool.hpp"

namespace maru::pool {

enum class DeviceMode { devdax, system_ram, disabled };
const char* name_of(DeviceMode mode);

struct DaxDevice {
    std::string name;  // "dax0.0"
    std::string path;  // "/dev/dax0.0"
    std::uint64_t size = 0, alignment = 0;
    DeviceMode mode = DeviceMode::disabled;
    int target_node = -1;  // the NUMA node that it is as system RAM; -1: none
    bool pages_on_device =
        false;                 // the kernel keeps its own page descriptors on the device (ndctl --map=dev)
    std::uint64_t number = 0;  // device number: the same under every path
};

/// Where devices are looked for. Unit tests give a folder that looks like sysfs and plain files as devices;
/// the product takes nothing but character devices.
struct DeviceTree {
    std::string sysfs = "/sys", dev = "/dev";
    bool plain_files = false;
};

/// By libdaxctl where the build has it, else from sysfs; ordered by name.
std::vector<DaxDevice> list_devices(const DeviceTree& tree = {});

/// A text that changes when a device comes, goes, or is bound to another driver. Reads a few links, opens
/// nothing: to be asked often.
std::string devices_now(const DeviceTree& tree = {});

/// An opened device with its header unit mapped.
struct OpenDevice {
    DaxDevice device;
    Descriptor descriptor;
    shm::Mapping head;  // one alignment unit
    DeviceHead found;
};
/// Opens "/dev/daxX.Y" or any other path of a device. Refuses, with the command that changes it: what is no
/// DAX device, system RAM, a disabled one, one that this user may not open.
Result<OpenDevice> open_device(const std::string& path, const DeviceTree& tree = {});

/// The path of the device with this UUID in its header; two of them are an error that names both. When there
/// is none, the error says which devices could not be looked at, and why.
Result<std::string> find_device(const Uuid& uuid, const DeviceTree& tree = {});
/// The path that this host has for "uuid:..."; any other path as it is. The error for "any" tells why each
/// device of this machine is of no use.
Result<std::string> path_of(const std::string& path, const DeviceTree& tree = {});
/// Paths of the devices that have our header or are blank.
std::vector<std::string> usable_devices(const DeviceTree& tree = {});

/// Whether these pools' devices (other kinds pass) can be opened, and are as many as the pools: errors as
/// open_device, and for two pools on one device or two devices with one UUID, naming both. Changes nothing.
Result<void> check_devices(const std::vector<PoolConfig>& pools, const DeviceTree& tree = {});

/// A whole device as a pool, behind one alignment unit of header. Errors as open_device, and for what is not
/// maru's. A header of version 1 is opened: `enter_domain` replaces it.
Result<std::unique_ptr<Pool>> open_devdax(const PoolConfig& config, const DeviceTree& tree = {});

}  // namespace maru::pool
