// Namespaces: a name, a quota, access rules, and the epoch that a flush raises.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "table/worker.hpp"

namespace maru::table {

inline constexpr std::size_t namespace_name_max = 63;  // bytes

/// Who may enter. Empty users and groups: everybody; members of `readers` that neither of them names read
/// only.
struct NamespaceRules {
    std::vector<std::uint32_t> users, groups, readers;
    std::size_t members() const { return users.size() + groups.size() + readers.size(); }
    friend bool operator==(const NamespaceRules&, const NamespaceRules&) = default;
};

/// What an administrator or a config decides about a namespace.
struct NamespacePolicy {
    std::uint64_t quota = 0;  // bytes; 0: none
    NamespaceRules rules;
    bool by_administrator = false;
};

struct NamespaceView {
    std::uint32_t id = 0, generation = 0;
    std::string name;
    NamespacePolicy policy;
    std::uint64_t epoch = 0, claimed = 0;
    bool flushing = false, removing = false;
};

/// 1 to namespace_name_max bytes without blanks and control characters; invalid, with what is wrong.
Result<void> check_namespace_name(const std::string& name);
/// At most namespace_members_max members in all; invalid, with both numbers.
Result<void> check_namespace_rules(const NamespaceRules& rules);

/// A namespace as it reads now; nothing for an id that is not in use.
std::optional<NamespaceView> read_namespace(const Control& control, std::uint32_t id);
std::optional<std::uint32_t> find_namespace(const Control& control, const std::string& name);
/// The same for whoever asks by name: invalid, with what lists the names.
Result<std::uint32_t> named_namespace(const Control& control, const std::string& name);

/// Makes a namespace of a name that none has. Full when control.max_namespaces are made; invalid for a name
/// or rules that cannot be. Only the daemon that owns the domain makes, changes and removes them. Death: in
/// the middle leaves an entry that is not in use.
Result<std::uint32_t> make_namespace(const Control& control, const std::string& name,
                                     const NamespacePolicy& policy);
/// Death: in the middle leaves quota and rules each as before or as after.
void set_policy(const Control& control, std::uint32_t id, const NamespacePolicy& policy);
/// The entry is free; its id comes back with another generation.
void forget_namespace(const Control& control, std::uint32_t id);

/// The objects of the namespace are found by nobody from here on, and what is stored from here on stays.
/// `flush_records` gives their memory back. Death: the mark `flushing` comes first and stays.
void begin_flush(const Control& control, std::uint32_t id);
void mark_namespace(const Control& control, std::uint32_t id, bool flushing, bool removing);

/// Objects of a namespace that were stored before its last flush.
struct Flushed {
    std::uint64_t gone = 0, gone_bytes = 0;  // evicted now; bytes of their pages
    std::uint64_t held = 0, held_bytes = 0;  // somebody reads or has pinned them
};
/// Looks at `count` page records from `first` on. `dry`: counts what a flush would take as gone, and leaves
/// it.
void flush_records(Worker& worker, std::uint32_t id, std::uint32_t first, std::uint32_t count, bool dry,
                   Flushed* sum);

/// Bytes of all pages of the namespace's regions.
std::uint64_t claimed_bytes(const Control& control, std::uint32_t id);
/// Writes `claimed` of this namespace as it is now, and returns it.
std::uint64_t recount_claimed(const Control& control, std::uint32_t id);
/// Bytes of the namespace's pages that are not free, by the hints: no page record is read. Wrong by what
/// others take and give back meanwhile.
std::uint64_t used_bytes(const Control& control, std::uint32_t id);
/// The namespace has a quota and as much memory as that allows: nothing more may be claimed.
bool is_claimed_up(const Control& control, std::uint32_t id);

}  // namespace maru::table
