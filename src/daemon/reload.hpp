// What a changed config changes in a daemon that runs.
#pragma once

#include <string>
#include <vector>

#include "daemon/config.hpp"

namespace maru::daemon {

/// Takes over from `fresh` what may change at run time. Returns a sentence for each difference that needs a
/// restart or a new format.
std::vector<std::string> apply_changes(const Config& fresh, Config* running);

}  // namespace maru::daemon
