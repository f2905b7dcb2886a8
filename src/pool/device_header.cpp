#include "pool/device_header.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shm/flush.hpp"

namespace maru::pool {
namespace {

constexpr char magic[8] = {'M', 'A', 'R', 'U', 'D', 'E', 'V', 0};
constexpr std::size_t header_bytes = 128, checksum_at = 120;
constexpr int reads_max = 8;
using Head = std::array<unsigned char, device_head_bytes>;

template <class Number>
Number number_at(const unsigned char* bytes, std::size_t at) {
    Number value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i)
        value =
            static_cast<Number>(value | static_cast<Number>(static_cast<Number>(bytes[at + i]) << (8 * i)));
    return value;
}

template <class Number>
void put_number(unsigned char* bytes, std::size_t at, Number value) {
    for (std::size_t i = 0; i < sizeof value; ++i)
        bytes[at + i] = static_cast<unsigned char>(value >> (8 * i));
}

Uuid uuid_at(const unsigned char* bytes, std::size_t at) {
    Uuid uuid;
    std::copy_n(bytes + at, uuid.bytes.size(), uuid.bytes.begin());
    return uuid;
}

std::string first_bytes(const Head& head) {
    char text[40];
    std::snprintf(text, sizeof text, "%02x %02x %02x %02x %02x %02x %02x %02x", head[0], head[1], head[2],
                  head[3], head[4], head[5], head[6], head[7]);
    return text;
}

DeviceHead decode(const Head& head) {
    DeviceHead found;
    const unsigned char* bytes = head.data();
    if (std::all_of(head.begin(), head.end(), [](unsigned char byte) { return byte == 0; })) return found;
    if (std::memcmp(bytes, magic, sizeof magic) != 0) {
        found.state = DeviceHead::State::foreign;
        found.fault = "it holds something that is not maru's (first bytes " + first_bytes(head) + ")";
        return found;
    }
    auto& header = found.header;
    header.version = number_at<std::uint32_t>(bytes, 8);
    header.uuid = uuid_at(bytes, 12);
    found.state = DeviceHead::State::damaged;
    if (header.version == 0 || header.version > device_header_version) {
        found.fault = "its header has version " + std::to_string(header.version) +
                      ", this build knows up to " + std::to_string(device_header_version);
        return found;
    }
    if (header.version == 1) {
        found.state = DeviceHead::State::header;
        return found;
    }
    const auto stored = number_at<std::uint64_t>(bytes, checksum_at);
    const auto role = number_at<std::uint32_t>(bytes, 64);
    if (XXH3_64bits(bytes, checksum_at) != stored || role > static_cast<std::uint32_t>(DeviceRole::data)) {
        found.fault = "its header is damaged: the checksum does not fit";
        return found;
    }
    header.domain = uuid_at(bytes, 32);
    header.size = number_at<std::uint64_t>(bytes, 48);
    header.region_size = number_at<std::uint64_t>(bytes, 56);
    header.role = static_cast<DeviceRole>(role);
    found.state = DeviceHead::State::header;
    return found;
}

}  // namespace

const char* name_of(DeviceRole role) {
    switch (role) {
        case DeviceRole::none:
            return "none";
        case DeviceRole::control:
            return "control";
        case DeviceRole::data:
            return "data";
    }
    return "unknown";
}

DeviceHead read_device_head(const void* at) {
    DeviceHead found;
    for (int round = 0; round < reads_max; ++round) {
        Head head;
        shm::load_across(head.data(), at, head.size());
        found = decode(head);
        if (found.state != DeviceHead::State::damaged) break;
    }
    return found;
}

void write_device_header(void* at, const DeviceHeader& header) {
    std::array<unsigned char, header_bytes> bytes{};
    std::copy_n(magic, sizeof magic, bytes.begin());
    put_number(bytes.data(), 8, device_header_version);
    std::copy(header.uuid.bytes.begin(), header.uuid.bytes.end(), bytes.begin() + 12);
    std::copy(header.domain.bytes.begin(), header.domain.bytes.end(), bytes.begin() + 32);
    put_number(bytes.data(), 48, header.size);
    put_number(bytes.data(), 56, header.region_size);
    put_number(bytes.data(), 64, static_cast<std::uint32_t>(header.role));
    put_number(bytes.data(), checksum_at, static_cast<std::uint64_t>(XXH3_64bits(bytes.data(), checksum_at)));
    shm::store_across(at, bytes.data(), bytes.size());
}

void clear_device_head(void* at) {
    const Head zeroes{};
    shm::store_across(at, zeroes.data(), zeroes.size());
}

}  // namespace maru::pool
