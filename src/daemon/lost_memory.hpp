// The end of a daemon whose control region is gone.
#pragma once

#include <string>

#include "daemon/domain.hpp"

namespace maru::daemon {

/// From here on a SIGBUS in the control region of `domain` (a device that was disabled or has gone, a file
/// that was cut short, a bad page) is said on stderr and in `log_file` when there is one, and ends the
/// process with ExitCode::failure. Any other SIGBUS ends it as ever.
///
/// `domain` outlives the process's use of its memory; its mapping stays where it is.
/// Threads: call once, before others are started. The handler only writes prepared text and exits.
void end_when_memory_goes(const Domain& domain, const std::string& log_file);

}  // namespace maru::daemon
