// Where this build came from.
#pragma once

namespace maru::daemon {

/// The commit of the source, "unknown" when it was not built in a checkout.
extern const char* const commit;

}  // namespace maru::daemon
