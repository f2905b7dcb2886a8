// Whether a client's process still lives: the lock first, then the process by its number, start and program.
#pragma once

#include <string>

#include "daemon/lock_file.hpp"
#include "table/clients.hpp"

namespace maru::daemon {

enum class Life { lives, dead, unknown };

/// What the lock file and the kernel know of a client. Dead is proven; unknown is not.
Life life_of(const LockFile& lock, const table::ClientView& client);

/// Its process runs another program since an exec: nothing of the client is left in it. False also when that
/// cannot be seen.
bool runs_another_program(const LockFile& lock, const table::ClientView& client);

/// "'engine-3' (process 4711)".
std::string text_of_client(const table::ClientFacts& client);

}  // namespace maru::daemon
