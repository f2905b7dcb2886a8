#include "daemon/admin/answers.hpp"
#include "table/namespaces.hpp"
#include "table/pools.hpp"

namespace maru::daemon {
namespace {

/// The open pool behind an entry of the control region, found by its name; nullptr when the daemon has none.
const pool::Pool* open_pool(const DaemonFacts& facts, const std::string& name) {
    if (facts.pools == nullptr) return nullptr;
    for (const auto& pool : *facts.pools)
        if (pool != nullptr && pool->name() == name) return pool.get();
    return nullptr;
}

std::string instance_of(const table::Control& control, std::uint64_t holder_word) {
    const auto slot = table::holder::slot(holder_word);
    if (slot == 0 || slot >= control.client_count()) return {};
    // acquire: with the release of who fills the slot
    const auto state = control.client(slot).state.load(shm::acquire);
    if (table::client_state::generation(state) != table::holder::generation(holder_word)) return {};
    return wire::printable(control.client(slot).instance_id.get());
}

Json holder_of(const table::Control& control, std::uint64_t holder_word) {
    if (holder_word == 0) return nullptr;
    return {{"slot", table::holder::slot(holder_word)},
            {"generation", table::holder::generation(holder_word)},
            {"instance_id", instance_of(control, holder_word)}};
}

Json json_of(const table::Control& control, const RegionTally& region) {
    const auto& view = region.view;
    const auto bytes = std::uint64_t{view.unit_count} * control.region_unit();
    const auto used = region.page_bytes() * view.page_count;
    return {{"region", view.number},
            {"state", table::name_of(view.phase)},
            {"pool", view.pool},
            {"offset", view.offset},
            {"bytes", bytes},
            {"page_bytes", region.page_bytes()},
            {"page_count", view.page_count},
            {"slack_bytes", bytes > used ? bytes - used : 0},
            {"namespace", wire::printable(control.name_space(view.name_space).name.get())},
            {"holder", holder_of(control, view.holder)},
            {"pages", json_of_pages(region.pages)}};
}

Json json_of(const table::Control& control, const table::ClientView& client, const ClientTally& tally) {
    const auto& facts = client.facts;
    const auto tick = control.super().tick.load(shm::relaxed);
    const bool quarantined = client.phase == table::ClientPhase::quarantined;
    Json counters;
    constexpr const char* names[table::counter_count] = {"lookups", "hits",      "stores",  "duplicates",
                                                         "deletes", "evictions", "rescues", "contended"};
    const auto counts = table::count_client(control, client.identity);
    for (int i = 0; i < table::counter_count; ++i)
        counters[names[i]] = counts.of[i];
    return {{"slot", client.identity.slot},
            {"generation", client.identity.generation},
            {"instance_id", wire::printable(facts.instance_id)},
            {"state", table::name_of(client.phase)},
            {"is_daemon", facts.is_daemon},
            {"host", facts.host},
            {"pid", facts.pid},
            {"uid", facts.uid},
            {"gid", facts.gid},
            {"namespace", facts.name_space < control.namespace_count()
                              ? wire::printable(control.name_space(facts.name_space).name.get())
                              : std::to_string(facts.name_space)},
            {"read_only", facts.read_only},
            {"connected_s", tick > client.connected_tick ? tick - client.connected_tick : 0},
            {"regions", tally.regions},
            {"region_bytes", tally.region_bytes},
            {"reserved_bytes", quarantined ? 0 : tally.reserved_bytes},
            {"quarantined_bytes", quarantined ? tally.reserved_bytes : 0},
            {"leases", tally.leases},
            {"key_pins", tally.key_pins},
            {"counters", counters}};
}

}  // namespace

Json json_of_pages(const PageTally& tally) {
    return {{"total", tally.pages()},           {"free", tally.free},       {"reserved", tally.reserved},
            {"published", tally.published},     {"retired", tally.retired}, {"pinned", tally.pinned},
            {"quarantined", tally.quarantined}, {"sealed", tally.sealed},   {"bad", tally.bad},
            {"value_bytes", tally.value_bytes}};
}

Json json_of_bytes(const PageTally& bytes, std::uint64_t total, std::uint64_t unclaimed) {
    const auto known = bytes.pages() + unclaimed;
    return {{"total", total},
            {"unclaimed", unclaimed},
            {"free", bytes.free},
            {"reserved", bytes.reserved},
            {"published", bytes.published},
            {"retired", bytes.retired},
            {"pinned", bytes.pinned},
            {"quarantined", bytes.quarantined},
            {"sealed", bytes.sealed},
            {"bad", bytes.bad},
            {"slack", total > known ? total - known : 0},
            {"values", bytes.value_bytes}};
}

void Sums::add(const RegionTally& region) {
    pages.add(region.pages);
    bytes.add(region.pages, region.page_bytes());
    ++regions;
    units += region.view.unit_count;
}

Json answer_pools(const Subject& subject) {
    const auto& control = subject.control;
    std::vector<Sums> sums(control.pool_count());
    for (const auto& region : subject.tally.regions)
        if (region.view.pool < sums.size()) sums[region.view.pool].add(region);
    auto rows = Json::array();
    for (std::uint32_t number = 0; number < control.pool_count(); ++number) {
        const auto& entry = control.pool(number);
        const auto state = static_cast<table::PoolState>(entry.state.load(shm::relaxed));
        if (state == table::PoolState::none || state == table::PoolState::removed) continue;
        const auto name = entry.name.get();
        const auto* open = open_pool(subject.facts, name);
        const std::uint64_t units = entry.unit_count.load(shm::relaxed);
        const auto& sum = sums[number];
        const auto unclaimed = units > sum.units ? (units - sum.units) * control.region_unit() : 0;
        rows.push_back({{"pool", number},
                        {"name", wire::printable(name)},
                        {"kind", pool::name_of(static_cast<pool::Kind>(entry.kind.load(shm::relaxed)))},
                        {"state", table::name_of(state)},
                        {"path", open == nullptr ? "" : open->path()},
                        {"description", open == nullptr ? "" : open->describe()},
                        {"size", entry.bytes.load(shm::relaxed)},
                        {"large_page_bytes",
                         subject.facts.large_page_bytes ? subject.facts.large_page_bytes(number) : 0},
                        {"control_bytes", number == 0 ? control.control_bytes() : 0},
                        {"unit_bytes", control.region_unit()},
                        {"units", units},
                        {"regions", sum.regions},
                        {"bytes", json_of_bytes(sum.bytes, units * control.region_unit(), unclaimed)}});
    }
    return {{"pools", rows}};
}

Json answer_regions(const Subject& subject, const Arguments& arguments) {
    const auto deadline = deadline_after(list_budget);
    auto rows = Json::array();
    Json next = nullptr;
    if (!subject.complete) next = arguments.cursor;
    for (const auto& region : subject.tally.regions) {
        if (!subject.complete) break;
        if (region.view.number < arguments.cursor) continue;
        if (rows.size() >= arguments.limit || (rows.size() % 64 == 63 && MonotonicClock::now() >= deadline)) {
            next = region.view.number;
            break;
        }
        rows.push_back(json_of(subject.control, region));
    }
    return {{"regions", rows}, {"next", next}};
}

Json answer_clients(const Subject& subject, const Arguments& arguments) {
    const auto deadline = deadline_after(list_budget);
    const auto& control = subject.control;
    auto rows = Json::array();
    Json next = nullptr;
    if (!subject.complete) next = arguments.cursor;
    for (auto slot = std::max<std::uint64_t>(1, arguments.cursor);
         subject.complete && slot < control.client_count(); ++slot) {
        if (rows.size() >= arguments.limit || (!rows.empty() && MonotonicClock::now() >= deadline)) {
            next = slot;
            break;
        }
        const auto client = table::read_client(control, static_cast<std::uint32_t>(slot));
        if (!client) continue;
        // A slot that changed hands since the count gets no numbers of its former client.
        const auto& counted = subject.tally.clients[slot];
        const bool same = counted.generation == client->identity.generation;
        rows.push_back(json_of(control, *client, same ? counted : ClientTally{}));
    }
    return {{"clients", rows}, {"next", next}};
}

Json answer_namespaces(const Subject& subject) {
    const auto& control = subject.control;
    std::vector<Sums> sums(control.namespace_count());
    for (const auto& region : subject.tally.regions)
        if (region.view.name_space < sums.size()) sums[region.view.name_space].add(region);
    auto rows = Json::array();
    std::vector<std::uint64_t> clients(control.namespace_count());
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot)
        if (const auto client = table::read_client(control, slot);
            client && !client->facts.is_daemon && client->facts.name_space < clients.size())
            ++clients[client->facts.name_space];
    for (std::uint32_t number = 0; number < control.namespace_count(); ++number) {
        const auto view = table::read_namespace(control, number);
        if (!view) continue;
        const auto& bytes = sums[number].bytes;
        rows.push_back({{"namespace", number},
                        {"name", wire::printable(view->name)},
                        {"quota", view->policy.quota},
                        {"used_bytes", bytes.pages() - bytes.free - bytes.sealed},
                        {"claimed_bytes", bytes.pages()},
                        {"objects", sums[number].pages.published},
                        {"regions", sums[number].regions},
                        {"published_bytes", bytes.published},
                        {"value_bytes", sums[number].pages.value_bytes},
                        {"clients", clients[number]},
                        {"epoch", view->epoch},
                        {"flushing", view->flushing},
                        {"uids", view->policy.rules.users},
                        {"gids", view->policy.rules.groups},
                        {"readonly_gids", view->policy.rules.readers}});
    }
    return {{"namespaces", rows}};
}

}  // namespace maru::daemon
