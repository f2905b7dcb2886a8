// Namespaces by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "table/control.hpp"

namespace maru::daemon {

/// The id of a namespace; one that has no entry yet is made. Empty means the default one. Full when
/// control.max_namespaces have been made, invalid for a name that cannot be one.
/// Only the daemon that owns the domain makes entries. Death: in the middle leaves an entry that is not in
/// use.
Result<std::uint32_t> find_or_make_namespace(const table::Control& control, const std::string& name);

/// The id of a namespace that is in use; nothing when none has this name.
std::optional<std::uint32_t> find_namespace(const table::Control& control, const std::string& name);

}  // namespace maru::daemon
