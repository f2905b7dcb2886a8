#include "daemon/name_space.hpp"

#include <unistd.h>

#include <algorithm>

namespace maru::daemon {
namespace {

bool list_names(const std::vector<std::uint32_t>& list, std::uint32_t one) {
    return std::find(list.begin(), list.end(), one) != list.end();
}

bool list_names_group(const std::vector<std::uint32_t>& list, const Peer& peer) {
    return list_names(list, peer.gid) ||
           std::any_of(peer.groups.begin(), peer.groups.end(),
                       [&](std::uint32_t group) { return list_names(list, group); });
}

}  // namespace

Result<std::uint32_t> find_or_make_namespace(const table::Control& control, const std::string& name) {
    if (name.empty()) return std::uint32_t{0};
    if (const auto known = table::find_namespace(control, name)) return *known;
    return table::make_namespace(control, name, {});
}

Access access_of(const table::NamespaceRules& rules, const Peer& peer) {
    if (peer.uid == 0 || peer.uid == ::geteuid()) return Access::write;
    if (list_names(rules.users, peer.uid) || list_names_group(rules.groups, peer)) return Access::write;
    if (list_names_group(rules.readers, peer)) return Access::read;
    return rules.users.empty() && rules.groups.empty() ? Access::write : Access::none;
}

}  // namespace maru::daemon
