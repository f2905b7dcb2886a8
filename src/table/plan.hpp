// The outcome of planning a control region: every size and every place.
#pragma once

#include <vector>

#include "table/control.hpp"

namespace maru::table {

struct ControlPlan {
    ControlSizes sizes;
    std::uint32_t pools = 0;  // entries in the pool table
    std::uint64_t pools_at = 0, hosts_at = 0, clients_at = 0, client_stats_at = 0, namespaces_at = 0,
                  regions_at = 0;
    std::uint64_t overflow_claims_at = 0, granule_claims_at = 0, hints_at = 0;
    std::uint64_t pin_chunks_at = 0, index_at = 0, records_at = 0;
    std::vector<std::uint64_t> data_offsets;  // of each planned pool
};

Result<ControlPlan> lay_out(const FormatPlan& plan);

}  // namespace maru::table
