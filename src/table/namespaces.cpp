#include "table/namespaces.hpp"

#include <algorithm>
#include <bit>

#include "base/fault_point.hpp"
#include "table/regions.hpp"

namespace maru::table {
namespace {

std::vector<std::uint32_t> members_of(const NamespaceEntry& entry, std::uint64_t half, std::size_t from,
                                      std::size_t count) {
    std::vector<std::uint32_t> members;
    for (std::size_t i = from; i < from + count; ++i)
        members.push_back(entry.members[half][i].load(shm::relaxed));
    return members;
}

NamespacePolicy policy_of(const NamespaceEntry& entry) {
    using namespace namespace_rules;
    NamespacePolicy policy;
    policy.quota = entry.quota.load(shm::relaxed);
    const std::uint64_t word = entry.rules.load(shm::acquire);  // pairs with the release of write_rules
    if (!is_sound(word)) {
        policy.rules.users = {0};  // damage opens nothing
        return policy;
    }
    const std::uint64_t half = Half::get(word);
    policy.by_administrator = ByAdministrator::get(word) != 0;
    policy.rules.users = members_of(entry, half, 0, Users::get(word));
    policy.rules.groups = members_of(entry, half, Users::get(word), Groups::get(word));
    policy.rules.readers = members_of(entry, half, Users::get(word) + Groups::get(word), Readers::get(word));
    return policy;
}

void write_rules(NamespaceEntry& entry, const NamespaceRules& rules, bool by_administrator) {
    using namespace namespace_rules;
    const std::uint64_t half = 1 - Half::get(entry.rules.load(shm::relaxed));
    std::size_t at = 0;
    for (const auto* list : {&rules.users, &rules.groups, &rules.readers})
        for (const std::uint32_t member : *list)
            entry.members[half][at++].store(member, shm::relaxed);
    fault_point("namespace.rules.written");
    // release: who sees the word sees the members
    entry.rules.store(Half::put(half) | Users::put(rules.users.size()) | Groups::put(rules.groups.size()) |
                          Readers::put(rules.readers.size()) |
                          ByAdministrator::put(by_administrator ? 1u : 0u),
                      shm::release);
}

/// Calls visit(entry) for each region of the namespace that is in use.
template <class Visit>
void each_region(const Control& control, std::uint32_t id, Visit&& visit) {
    for (std::uint32_t number = 0; number < control.region_count();) {
        const RegionEntry& entry = control.region(number);
        const RegionPhase phase = RegionState::unpack(entry.state.load(shm::acquire)).phase;
        const bool is_head =
            phase == RegionPhase::held || phase == RegionPhase::draining || phase == RegionPhase::sealing;
        if (is_head && entry.name_space.load(shm::relaxed) == id) visit(entry);
        number += is_head ? std::max(entry.unit_count.load(shm::relaxed), 1u) : 1;
    }
}

std::uint64_t page_bytes_of(const RegionEntry& entry) {
    return std::uint64_t{entry.page_4k.load(shm::relaxed)} * page_align;
}

}  // namespace

Result<void> check_namespace_name(const std::string& name) {
    const bool printable = std::all_of(name.begin(), name.end(), [](char letter) {
        return static_cast<unsigned char>(letter) > 0x20 && letter != 0x7f;
    });
    if (!name.empty() && name.size() <= namespace_name_max && printable) return {};
    return Error{Code::invalid, "a namespace has a name of 1 to " + std::to_string(namespace_name_max) +
                                    " bytes without blanks and control characters; this one has " +
                                    std::to_string(name.size())};
}

Result<void> check_namespace_rules(const NamespaceRules& rules) {
    if (rules.members() <= namespace_members_max) return {};
    return Error{Code::invalid, "the rules of a namespace name at most " +
                                    std::to_string(namespace_members_max) +
                                    " users and groups in all, these name " +
                                    std::to_string(rules.members()) + ": use a group for several users"};
}

std::optional<NamespaceView> read_namespace(const Control& control, std::uint32_t id) {
    using namespace namespace_state;
    if (id >= control.namespace_count()) return {};
    const NamespaceEntry& entry = control.name_space(id);
    const std::uint64_t state = entry.state.load(shm::acquire);  // pairs with who makes the entry
    if (InUse::get(state) == 0) return {};
    NamespaceView view;
    view.id = id;
    view.generation = static_cast<std::uint32_t>(Generation::get(state));
    view.name = entry.name.get();
    view.policy = policy_of(entry);
    view.epoch = entry.epoch.load(shm::relaxed);
    view.claimed = entry.claimed.load(shm::relaxed);
    view.flushing = Flushing::get(state) != 0;
    view.removing = Removing::get(state) != 0;
    return view;
}

std::optional<std::uint32_t> find_namespace(const Control& control, const std::string& name) {
    for (std::uint32_t id = 0; id < control.namespace_count(); ++id) {
        const NamespaceEntry& entry = control.name_space(id);
        if (namespace_state::InUse::get(entry.state.load(shm::acquire)) != 0 && entry.name.get() == name)
            return id;
    }
    return {};
}

Result<std::uint32_t> named_namespace(const Control& control, const std::string& name) {
    if (const auto id = find_namespace(control, name)) return *id;
    return Error{Code::invalid, "there is no namespace \"" + name.substr(0, namespace_name_max) +
                                    "\": `maructl namespaces` lists them"};
}

Result<std::uint32_t> make_namespace(const Control& control, const std::string& name,
                                     const NamespacePolicy& policy) {
    using namespace namespace_state;
    if (auto valid = check_namespace_name(name); !valid) return valid.error();
    if (auto valid = check_namespace_rules(policy.rules); !valid) return valid.error();
    for (std::uint32_t id = 0; id < control.namespace_count(); ++id) {
        NamespaceEntry& entry = control.name_space(id);
        const std::uint64_t state = entry.state.load(shm::acquire);
        if (InUse::get(state) != 0) continue;
        entry.name.set(name);
        entry.claimed.store(0, shm::relaxed);
        set_policy(control, id, policy);
        fault_point("namespace.make.filled");
        // release: pairs with the acquire of who reads entries
        entry.state.store(InUse::put(1) | Generation::put(Generation::get(state) + 1), shm::release);
        return id;
    }
    return Error{Code::full, "all " + std::to_string(control.namespace_count()) + " namespaces are made, \"" +
                                 name + "\" would be one more: raise control.max_namespaces"};
}

void set_policy(const Control& control, std::uint32_t id, const NamespacePolicy& policy) {
    NamespaceEntry& entry = control.name_space(id);
    write_rules(entry, policy.rules, policy.by_administrator);
    fault_point("namespace.set.rules");
    entry.quota.store(policy.quota, shm::relaxed);
    recount_claimed(control, id);
}

void forget_namespace(const Control& control, std::uint32_t id) {
    Word64& state = control.name_space(id).state;
    state.store(namespace_state::Generation::put(namespace_state::Generation::get(state.load(shm::relaxed))),
                shm::release);
}

void mark_namespace(const Control& control, std::uint32_t id, bool flushing, bool removing) {
    using namespace namespace_state;
    Word64& state = control.name_space(id).state;
    const std::uint64_t kept = state.load(shm::relaxed) & (InUse::put(1) | Generation::put(Generation::mask));
    state.store(kept | Flushing::put(flushing ? 1u : 0u) | Removing::put(removing ? 1u : 0u), shm::release);
}

void begin_flush(const Control& control, std::uint32_t id) {
    NamespaceEntry& entry = control.name_space(id);
    mark_namespace(control, id, true, namespace_state::Removing::get(entry.state.load(shm::relaxed)) != 0);
    fault_point("namespace.flush.marked");
    // seq_cst: a lookup that begins after the flush was answered reads the new epoch
    entry.epoch.fetch_add(1, shm::seq_cst);
    fault_point("namespace.flush.raised");
}

std::uint64_t claimed_bytes(const Control& control, std::uint32_t id) {
    std::uint64_t bytes = 0;
    each_region(control, id, [&](const RegionEntry& entry) {
        bytes += entry.page_count.load(shm::relaxed) * page_bytes_of(entry);
    });
    return bytes;
}

std::uint64_t recount_claimed(const Control& control, std::uint32_t id) {
    const std::uint64_t bytes = claimed_bytes(control, id);
    control.name_space(id).claimed.store(bytes, shm::relaxed);
    return bytes;
}

std::uint64_t used_bytes(const Control& control, std::uint32_t id) {
    std::uint64_t bytes = 0;
    each_region(control, id, [&](const RegionEntry& entry) {
        const std::uint32_t first = entry.first_record.load(shm::relaxed) / records_per_granule;
        const std::uint32_t count = entry.granules.load(shm::relaxed);
        if (first >= control.granule_count() || count > control.granule_count() - first) return;  // damage
        std::uint32_t free = 0;
        for (std::uint32_t granule = first; granule < first + count; ++granule)
            free += static_cast<std::uint32_t>(std::popcount(control.hint(granule).load(shm::relaxed)));
        const std::uint32_t pages = entry.page_count.load(shm::relaxed);
        bytes += (pages - std::min(free, pages)) * page_bytes_of(entry);
    });
    return bytes;
}

bool is_claimed_up(const Control& control, std::uint32_t id) {
    const NamespaceEntry& entry = control.name_space(id);
    const std::uint64_t quota = entry.quota.load(shm::relaxed);
    return quota != 0 && entry.claimed.load(shm::relaxed) >= quota;
}

}  // namespace maru::table
