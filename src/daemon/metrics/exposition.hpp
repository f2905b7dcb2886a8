// What a scrape gets to read: every metric of the daemon in Prometheus' text format.
#pragma once

#include <string>
#include <vector>

#include "daemon/admin.hpp"
#include "daemon/admin/census.hpp"
#include "daemon/metrics/instance_usage.hpp"

namespace maru::daemon {

/// What the text is made from.
struct Exposition {
    const table::Control& control;
    const DaemonFacts& facts;
    const Tally& tally;  // the last whole count
    std::vector<InstanceUsage::Row> instances;
};

/// The text. Labels from shared memory and from clients are made printable first: valid UTF-8 whatever they
/// hold. A metric without a row is left out.
std::string expose(const Exposition& exposition);

}  // namespace maru::daemon
