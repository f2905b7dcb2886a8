// Every table of the control region, entry by entry, as it stands: for people who look for a defect.
#include <algorithm>

#include "daemon/admin/answers.hpp"

namespace maru::daemon {
namespace {

using table::Control;

/// A cursor names a table and an entry of it.
constexpr int number_bits = 40;
constexpr std::uint64_t rows_max = 250;  // the longest, full pin chunks, fit into a frame
constexpr std::uint64_t number_mask = (std::uint64_t{1} << number_bits) - 1;

template <std::size_t Bytes>
std::string shown(const table::Text<Bytes>& text) {
    return wire::printable(text.get());
}

template <class Entry>
bool is_empty(const Entry& entry) {
    static_assert(sizeof(Entry) % sizeof(table::Word64) == 0);
    const auto* words = shm::table_at<table::Word64>(
        {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(&entry)), sizeof entry}, 0,
        sizeof entry / sizeof(table::Word64));
    return std::all_of(words, words + sizeof entry / sizeof(table::Word64),
                       [](const auto& word) { return word.load(shm::relaxed) == 0; });
}

Json json_of(table::Owner owner) {
    return {{"slot", owner.slot}, {"generation_low", owner.generation}};
}

Json holder_json(std::uint64_t word) {
    if (word == 0) return nullptr;
    return {{"slot", table::holder::slot(word)}, {"generation", table::holder::generation(word)}};
}

Json uuid_json(const table::Word64 (&words)[2]) {
    return {hex_text(words[0].load(shm::relaxed)), hex_text(words[1].load(shm::relaxed))};
}

Json super_row(const Control& control, std::uint64_t) {
    const auto& super = control.super();
    return {{"version", super.version.load(shm::relaxed)},
            {"domain", control.domain().text()},
            {"coherence", table::name_of(control.coherence())},
            {"checksum_mode", static_cast<std::uint32_t>(control.checksum_mode())},
            {"control_bytes", control.control_bytes()},
            {"region_unit", control.region_unit()},
            {"records", control.record_count()},
            {"index_buckets", control.bucket_count()},
            {"overflow_buckets", control.overflow_count()},
            {"clients", control.client_count()},
            {"hosts", control.host_count()},
            {"namespaces", control.namespace_count()},
            {"pools", control.pool_count()},
            {"regions", control.region_count()},
            {"pin_chunks", control.chunk_count()},
            {"epoch", super.epoch.load(shm::relaxed)},
            {"bound", super.bound.load(shm::relaxed)},
            {"tick", super.tick.load(shm::relaxed)},
            {"pin_high_water", super.pin_high_water.load(shm::relaxed)},
            {"daemon", holder_json(super.daemon.load(shm::relaxed))},
            {"daemon_generation", super.daemon_generation.load(shm::relaxed)},
            {"eviction", super.eviction.load(shm::relaxed)},
            {"evict_hand", super.evict_hand.load(shm::relaxed)}};
}

Json pool_row(const Control& control, std::uint64_t number) {
    const auto& pool = control.pool(static_cast<std::uint32_t>(number));
    if (is_empty(pool)) return nullptr;
    return {{"uuid", uuid_json(pool.uuid)},
            {"kind", pool.kind.load(shm::relaxed)},
            {"state", pool.state.load(shm::relaxed)},
            {"bytes", pool.bytes.load(shm::relaxed)},
            {"data_offset", pool.data_offset.load(shm::relaxed)},
            {"first_unit", pool.first_unit.load(shm::relaxed)},
            {"unit_count", pool.unit_count.load(shm::relaxed)},
            {"name", shown(pool.name)}};
}

Json host_row(const Control& control, std::uint64_t number) {
    const auto& host = control.host(static_cast<std::uint32_t>(number));
    if (is_empty(host)) return nullptr;
    const auto state = host.state.load(shm::relaxed);
    return {{"host_id", uuid_json(host.host_id)},
            {"boot_id", uuid_json(host.boot_id)},
            {"state", hex_text(state)},
            {"phase", table::name_of(table::host_state::phase(state))},
            {"generation", table::host_state::generation(state)},
            {"beat", host.beat.load(shm::relaxed)},
            {"name", shown(host.name)}};
}

Json client_row(const Control& control, std::uint64_t number) {
    const auto& client = control.client(static_cast<std::uint32_t>(number));
    if (is_empty(client)) return nullptr;
    const auto state = client.state.load(shm::relaxed);
    return {{"state", hex_text(state)},
            {"phase", table::name_of(table::client_state::phase(state))},
            {"generation", table::client_state::generation(state)},
            {"host", client.host.load(shm::relaxed)},
            {"pid", client.pid.load(shm::relaxed)},
            {"pid_namespace", client.pid_namespace.load(shm::relaxed)},
            {"start_time", client.start_time.load(shm::relaxed)},
            {"uid", client.uid.load(shm::relaxed)},
            {"gid", client.gid.load(shm::relaxed)},
            {"namespace", client.name_space.load(shm::relaxed)},
            {"is_daemon", client.is_daemon.load(shm::relaxed)},
            {"read_only", client.read_only.load(shm::relaxed)},
            {"instance_id", shown(client.instance_id)}};
}

Json counter_row(const table::CounterLine& line) {
    if (is_empty(line)) return nullptr;
    auto counts = Json::array();
    for (const auto& count : line.counts)
        counts.push_back(count.load(shm::relaxed));
    return {{"counts", counts}};
}

Json stats_row(const Control& control, std::uint64_t number) {
    return counter_row(control.client_stats(static_cast<std::uint32_t>(number)));
}

Json namespace_row(const Control& control, std::uint64_t number) {
    const auto& entry = control.name_space(static_cast<std::uint32_t>(number));
    if (is_empty(entry)) return nullptr;
    const auto state = entry.state.load(shm::relaxed);
    const auto rules = entry.rules.load(shm::acquire);
    const auto half = table::namespace_rules::Half::get(rules);
    const auto users = table::namespace_rules::Users::get(rules),
               groups = table::namespace_rules::Groups::get(rules);
    const auto members = [&](std::uint64_t from, std::uint64_t count) {
        auto ids = Json::array();  // a damaged word counts more than there are
        for (auto i = from; i < from + count && i < table::namespace_members_max; ++i)
            ids.push_back(entry.members[half][i].load(shm::relaxed));
        return ids;
    };
    return {{"in_use", (state & 1) != 0},
            {"generation", state >> 32},
            {"name", shown(entry.name)},
            {"quota", entry.quota.load(shm::relaxed)},
            {"epoch", entry.epoch.load(shm::relaxed)},
            {"claimed", entry.claimed.load(shm::relaxed)},
            {"flushing", table::namespace_state::Flushing::get(state) != 0},
            {"removing", table::namespace_state::Removing::get(state) != 0},
            {"by_administrator", table::namespace_rules::ByAdministrator::get(rules) != 0},
            {"uids", members(0, users)},
            {"gids", members(users, groups)},
            {"readonly_gids", members(users + groups, table::namespace_rules::Readers::get(rules))}};
}

Json region_row(const Control& control, std::uint64_t number) {
    const auto& region = control.region(static_cast<std::uint32_t>(number));
    if (is_empty(region)) return nullptr;
    const auto word = region.state.load(shm::acquire);
    const auto state = table::RegionState::unpack(word);
    return {{"state", hex_text(word)},
            {"phase", table::name_of(state.phase)},
            {"owner", json_of(state.owner)},
            {"epoch", state.epoch},
            {"pool", region.pool.load(shm::relaxed)},
            {"unit_count", region.unit_count.load(shm::relaxed)},
            {"page_4k", region.page_4k.load(shm::relaxed)},
            {"page_count", region.page_count.load(shm::relaxed)},
            {"first_record", region.first_record.load(shm::relaxed)},
            {"granules", region.granules.load(shm::relaxed)},
            {"namespace", region.name_space.load(shm::relaxed)},
            {"head", region.head.load(shm::relaxed)},
            {"holder", holder_json(region.holder.load(shm::relaxed))}};
}

Json granule_row(const Control& control, std::uint64_t number) {
    const auto granule = static_cast<std::uint32_t>(number);
    const auto claim = control.granule_claim(granule).load(shm::relaxed);
    const auto hints = control.hint(granule).load(shm::relaxed);
    if (claim == 0 && hints == 0) return nullptr;
    return {{"claim", hex_text(claim)},
            {"region", table::granule_claim::region(claim)},
            {"owner", json_of(table::granule_claim::owner(claim))},
            {"hints", hex_text(hints)}};
}

Json record_row(const Control& control, std::uint64_t number) {
    const auto& record = control.record(static_cast<std::uint32_t>(number));
    if (is_empty(record)) return nullptr;
    const auto word = record.state.load(shm::acquire);
    const auto state = table::State::unpack(word);
    const auto length = record.key_length.load(shm::relaxed);
    std::string key;
    for (std::size_t at = 0; at < std::min<std::size_t>(length, table::key_inline_max); ++at)
        key += static_cast<char>(record.key[at / 8].load(shm::relaxed) >> (8 * (at % 8)) & 0xff);
    return {{"state", hex_text(word)},
            {"phase", table::name_of(state.phase)},
            {"attempt", state.attempt},
            {"owner", json_of(state.owner)},
            {"generation", state.generation},
            {"region", record.region.load(shm::relaxed)},
            {"page", record.page_index.load(shm::relaxed)},
            {"page_4k", record.page_4k.load(shm::relaxed)},
            {"namespace", record.name_space.load(shm::relaxed)},
            {"namespace_epoch", record.namespace_epoch.load(shm::relaxed)},
            {"key", wire::printable(key)},
            {"key_hex", wire::hex_of(key)},
            {"key_length", length},
            {"hash",
             {hex_text(record.hash_low.load(shm::relaxed)), hex_text(record.hash_high.load(shm::relaxed))}},
            {"length", record.length.load(shm::relaxed)},
            {"last", hex_text(record.last.load(shm::relaxed))},
            {"tick", record.publication_tick.load(shm::relaxed)},
            {"tick_high", record.publication_high.load(shm::relaxed)},
            {"visited", record.visited.load(shm::relaxed)},
            {"checksum", hex_text(record.checksum.load(shm::relaxed))}};
}

Json bucket_row(const Control& control, std::uint64_t number) {
    const auto& bucket = control.bucket(number);
    if (is_empty(bucket)) return nullptr;
    auto slots = Json::array();
    for (const auto& place : bucket.slots) {
        const auto word = place.load(shm::acquire);
        if (word == 0) {
            slots.push_back(nullptr);
            continue;
        }
        slots.push_back({{"tentative", table::slot::is_tentative(word)},
                         {"tag", table::slot::tag(word)},
                         {"generation_low", table::slot::Generation::get(word)},
                         {"record", table::slot::record(word)}});
    }
    return {{"overflow", number >= control.bucket_count()},
            {"slots", slots},
            {"link", bucket.link.load(shm::acquire)}};
}

Json overflow_row(const Control& control, std::uint64_t number) {
    const auto claim = control.overflow_claim(static_cast<std::uint32_t>(number)).load(shm::relaxed);
    if (claim == 0) return nullptr;
    if (claim == table::overflow_claim::linked) return {{"claim", "linked"}};
    return {{"claim", hex_text(claim)},
            {"owner", json_of(table::overflow_claim::owner(claim))},
            {"parent", table::overflow_claim::Parent::get(claim)}};
}

Json chunk_row(const Control& control, std::uint64_t number) {
    const auto& chunk = control.chunk(static_cast<std::uint32_t>(number));
    if (is_empty(chunk)) return nullptr;
    auto pins = Json::array();
    for (std::uint32_t i = 0; i < table::pins_per_chunk; ++i) {
        const auto word = chunk.pins[i].load(shm::relaxed);
        if (word == 0) continue;
        constexpr const char* kinds[] = {"none", "lease", "key", "own"};
        pins.push_back({{"pin", i},
                        {"kind", kinds[static_cast<int>(table::pin::kind(word))]},
                        {"record", table::pin::record(word)},
                        {"generation_low", table::pin::Generation::get(word)},
                        {"epoch_low", table::pin::Epoch::get(word)},
                        {"sequence", table::pin::Sequence::get(word)}});
    }
    const auto counts = counter_row(chunk.counters);
    return {{"owner", holder_json(chunk.owner.load(shm::relaxed))},
            {"epoch", chunk.epoch.load(shm::relaxed)},
            {"oldest", chunk.oldest.load(shm::relaxed)},
            {"summary", hex_text(chunk.summary.load(shm::relaxed))},
            {"counts", counts.is_null() ? Json(nullptr) : counts["counts"]},
            {"pins", pins}};
}

struct Table {
    const char* name;
    std::uint64_t (*entries)(const Control&);
    Json (*row)(const Control&, std::uint64_t);
};
const Table tables[] = {
    {"superblock", [](const Control&) { return std::uint64_t{1}; }, super_row},
    {"pools", [](const Control& c) { return std::uint64_t{c.pool_count()}; }, pool_row},
    {"hosts", [](const Control& c) { return std::uint64_t{c.host_count()}; }, host_row},
    {"clients", [](const Control& c) { return std::uint64_t{c.client_count()}; }, client_row},
    {"client_stats", [](const Control& c) { return std::uint64_t{c.client_count()}; }, stats_row},
    {"namespaces", [](const Control& c) { return std::uint64_t{c.namespace_count()}; }, namespace_row},
    {"regions", [](const Control& c) { return std::uint64_t{c.region_count()}; }, region_row},
    {"granules", [](const Control& c) { return std::uint64_t{c.granule_count()}; }, granule_row},
    {"records", [](const Control& c) { return std::uint64_t{c.record_count()}; }, record_row},
    {"index", [](const Control& c) { return std::uint64_t{c.bucket_count()} + c.overflow_count(); },
     bucket_row},
    {"overflow_claims", [](const Control& c) { return std::uint64_t{c.overflow_count()}; }, overflow_row},
    {"pin_chunks", [](const Control& c) { return std::uint64_t{c.chunk_count()}; }, chunk_row},
};

}  // namespace

std::string dump_part(const Control& control, std::uint64_t cursor, std::uint64_t limit) {
    const auto deadline = deadline_after(list_budget);
    limit = std::min(limit, rows_max);
    auto rows = Json::array();
    Json next = nullptr;
    std::uint64_t number = cursor & number_mask, looked = 0;
    for (std::uint64_t t = cursor >> number_bits; t < std::size(tables) && next.is_null(); ++t, number = 0) {
        for (const auto entries = tables[t].entries(control); number < entries; ++number) {
            if (rows.size() >= limit || (++looked % 64 == 0 && MonotonicClock::now() >= deadline)) {
                next = t << number_bits | number;
                break;
            }
            Json row = tables[t].row(control, number);
            if (row.is_null()) continue;
            Json named{{"table", tables[t].name}, {"number", number}};
            named.update(row);
            rows.push_back(std::move(named));
        }
    }
    return text_of({{"rows", rows}, {"next", next}});
}

}  // namespace maru::daemon
