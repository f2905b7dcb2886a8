#include "daemon/metrics/instance_usage.hpp"

#include "wire/key_text.hpp"

namespace maru::daemon {
namespace {

std::uint64_t of(const table::Counts& counts, table::Counter counter) {
    return counts.of[static_cast<int>(counter)];
}

/// What is new since `before`. A count that is being moved by its client may read too low for a moment: it is
/// then seen the next time.
std::uint64_t growth(std::uint64_t now, std::uint64_t* before) {
    if (now <= *before) return 0;
    return now - std::exchange(*before, now);
}

}  // namespace

InstanceUsage::InstanceUsage(const table::Control& control, std::uint32_t host)
    : control_(control), host_(host), seen_(control.client_count()) {
    const auto counts = table::count_each(control);
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot)
        if (const auto client = table::read_client(control, slot))
            seen_[slot] = {client->identity.generation, of(counts[slot], table::Counter::lookups),
                           of(counts[slot], table::Counter::hits)};
}

bool InstanceUsage::is_ours(const table::ClientView& client) const {
    return !client.facts.is_daemon && client.facts.host == host_ &&
           client.phase != table::ClientPhase::connecting;
}

InstanceUsage::Key InstanceUsage::key_of(const table::ClientView& client) const {
    const auto number = client.facts.name_space;
    return {
        number < control_.namespace_count() ? wire::printable(control_.name_space(number).name.get()) : "",
        wire::printable(client.facts.instance_id)};
}

void InstanceUsage::look() {
    const auto counts = table::count_each(control_);
    std::vector<table::ClientView> clients;
    present_.clear();
    for (std::uint32_t slot = 1; slot < control_.client_count(); ++slot) {
        auto client = table::read_client(control_, slot);
        if (!client || !is_ours(*client)) continue;
        present_.insert(key_of(*client));
        clients.push_back(std::move(*client));
    }
    for (const auto& client : clients)
        take_in(client, counts[client.identity.slot]);
}

void InstanceUsage::look_at_leaving(table::Identity identity) {
    const auto client = table::read_client(control_, identity.slot);
    if (!client || client->identity.generation != identity.generation || !is_ours(*client)) return;
    take_in(*client, table::count_client(control_, identity));
}

void InstanceUsage::take_in(const table::ClientView& client, const table::Counts& now) {
    Seen& seen = seen_[client.identity.slot];
    if (seen.generation != client.identity.generation) seen = {client.identity.generation, 0, 0};
    const auto lookups = growth(of(now, table::Counter::lookups), &seen.lookups);
    const auto hits = growth(of(now, table::Counter::hits), &seen.hits);
    if (lookups == 0 && hits == 0) return;
    Row& row = row_of(key_of(client), seen.lookups);
    row.lookups += lookups;
    row.hits += hits;
}

void InstanceUsage::count_expired(std::uint32_t slot, std::uint64_t key_pins) {
    const auto client = table::read_client(control_, slot);
    // The pins of a client that left in this very moment are nobody's.
    Row& row = client && is_ours(*client) ? row_of(key_of(*client), seen_[slot].lookups) : other_of("");
    row.expired_key_pins += key_pins;
}

/// The row in which an instance counts that has made this many lookups.
InstanceUsage::Row& InstanceUsage::row_of(const Key& key, std::uint64_t lookups) {
    if (const auto found = named_.find(key); found != named_.end()) return found->second;
    if (key.second == other_instances) return other_of(key.first);
    if (named_.size() >= named_instances_max && !give_up_a_name(lookups)) return other_of(key.first);
    return named_.emplace(key, Row{key.first, key.second}).first->second;
}

InstanceUsage::Row& InstanceUsage::other_of(const std::string& name_space) {
    return others_.emplace(name_space, Row{name_space, other_instances}).first->second;
}

/// Frees the name of the least busy instance that has left; else that of the least busy, for one that is
/// twice as busy, so that two of a kind do not take turns.
bool InstanceUsage::give_up_a_name(std::uint64_t lookups) {
    auto least = named_.end();
    bool least_left = false;
    for (auto at = named_.begin(); at != named_.end(); ++at) {
        const bool left = present_.count(at->first) == 0;
        if (least == named_.end() || (left && !least_left) ||
            (left == least_left && at->second.lookups < least->second.lookups)) {
            least = at;
            least_left = left;
        }
    }
    if (!least_left && lookups / 2 <= least->second.lookups) return false;
    Row& other = other_of(least->first.first);
    other.lookups += least->second.lookups;
    other.hits += least->second.hits;
    other.expired_key_pins += least->second.expired_key_pins;
    named_.erase(least);
    return true;
}

std::vector<InstanceUsage::Row> InstanceUsage::rows() const {
    std::vector<Row> rows;
    for (const auto& [key, row] : named_)
        rows.push_back(row);
    for (const auto& [name_space, row] : others_)
        rows.push_back(row);
    return rows;
}

}  // namespace maru::daemon
