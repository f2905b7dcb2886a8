// How the daemon ends.
#pragma once

namespace maru::daemon {

/// Exit codes of `maru`; they never change.
enum class ExitCode : int {
    clean = 0,
    failure = 1,     ///< at run time
    bad_config = 2,  ///< or command line
    owned = 3,       ///< another daemon owns the domain or the socket
    no_pool = 4,     ///< none that can be used
};

}  // namespace maru::daemon
