// Pools, regions and namespaces: what their entries say, and what the page records say about them.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/size.hpp"
#include "table/index.hpp"
#include "table/repair_plan.hpp"
#include "table/seal.hpp"

namespace maru::table {
namespace {

// -- pools

bool is_name(const std::string& name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char letter) {
        return static_cast<unsigned char>(letter) > 0x20 && letter != 0x7f;
    });
}

bool is_state(std::uint32_t state) {
    return state >= static_cast<std::uint32_t>(PoolState::active) && state < pool_states;
}

/// Where the units of a source lie that comes after `first_unit` units of others.
PoolEntryPlan place_source(const Control& control, const PoolPlan& source, std::size_t number,
                           std::uint32_t first_unit) {
    PoolEntryPlan plan;
    plan.source = number;
    plan.data_offset = source.data_offset;
    if (number == 0)
        plan.data_offset = round_up(source.data_offset + control.control_bytes(),
                                    std::min<std::uint64_t>(control.region_unit(), 2 * MiB));
    const std::uint64_t room = source.bytes > plan.data_offset ? source.bytes - plan.data_offset : 0;
    plan.first_unit = first_unit;
    plan.unit_count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(room / control.region_unit(), control.region_count()));
    return plan;
}

bool says_the_same(const PoolEntry& entry, const PoolPlan& source, const PoolEntryPlan& plan) {
    return is_state(entry.state.load(shm::relaxed)) && entry.name.get() == source.name &&
           entry.kind.load(shm::relaxed) == source.kind && entry.bytes.load(shm::relaxed) == source.bytes &&
           entry.data_offset.load(shm::relaxed) == plan.data_offset &&
           entry.first_unit.load(shm::relaxed) == plan.first_unit &&
           entry.unit_count.load(shm::relaxed) == plan.unit_count;
}

bool units_in_use(const Control& control, std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t u = first; u < control.region_count() && u - first < count; ++u)
        if (RegionState::unpack(control.region(u).state.load(shm::relaxed)).phase != RegionPhase::free)
            return true;
    return false;
}

/// Some region among these units says that it lies in this pool.
bool regions_say(const Control& control, std::uint32_t pool, std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t u = first; u < control.region_count() && u - first < count; ++u)
        if (RegionState::unpack(control.region(u).state.load(shm::relaxed)).phase == RegionPhase::held &&
            control.region(u).pool.load(shm::relaxed) == pool)
            return true;
    return false;
}

/// An entry that holds no region: a pool that left, or that was being added or taken away. Its units stay
/// where it says, for the daemon to finish.
bool holds_nothing(const PoolEntry& entry) {
    switch (static_cast<PoolState>(entry.state.load(shm::relaxed))) {
        case PoolState::removed:
        case PoolState::joining:
        case PoolState::leaving:
            return is_name(entry.name.get());
        default:
            return false;
    }
}

/// The entry fits together in itself, but not with the pool of its name: somebody gave another pool.
bool is_another_size(const Control& control, const PoolEntry& entry, const PoolEntryPlan& plan,
                     const PoolPlan& source) {
    const std::uint64_t bytes = entry.bytes.load(shm::relaxed), offset = entry.data_offset.load(shm::relaxed);
    return bytes != source.bytes && entry.name.get() == source.name && offset == plan.data_offset &&
           bytes > offset &&
           (bytes - offset) / control.region_unit() == entry.unit_count.load(shm::relaxed) &&
           entry.unit_count.load(shm::relaxed) != plan.unit_count;
}

/// Of the sources that no entry has yet: the one of the entry's name, else the next one.
std::optional<std::size_t> source_for(const PoolEntry& entry, std::uint32_t number,
                                      const RepairSources& sources, const std::vector<bool>& used,
                                      const Control& control) {
    if (number == 0) return 0;
    const std::string name = entry.name.get();
    for (std::size_t s = 1; s < sources.pools.size(); ++s)
        if (!used[s] && sources.pools[s].name == name) return s;
    for (std::size_t s = 1; s < sources.pools.size(); ++s) {
        if (used[s]) continue;
        // Not one that another, whole entry names.
        bool named = false;
        for (std::uint32_t other = 1; other < control.pool_count(); ++other)
            named = named || (other != number && is_state(control.pool(other).state.load(shm::relaxed)) &&
                              control.pool(other).name.get() == sources.pools[s].name);
        if (!named) return s;
    }
    return {};
}

}  // namespace

Result<void> decide_pools(const Control& control, const RepairSources& sources, RepairPlan* plan) {
    plan->pools.assign(control.pool_count(), {});
    std::vector<bool> used(sources.pools.size(), false);
    std::uint32_t next = 0;
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        const PoolEntry& entry = control.pool(p);
        const std::uint32_t state = entry.state.load(shm::relaxed);
        const std::uint32_t told = entry.first_unit.load(shm::relaxed),
                            told_count = entry.unit_count.load(shm::relaxed);
        if (p != 0 && holds_nothing(entry) && !regions_say(control, p, told, told_count)) {
            plan->pools[p].state = static_cast<PoolState>(state);
            plan->pools[p].first_unit = told;
            plan->pools[p].unit_count = told_count;
            continue;
        }
        // Units follow those of the pool before, but for one that was added at run time: its regions say so.
        const std::uint32_t first_unit =
            p != 0 && told > next && is_state(state) && regions_say(control, p, told, told_count) ? told
                                                                                                  : next;
        const bool looks_used =
            is_state(state) || entry.unit_count.load(shm::relaxed) != 0 || !entry.name.get().empty();
        const auto source = source_for(entry, p, sources, used, control);
        PoolEntryPlan& made = plan->pools[p];
        if (source) made = place_source(control, sources.pools[*source], *source, first_unit);
        const bool wanted =
            p == 0 || looks_used || (source && units_in_use(control, first_unit, made.unit_count));
        if (!source || !wanted) {
            const bool whole = is_state(state) && is_name(entry.name.get()) &&
                               entry.first_unit.load(shm::relaxed) == first_unit;
            if (whole)
                return Error{Code::invalid,
                             "pool '" + entry.name.get() + "' of " +
                                 format_size(entry.bytes.load(shm::relaxed)) +
                                 " belongs to the domain and was not named: give every pool of it "
                                 "with --pool or --config"};
            made = {};
            made.changed = looks_used || state != 0;
            if (made.changed)
                plan->mend("pool entry " + std::to_string(p) + ": rubbish of no pool was cleared");
            continue;
        }
        const PoolPlan& pool = sources.pools[*source];
        if (is_another_size(control, entry, made, pool))
            return Error{Code::invalid,
                         "pool '" + pool.name + "' is " + format_size(pool.bytes) +
                             ", the domain was formatted with " +
                             format_size(entry.bytes.load(shm::relaxed)) +
                             ": give the pool as it was, or make the domain anew with maru --format"};
        used[*source] = true;
        made.state = is_state(state) ? static_cast<PoolState>(state) : PoolState::active;
        made.changed = !says_the_same(entry, pool, made);
        if (made.changed)
            plan->mend("pool entry " + std::to_string(p) + ": made again for pool '" + pool.name +
                       "' as it is");
        next = first_unit + made.unit_count;
    }
    if (next == 0 || next > control.region_count())
        return Error{Code::invalid,
                     "the pools have " + std::to_string(next) + " units, the domain's table holds " +
                         std::to_string(control.region_count()) + ": give the pools as they were"};
    return {};
}

// -- regions

namespace {

/// What one page record says about the region that it belongs to.
using Vote =
    std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // number, first, page, namespace

struct Candidate {
    RegionPlan region;
    std::uint64_t strength = 0;
    bool from_entry = false;
};

struct PoolUnits {
    std::uint32_t pool = 0, end = 0;
};

/// The pool that a unit belongs to, and where its units end.
std::optional<PoolUnits> units_around(const RepairPlan& plan, std::uint32_t unit) {
    for (std::uint32_t p = 0; p < plan.pools.size(); ++p) {
        const auto& pool = plan.pools[p];
        if (pool.source && unit >= pool.first_unit && unit - pool.first_unit < pool.unit_count)
            return PoolUnits{p, pool.first_unit + pool.unit_count};
    }
    return {};
}

std::uint32_t units_of(const Control& control, std::uint64_t page_4k, std::uint64_t pages) {
    return static_cast<std::uint32_t>((page_4k * page_align * pages + control.region_unit() - 1) /
                                      control.region_unit());
}

/// The units from `least` on that further units are part of, up to `end`.
std::uint32_t with_parts(const Control& control, std::uint32_t number, std::uint32_t least,
                         std::uint32_t end) {
    std::uint32_t count = least;
    for (; number + count < end; ++count) {
        const RegionEntry& next = control.region(number + count);
        if (RegionState::unpack(next.state.load(shm::relaxed)).phase != RegionPhase::part ||
            next.head.load(shm::relaxed) != number)
            break;
    }
    return count;
}

/// Every number of the region lies inside its tables and fits to the others.
bool is_possible(const Control& control, const RepairPlan& plan, const RegionPlan& region) {
    const auto units = units_around(plan, region.number);
    if (!units || region.pool != units->pool) return false;
    if (region.page_4k == 0 || region.page_count == 0 || region.unit_count == 0) return false;
    if (region.first_record % records_per_granule != 0 || region.first_record < records_per_granule ||
        region.first_record >= control.record_count() ||
        region.page_count > control.record_count() - region.first_record)
        return false;
    const std::uint64_t unit_pages = std::uint64_t{region.unit_count} * control.region_unit() /
                                     (std::uint64_t{region.page_4k} * page_align);
    return region.unit_count <= units->end - region.number && region.page_count <= unit_pages &&
           region.granules == (region.page_count + records_per_granule - 1) / records_per_granule &&
           region.name_space < control.namespace_count();
}

/// What the region's own entry says, if it is a region in use.
std::optional<RegionPlan> read_entry(const Control& control, const RepairPlan& plan, std::uint32_t number) {
    const RegionEntry& entry = control.region(number);
    const auto phase = RegionState::unpack(entry.state.load(shm::relaxed)).phase;
    if (phase != RegionPhase::held && phase != RegionPhase::draining && phase != RegionPhase::sealing)
        return {};
    RegionPlan region{number,
                      entry.pool.load(shm::relaxed),
                      entry.unit_count.load(shm::relaxed),
                      entry.page_4k.load(shm::relaxed),
                      entry.page_count.load(shm::relaxed),
                      entry.first_record.load(shm::relaxed),
                      entry.granules.load(shm::relaxed),
                      entry.name_space.load(shm::relaxed)};
    if (!is_possible(control, plan, region)) return {};
    const std::uint32_t least = units_of(control, region.page_4k, region.page_count);
    region.unit_count =
        std::min(region.unit_count, with_parts(control, number, least, number + region.unit_count));
    return region;
}

/// How many of the region's granules are claimed for it.
std::uint32_t claims_for(const Control& control, const RegionPlan& region) {
    std::uint32_t claims = 0;
    for (std::uint32_t g = 0; g < region.granules; ++g) {
        const std::uint64_t claim =
            control.granule_claim(region.first_record / records_per_granule + g).load(shm::relaxed);
        claims += claim != 0 && granule_claim::region(claim) == region.number;
    }
    return claims;
}

/// Pages in use say to which region they belong; sealed ones may say it of a region that is gone.
std::map<Vote, std::uint32_t> count_votes(const Control& control, std::map<Vote, std::uint32_t>* last_page) {
    std::map<Vote, std::uint32_t> votes;
    for (std::uint32_t n = records_per_granule; n < control.record_count(); ++n) {
        const PageRecord& record = control.record(n);
        const Phase phase = phase_of(record.state.load(shm::relaxed));
        const std::uint32_t index = record.page_index.load(shm::relaxed);
        if (phase == Phase::sealed || static_cast<int>(phase) >= phase_count || index > n) continue;
        const Vote vote{record.region.load(shm::relaxed), n - index, record.page_4k.load(shm::relaxed),
                        record.name_space.load(shm::relaxed)};
        if (std::get<1>(vote) % records_per_granule != 0) continue;
        ++votes[vote];
        auto& last = (*last_page)[vote];
        last = std::max(last, index);
    }
    return votes;
}

/// A region as its page records describe it; its own entry helps where it agrees.
RegionPlan from_vote(const Control& control, const RepairPlan& plan, const Vote& vote,
                     std::uint32_t last_page) {
    const auto [number, first_record, page_4k, name_space] = vote;
    RegionPlan region;
    region.number = number;
    region.page_4k = page_4k;
    region.first_record = first_record;
    region.name_space = name_space;
    region.page_count = last_page + 1;
    const auto units = units_around(plan, number);
    if (!units) return region;
    region.pool = units->pool;
    const std::uint32_t least = units_of(control, page_4k, region.page_count);
    if (least == 0 || least > units->end - number) return region;
    region.unit_count = with_parts(control, number, least, units->end);
    region.granules = (region.page_count + records_per_granule - 1) / records_per_granule;
    return region;
}

std::vector<Candidate> find_candidates(const Control& control, const RepairPlan& plan) {
    std::map<Vote, std::uint32_t> last_page;
    const auto votes = count_votes(control, &last_page);
    std::vector<Candidate> candidates;
    for (std::uint32_t u = 0; u < control.region_count(); ++u) {
        auto entry = read_entry(control, plan, u);
        if (!entry) continue;
        const Vote vote{u, entry->first_record, entry->page_4k, entry->name_space};
        const auto found = votes.find(vote);
        const std::uint32_t agreeing = found == votes.end() ? 0 : found->second;
        if (agreeing != 0) {  // pages that are in use belong to it, whatever its count says
            RegionPlan wider = *entry;
            wider.page_count = std::max(entry->page_count, last_page.at(vote) + 1);
            wider.granules = (wider.page_count + records_per_granule - 1) / records_per_granule;
            if (is_possible(control, plan, wider)) entry = wider;
        }
        const std::uint32_t claims = claims_for(control, *entry);
        // An entry that neither a claim nor a page agrees with describes nothing.
        if (claims == 0 && agreeing == 0) continue;
        candidates.push_back({*entry, std::uint64_t{agreeing} + claims + (agreeing != 0 ? 2 : 0), true});
    }
    for (const auto& [vote, count] : votes) {
        const RegionPlan region = from_vote(control, plan, vote, last_page.at(vote));
        if (!is_possible(control, plan, region)) continue;
        const std::uint32_t claims = claims_for(control, region);
        const RegionEntry& entry = control.region(region.number);
        const bool entry_agrees = entry.first_record.load(shm::relaxed) == region.first_record &&
                                  entry.page_4k.load(shm::relaxed) == region.page_4k;
        // A single damaged page names any region; somebody else must say so, too.
        if (claims == 0 && !entry_agrees) continue;
        candidates.push_back({region, std::uint64_t{count} + claims, false});
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return std::tuple(a.strength, a.from_entry) > std::tuple(b.strength, b.from_entry);
    });
    return candidates;
}

bool entry_is_right(const Control& control, const RegionPlan& region) {
    const RegionEntry& entry = control.region(region.number);
    return RegionState::unpack(entry.state.load(shm::relaxed)).phase == RegionPhase::held &&
           entry.page_count.load(shm::relaxed) == region.page_count &&
           entry.unit_count.load(shm::relaxed) == region.unit_count &&
           entry.page_4k.load(shm::relaxed) == region.page_4k &&
           entry.first_record.load(shm::relaxed) == region.first_record &&
           entry.granules.load(shm::relaxed) == region.granules &&
           entry.pool.load(shm::relaxed) == region.pool &&
           entry.name_space.load(shm::relaxed) == region.name_space;
}

}  // namespace

void decide_regions(const Control& control, RepairPlan* plan) {
    plan->region_of.assign(control.record_count(), 0);
    std::vector<bool> unit_taken(control.region_count(), false);
    for (const auto& candidate : find_candidates(control, *plan)) {
        const RegionPlan& region = candidate.region;
        const std::uint32_t end = region.first_record + region.granules * records_per_granule;
        bool is_free = end <= control.record_count();
        for (std::uint32_t u = 0; is_free && u < region.unit_count; ++u)
            is_free = !unit_taken[region.number + u];
        for (std::uint32_t n = region.first_record; is_free && n < end; ++n)
            is_free = plan->region_of[n] == 0;
        if (!is_free) continue;  // a stronger one has this memory
        plan->regions.push_back(region);
        const auto number = static_cast<std::uint32_t>(plan->regions.size());
        std::fill_n(unit_taken.begin() + region.number, region.unit_count, true);
        std::fill(plan->region_of.begin() + region.first_record, plan->region_of.begin() + end, number);
        if (!entry_is_right(control, region))
            plan->mend("region " + std::to_string(region.number) + ": its entry was made again from " +
                       (candidate.from_entry ? "itself" : "its page records"));
    }
    for (std::uint32_t u = 0; u < control.region_count(); ++u) {
        const auto phase = RegionState::unpack(control.region(u).state.load(shm::relaxed)).phase;
        if (phase != RegionPhase::free && !unit_taken[u])
            plan->mend("unit " + std::to_string(u) + ": given back; no region can be proven to hold it");
    }
}

// -- namespaces

namespace {

constexpr std::uint64_t apart_factor = 0x9E3779B97F4A7C15u;  // as Control::key mixes id and generation in

constexpr std::uint64_t inverse_of(std::uint64_t odd) {
    std::uint64_t inverse = odd;  // Newton's iteration doubles the right bits
    for (int round = 0; round < 6; ++round)
        inverse *= 2 - odd * inverse;
    return inverse;
}
static_assert(inverse_of(apart_factor) * apart_factor == 1);

struct Evidence {
    std::map<std::uint32_t, std::uint32_t> generations;  // proven by so many keys
    std::map<std::uint32_t, std::uint32_t> epochs;       // that so many of them carry

    /// Youngest epoch of an object. A single one may be damage where no seal tells, several are not.
    std::uint32_t epoch() const {
        for (auto entry = epochs.rbegin(); entry != epochs.rend(); ++entry)
            if (entry->second > 1 || epochs.size() == 1) return entry->first;
        return epochs.empty() ? 0 : epochs.begin()->first;
    }
};

/// The generation of the namespace under which the record's hash was made, if its key is here as a whole.
std::optional<std::uint32_t> proven_generation(const Control& control, const PageRecord& record,
                                               std::uint32_t name_space) {
    const std::uint16_t length = record.key_length.load(shm::relaxed);
    if (length == 0 || length > key_inline_max) return {};
    const std::string bytes = inline_key(record);
    const Key now = control.key(name_space, bytes);
    const std::uint64_t apart_now =
        (control.name_space(name_space).state.load(shm::relaxed) >> 32 << 32 | name_space) * apart_factor;
    const std::uint64_t mixed =
        (record.hash_low.load(shm::relaxed) ^ now.low ^ apart_now) * inverse_of(apart_factor);
    if ((mixed & 0xffffffff) != name_space) return {};
    if (record.hash_high.load(shm::relaxed) != now.high - apart_now + mixed * apart_factor) return {};
    return static_cast<std::uint32_t>(mixed >> 32);
}

}  // namespace

void decide_namespaces(const Control& control, RepairPlan* plan) {
    std::vector<Evidence> evidence(control.namespace_count());
    for (std::uint32_t n = records_per_granule; n < control.record_count(); ++n) {
        const PageRecord& record = control.record(n);
        if (plan->region_of[n] == 0 || !is_live(phase_of(record.state.load(shm::relaxed)))) continue;
        const std::uint32_t id = plan->regions[plan->region_of[n] - 1].name_space;
        const auto generation = proven_generation(control, record, id);
        if (!generation) continue;
        ++evidence[id].generations[*generation];
        const std::uint64_t stamp = record.checksum.load(shm::relaxed);
        const bool sealed = stamp == record_seal(record, generation_of(record.state.load(shm::relaxed)));
        if (sealed || stamp == 0 || control.checksum_mode() != ChecksumMode::off)
            ++evidence[id].epochs[record.namespace_epoch.load(shm::relaxed)];
    }
    constexpr std::uint64_t flushes_max = 1u << 20;  // beyond the youngest object: more than anybody flushes
    plan->namespaces.assign(control.namespace_count(), {});
    for (std::uint32_t id = 0; id < control.namespace_count(); ++id) {
        const NamespaceEntry& entry = control.name_space(id);
        const std::uint64_t state = entry.state.load(shm::relaxed);
        const std::string name = entry.name.get();
        const auto& known = evidence[id];
        NamespacePlan& made = plan->namespaces[id];
        made.generation = static_cast<std::uint32_t>(state >> 32);
        const bool has_objects = !known.generations.empty();
        if (has_objects && known.generations.count(made.generation) == 0)
            made.generation =
                std::max_element(known.generations.begin(), known.generations.end(), [](auto& a, auto& b) {
                    return a.second < b.second;
                })->first;
        const bool holds_regions = std::any_of(plan->regions.begin(), plan->regions.end(),
                                               [&](const auto& region) { return region.name_space == id; });
        made.in_use = id == 0 || has_objects || holds_regions || ((state & 1) != 0 && is_name(name));
        made.epoch = entry.epoch.load(shm::relaxed);
        if (made.epoch < known.epoch() || made.epoch > known.epoch() + flushes_max)
            made.epoch = known.epoch();
        made.name = name;
        if (id == 0)
            made.name = "default";
        else if (!made.in_use)
            made.name.clear();
        else if (!is_name(name))
            made.name = "recovered-" + std::to_string(id);
        made.rules_lost = made.in_use && !namespace_rules::is_sound(entry.rules.load(shm::relaxed));
        made.changed = made.in_use != ((state & 1) != 0) || !namespace_state::is_sound(state) ||
                       made.rules_lost || made.generation != state >> 32 ||
                       made.epoch != entry.epoch.load(shm::relaxed) || made.name != name;
        if (!made.in_use && namespace_state::is_sound(state) && (state & 1) == 0)
            made.changed = false;  // nobody reads what else stands there
        if (made.changed)
            plan->mend("namespace " + std::to_string(id) + " '" + made.name + "': made again" +
                       (made.rules_lost ? "; its access rules are lost, root alone may enter until they are "
                                          "set again (maructl namespace set)"
                                        : ""));
    }
}

}  // namespace maru::table
