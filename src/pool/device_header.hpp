// The header in front of a DAX device: which device it is, whatever path a host has for it.
//
// | bytes   | what                                                                       |
// |---------|----------------------------------------------------------------------------|
// | 0-7     | magic "MARUDEV" and a zero byte                                            |
// | 8-11    | version, little endian: 1 ends behind the UUID                             |
// | 12-27   | UUID of the device                                                         |
// | 28-31   | zero                                                                       |
// | 32-47   | UUID of its domain, zero: none                                             |
// | 48-55   | bytes behind the header                                                    |
// | 56-63   | region size of the domain                                                  |
// | 64-67   | role: 0 none, 1 control, 2 data                                            |
// | 68-119  | zero                                                                       |
// | 120-127 | XXH3-64 of the bytes before it                                             |
//
// Hosts that are not coherent agree on it: written and read with cache-line flushes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/uuid.hpp"

namespace maru::pool {

inline constexpr std::uint32_t device_header_version = 2;
inline constexpr std::size_t device_head_bytes = 4096;  // looked at to tell a blank device

enum class DeviceRole : std::uint32_t { none = 0, control = 1, data = 2 };
const char* name_of(DeviceRole role);

struct DeviceHeader {
    std::uint32_t version = device_header_version;
    Uuid uuid;
    Uuid domain;  // empty: of no domain
    std::uint64_t size = 0;
    std::uint64_t region_size = 0;
    DeviceRole role = DeviceRole::none;
    friend bool operator==(const DeviceHeader&, const DeviceHeader&) = default;
};

/// What lies at the head of a device.
struct DeviceHead {
    enum class State {
        blank,    ///< zeroes
        header,   ///< of version 1 or 2
        foreign,  ///< something else: somebody's data
        damaged,  ///< our magic, and a version or checksum that cannot be
    } state = State::blank;
    DeviceHeader header;  ///< of a header; of a damaged one what can be told
    std::string fault;    ///< of foreign and damaged, for people
};

/// `at`: device_head_bytes of the device, mapped. A writer in between is waited out a few times.
DeviceHead read_device_head(const void* at);
/// Version 2, whatever the header says. Death in the middle leaves a damaged or foreign head.
void write_device_header(void* at, const DeviceHeader& header);
/// Makes the head blank.
void clear_device_head(void* at);

}  // namespace maru::pool
