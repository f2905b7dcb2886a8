// Namespaces by name, and who may enter them.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/process.hpp"
#include "table/namespaces.hpp"

namespace maru::daemon {

/// The id of a namespace; one that has no entry yet is made. Empty means the default one. Full when
/// control.max_namespaces have been made, invalid for a name that cannot be one.
/// Only the daemon that owns the domain makes entries. Death: in the middle leaves an entry that is not in
/// use.
Result<std::uint32_t> find_or_make_namespace(const table::Control& control, const std::string& name);

enum class Access { none, read, write };
/// What the rules let this process do. Root and the daemon's own user may do everything; whom users or groups
/// name may write, also if a group of readers has it, too.
Access access_of(const table::NamespaceRules& rules, const Peer& peer);

}  // namespace maru::daemon
