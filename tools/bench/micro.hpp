// The parts of `maru-bench micro`: one group of rows each, over one domain that holds `objects` objects.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "engine.hpp"
#include "keys.hpp"
#include "private_domain.hpp"
#include "report.hpp"

namespace maru::bench {

struct MicroSizes {
    std::size_t objects, slice,
        stores;  // in the domain; looked up in one round; stored and removed in one round
    int rounds;
    std::uint64_t span_ns;  // of one turn of the process rows
};
inline constexpr MicroSizes whole_micro{1'000'000, 1u << 18, 1u << 16, 11, 300'000'000};
inline constexpr MicroSizes quick_micro{50'000, 1u << 15, 1u << 13, 5, 100'000'000};
inline constexpr std::uint64_t micro_page_bytes = 4096;

/// What the groups share. `spare` are keys that the domain does not hold between two groups.
struct Bench {
    const MicroSizes& sizes;
    Domain& domain;
    maru_client* client;
    const KeySet& keys;
    const KeySet& spare;
    Report& report;
};

Result<void> measure_lookups(const Bench& bench);
Result<void> measure_hot_lookups(const Bench& bench);
Result<void> measure_stores(const Bench& bench);
Result<void> measure_stopped_daemon(const Bench& bench);
Result<void> measure_two_processes(const Bench& bench);
void measure_system_calls(const Bench& bench);

}  // namespace maru::bench
