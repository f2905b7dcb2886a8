// Which host this is, and whether another one still lives; for the daemon and for tools without it.
#pragma once

#include <chrono>
#include <string>

#include "daemon/config.hpp"
#include "table/hosts.hpp"

namespace maru::daemon {

/// daemon.host_id, else the machine's id, else the host name.
std::string host_id_of(const Config& config);
/// What this host's entry says.
table::HostFacts own_host(const Config& config);
/// A boot id as /proc/sys/kernel/random/boot_id shows it.
std::string boot_text(const table::HostFacts& facts);

/// Waits until the beat of a host moves (true) or has stood still for `grace` or was fenced (false).
/// Contended: SIGTERM or SIGINT, blocked by the caller, came meanwhile.
Result<bool> beats_within(const table::Control& control, const table::HostView& host,
                          std::chrono::milliseconds grace);

}  // namespace maru::daemon
