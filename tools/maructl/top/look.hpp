// What marutop sees of a domain in one look, and what changed between two.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon.hpp"

namespace maru::ctl::top {

/// A pool. Bytes.
struct Device {
    std::string name, type, path;
    std::uint64_t total = 0, free = 0, used = 0;
};

/// A client.
struct Instance {
    std::uint64_t slot = 0, generation = 0;
    std::string name;  // safe for a terminal
    std::string name_space, state;
    std::uint64_t pid = 0, uid = 0, connected_s = 0;
    std::uint64_t regions = 0, leases = 0, key_pins = 0;
    std::uint64_t allocated = 0, used = 0, slack = 0;  // bytes: of its regions, of pages in use, of the rest
    std::uint64_t lookups = 0, hits = 0, stores = 0, duplicates = 0, deletes = 0, evictions = 0;

    std::uint64_t pinned() const { return leases + key_pins; }
    std::uint64_t operations() const { return lookups + stores + duplicates + deletes; }
};

struct Look {
    std::chrono::system_clock::time_point time;
    MonotonicClock::time_point at;
    Json status;
    std::vector<Device> devices;
    std::vector<Instance> instances;

    std::uint64_t total() const;
    std::uint64_t free() const;
};

/// Asks the daemon for everything. Bounded as Daemon is.
Result<Look> look_at(Daemon& daemon);

/// What an instance did in the time between two looks, or, without an earlier one, since it connected.
struct Pace {
    double operations_a_second = 0;
    std::optional<double> hit_percent;  // nothing: it looked nothing up
};
Pace pace_of(const Instance& instance, const Look& now, const Look* before);

/// How many more bytes of the device are in use than in the look before.
std::int64_t change_of(const Device& device, const Look* before);

/// "2026-01-31T12:00:00Z".
std::string text_of(std::chrono::system_clock::time_point time);

}  // namespace maru::ctl::top
