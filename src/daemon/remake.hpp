// --format and --remove: what ends a domain.
#pragma once

#include "daemon/config.hpp"
#include "daemon/exit_code.hpp"

namespace maru::daemon {

/// Makes the domain anew and ends. Names what would be lost and asks, unless `yes`. Refuses while a client
/// lives.
ExitCode format_anew(const Config& config, bool yes, bool force);

/// Deletes a stopped domain's files. Asks in the same way, refuses in the same way.
ExitCode remove_domain(const Config& config, bool yes);

}  // namespace maru::daemon
