// The parts of `maru-bench recovery`: one group of rows each, over one domain that holds `objects` objects.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "engine.hpp"
#include "keys.hpp"
#include "private_domain.hpp"
#include "report.hpp"
#include "table/control.hpp"

namespace maru::bench {

struct RecoverySizes {
    std::size_t objects;      // in the domain
    std::size_t pages, pins;  // of the client that is killed
    int rounds;
    std::size_t connects, claims;  // of one round
    std::uint64_t more_bytes;      // for the clients that come and go
};
inline constexpr RecoverySizes whole_recovery{1'000'000, 10'000, 10'000, 7, 25, 4, 1ull << 30};
inline constexpr RecoverySizes quick_recovery{50'000, 2'000, 2'000, 5, 10, 2, 1ull << 28};
inline constexpr std::uint64_t recovery_page_bytes = 4096, claim_page_bytes = 1 << 20;

/// What the groups share. `control` is the domain as this process maps it: what is counted is counted there,
/// never asked of the daemon.
struct Recovery {
    const RecoverySizes& sizes;
    Domain& domain;
    maru_client* client;
    const table::Control& control;
    Report& report;
};

Result<void> measure_client_death(const Recovery& recovery);
Result<void> measure_daemon_restart(const Recovery& recovery);
Result<void> measure_connect(const Recovery& recovery);
Result<void> measure_region_claim(const Recovery& recovery);
void measure_idle_processor(const Recovery& recovery, unsigned seconds);
void measure_control_overhead(const Recovery& recovery);

}  // namespace maru::bench
