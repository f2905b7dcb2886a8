// Users and groups as people write them: by name or by number.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace maru::daemon {

enum class Principal { user, group };

/// The number of a user or group. Invalid, naming the text and how to find the right one, for a name that
/// this host does not know and for a number that is none.
Result<std::uint32_t> parse_principal(Principal kind, const std::string& text);
/// -1 names nobody.
inline constexpr std::uint32_t principal_max = UINT32_MAX - 1;

}  // namespace maru::daemon
