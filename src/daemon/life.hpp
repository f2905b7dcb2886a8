// Whether a client's process still lives: the lock first, then the process by its number and start.
#pragma once

#include <string>

#include "daemon/lock_file.hpp"
#include "table/clients.hpp"

namespace maru::daemon {

enum class Life { lives, dead, unknown };

/// What the lock file and the kernel know of a client. Dead is proven; unknown is not.
Life life_of(const LockFile& lock, const table::ClientView& client);

/// "'engine-3' (process 4711)".
std::string text_of_client(const table::ClientFacts& client);

}  // namespace maru::daemon
