// What runs on the hosts: actors that use the product's functions of shm/across_hosts.hpp and shm/flush.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace maru::caches {

struct Scenario {
    const char* name;
    bool clean_writes, process_kills, host_stops, header;
    std::uint64_t seeds;             // of the suite
    std::vector<const char*> meets;  // what must have happened in them, or they showed nothing
};
const std::vector<Scenario>& scenarios();

/// One schedule; empty, or the rule that was violated.
std::string run_seed(const Scenario& scenario, std::uint64_t seed);

// The two kinds of worlds.
void set_up_payload(const Scenario& scenario, std::uint64_t seed);
void payload_faults();
void payload_end();
void set_up_header(std::uint64_t seed);

}  // namespace maru::caches
