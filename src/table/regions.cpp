#include "table/regions.hpp"

#include <algorithm>
#include <bit>

#include "base/fault_point.hpp"
#include "base/mutant.hpp"
#include "table/index.hpp"
#include "table/region_steps.hpp"

namespace maru::table {
namespace {

constexpr std::uint32_t pages_wanted = 8;  // a region is long enough for so many, where the pool has room

/// Changes phase and owner of a region with the next epoch; false when somebody was faster.
bool advance(RegionEntry& entry, std::uint64_t* word, RegionPhase phase, Owner owner) {
    const std::uint64_t next = RegionState{phase, owner, RegionState::unpack(*word).epoch + 1}.pack();
    if (!entry.state.compare_exchange(*word, next)) return false;
    *word = next;
    return true;
}

struct Run {  // of units
    std::uint32_t first = 0, count = 0, pool = 0;
    std::uint64_t word = 0;  // state word of its first unit
};

/// Claims `count` adjacent free units of one pool; the first one becomes FORMATTING, the others PART.
bool claim_units(const Control& control, Owner owner, std::uint32_t count, Run* run) {
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        const PoolEntry& pool = control.pool(p);
        if (pool.state.load(shm::relaxed) != static_cast<std::uint32_t>(PoolState::active)) continue;
        const std::uint32_t first = pool.first_unit.load(shm::relaxed),
                            units = pool.unit_count.load(shm::relaxed);
        if (first >= control.region_count() || units > control.region_count() - first) continue;  // damage
        for (std::uint32_t at = first; at + count <= first + units;) {
            std::uint32_t taken = 0;
            std::uint64_t head_word = 0;
            for (; taken < count; ++taken) {
                RegionEntry& unit = control.region(at + taken);
                std::uint64_t word = unit.state.load(shm::acquire);
                const auto phase = taken == 0 ? RegionPhase::formatting : RegionPhase::part;
                if (RegionState::unpack(word).phase != RegionPhase::free ||
                    !advance(unit, &word, phase, owner))
                    break;
                if (taken == 0) head_word = word;
                unit.head.store(at, shm::release);
            }
            if (taken == count) {
                *run = {at, count, p, head_word};
                return true;
            }
            if (taken > 0) free_units(control, at, taken, head_word);
            at += taken + 1;
        }
    }
    return false;
}

/// Claims up to `wanted` adjacent granules of page records, the longest run there is if none is long enough.
std::uint32_t claim_granules(const Control& control, std::uint64_t claim, std::uint32_t wanted,
                             std::uint32_t* first) {
    std::uint32_t best_first = 0, best = 0, length = 0;
    for (std::uint32_t g = 1; g < control.granule_count() && best < wanted; ++g) {
        length = control.granule_claim(g).load(shm::relaxed) == 0 ? length + 1 : 0;
        if (length <= best) continue;
        best = length;
        best_first = g + 1 - length;
    }
    std::uint32_t got = 0;
    while (got < best && control.granule_claim(best_first + got).compare_exchange(0, claim))
        ++got;
    *first = best_first;
    return got;
}

void name_records(const Control& control, std::uint32_t region, std::uint32_t first_record,
                  std::uint32_t pages, PageClass wanted) {
    for (std::uint32_t i = 0; i < pages; ++i) {
        PageRecord& record = control.record(first_record + i);
        if (phase_of(record.state.load(shm::acquire)) != Phase::sealed) continue;  // damage: never touch it
        record.region.store(region, shm::relaxed);
        record.page_index.store(i, shm::relaxed);
        record.page_4k.store(wanted.page_4k, shm::relaxed);
        record.name_space.store(static_cast<std::uint16_t>(wanted.name_space), shm::relaxed);
    }
}

Result<RegionView> form_region(const Control& control, Owner owner, Run run, PageClass wanted,
                               std::uint64_t holder, std::string* warning) {
    RegionEntry& entry = control.region(run.first);
    std::uint64_t word = run.word;
    const std::uint64_t bytes = run.count * control.region_unit();
    auto pages = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(bytes / (std::uint64_t{wanted.page_4k} * page_align), max_records));
    const std::uint32_t granules = (pages + records_per_granule - 1) / records_per_granule;
    std::uint32_t first_granule = 0;
    const std::uint64_t claim = granule_claim::pack(run.first, RegionState::unpack(word).epoch, owner);
    const std::uint32_t got = claim_granules(control, claim, granules, &first_granule);
    if (got == 0) {
        free_units(control, run.first, run.count, word);
        return Error{Code::full, "no page records are left: raise control.max_objects (" +
                                     std::to_string(control.record_count() - records_per_granule) +
                                     " now) and format the domain anew"};
    }
    if (got < granules) {
        const std::uint32_t fewer = got * records_per_granule;
        if (warning != nullptr)
            *warning = "region " + std::to_string(run.first) + " gets " + std::to_string(fewer) + " of its " +
                       std::to_string(pages) +
                       " pages: no more page records are left, raise control.max_objects";
        pages = fewer;
    }
    const std::uint32_t first_record = first_granule * records_per_granule;
    entry.pool.store(run.pool, shm::relaxed);
    entry.unit_count.store(run.count, shm::relaxed);
    entry.page_4k.store(wanted.page_4k, shm::relaxed);
    entry.page_count.store(pages, shm::relaxed);
    entry.first_record.store(first_record, shm::relaxed);
    entry.granules.store(got, shm::relaxed);
    entry.name_space.store(wanted.name_space, shm::relaxed);
    entry.holder.store(holder, shm::relaxed);
    fault_point("region.forming");
    name_records(control, run.first, first_record, pages, wanted);
    open_records(control, first_record, pages);
    // release: whoever sees HELD sees the fields; on a lost race a successor took this over from a dead owner
    if (!advance(entry, &word, RegionPhase::held, {}))
        return Error{Code::contended, "region " + std::to_string(run.first) + " was taken over meanwhile"};
    RegionView made;
    made.number = run.first;
    made.phase = RegionPhase::held;
    made.pool = run.pool;
    made.unit_count = run.count;
    made.page_4k = wanted.page_4k;
    made.page_count = pages;
    made.first_record = first_record;
    made.name_space = wanted.name_space;
    made.holder = holder;
    (void)control.region_place(run.first, &run.pool, &made.offset);
    return made;
}

bool is_of(const RegionView& region, PageClass wanted) {
    return region.page_4k == wanted.page_4k && region.name_space == wanted.name_space;
}

std::uint32_t hinted_pages(const Control& control, const RegionView& region) {
    std::uint32_t free = 0;
    const std::uint32_t first = region.first_record / records_per_granule;
    for (std::uint32_t g = 0; g * records_per_granule < region.page_count; ++g)
        free += static_cast<std::uint32_t>(std::popcount(control.hint(first + g).load(shm::relaxed)));
    return free;
}

/// A region of the class that nobody holds and that has room.
std::optional<RegionView> adopt(const Control& control, PageClass wanted, std::uint64_t holder,
                                std::uint32_t least_free_percent) {
    for (std::uint32_t r = 0; r < control.region_count(); ++r) {
        if (RegionState::unpack(control.region(r).state.load(shm::relaxed)).phase != RegionPhase::held)
            continue;
        const auto view = read_region(control, r);
        if (!view || view->phase != RegionPhase::held || view->holder != 0 || !is_of(*view, wanted)) continue;
        const std::uint32_t free = hinted_pages(control, *view);
        if (free == 0 || std::uint64_t{free} * 100 < std::uint64_t{least_free_percent} * view->page_count)
            continue;
        if (control.region(r).holder.compare_exchange(0, holder)) return read_region(control, r);
    }
    return {};
}

/// Takes apart regions of other classes that nobody holds: empty ones, or with `evict` the emptiest one.
bool make_room(Worker& daemon, PageClass wanted, bool evict, bool in_namespace = false) {
    const Control& control = daemon.control();
    bool made = false;
    std::optional<RegionView> emptiest;
    std::uint64_t fewest = ~0ull;
    for (std::uint32_t r = 0; r < control.region_count(); ++r) {
        const auto view = read_region(control, r);
        if (!view || view->phase != RegionPhase::held || view->holder != 0 || is_of(*view, wanted)) continue;
        if (in_namespace && view->name_space != wanted.name_space) continue;
        const std::uint64_t published = count_pages(control, *view).of[static_cast<int>(Phase::published)];
        if (published == 0) {
            made = dissolve_region(daemon, r, false) || made;
        } else if (published < fewest) {
            fewest = published;
            emptiest = view;
        }
    }
    if (made || !evict || !emptiest) return made;
    return dissolve_region(daemon, emptiest->number, true);
}

}  // namespace

std::optional<RegionView> adopt_region(const Control& control, PageClass wanted, std::uint64_t holder) {
    return adopt(control, wanted, holder, 0);
}

bool make_room_in_namespace(Worker& daemon, PageClass wanted, bool evict) {
    return make_room(daemon, wanted, evict, true);
}

void free_units(const Control& control, std::uint32_t first, std::uint32_t count, std::uint64_t word) {
    // The head goes last: as long as its word is ours, units that name it are ours too.
    for (std::uint32_t u = first + count; u-- > first + 1;) {
        RegionEntry& unit = control.region(u);
        std::uint64_t part = unit.state.load(shm::acquire);
        if (RegionState::unpack(part).phase == RegionPhase::part && unit.head.load(shm::relaxed) == first)
            advance(unit, &part, RegionPhase::free, {});
    }
    advance(control.region(first), &word, RegionPhase::free, {});
}

void open_records(const Control& control, std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        Word64& state = control.record(first + i).state;
        const std::uint64_t word = state.load(shm::relaxed);
        // release: whoever takes the page sees where it lies
        if (phase_of(word) == Phase::sealed)
            state.compare_exchange(word, state_word(Phase::free, generation_of(word) + 1));
        if (phase_of(state.load(shm::relaxed)) == Phase::free) set_hint(control, first + i);
    }
}

bool seal_records(Worker& daemon, std::uint32_t first, std::uint32_t count) {
    const Control& control = daemon.control();
    for (std::uint32_t i = 0; i < count; ++i) {
        Word64& state = control.record(first + i).state;
        bool sealed = false;
        for (int round = 0; round < retire_rounds_max && !sealed; ++round) {
            const std::uint64_t word = state.load(shm::acquire);
            const Phase phase = phase_of(word);
            // SEALED ones are stamped again: a taker that read the old word cannot open them any more.
            if (phase == Phase::free || phase == Phase::sealed)
                sealed = state.compare_exchange(
                    word, state_word(Phase::sealed,
                                     generation_of(word) + (mutant(Mutant::seal_same_generation) ? 0u : 1u)));
            else if (phase != Phase::retired || !finish_retired(daemon, first + i, word))
                break;
        }
        if (!sealed && !mutant(Mutant::seal_live_page)) return false;
        clear_hint(control, first + i);
    }
    return true;
}

std::optional<RegionView> read_region(const Control& control, std::uint32_t number) {
    if (number >= control.region_count()) return {};
    const RegionEntry& entry = control.region(number);
    for (int round = 0; round < retire_rounds_max; ++round) {
        const std::uint64_t word = entry.state.load(shm::acquire);
        const RegionState state = RegionState::unpack(word);
        if (state.phase == RegionPhase::free || state.phase == RegionPhase::part ||
            state.phase > RegionPhase::part)
            return {};
        RegionView view;
        view.number = number;
        view.phase = state.phase;
        view.pool = entry.pool.load(shm::relaxed);
        view.unit_count = entry.unit_count.load(shm::relaxed);
        view.page_4k = entry.page_4k.load(shm::relaxed);
        view.page_count = entry.page_count.load(shm::relaxed);
        view.first_record = entry.first_record.load(shm::relaxed);
        view.name_space = entry.name_space.load(shm::relaxed);
        view.holder = entry.holder.load(shm::relaxed);
        shm::fence(shm::acquire);
        if (entry.state.load(shm::acquire) != word) continue;
        std::uint32_t pool = 0;
        const bool sound = view.first_record < control.record_count() &&
                           view.page_count <= control.record_count() - view.first_record &&
                           view.unit_count <= control.region_count() - number &&
                           control.region_place(number, &pool, &view.offset);
        if (!sound) return {};
        return view;
    }
    return {};
}

PageCounts count_pages(const Control& control, const RegionView& region) {
    PageCounts counts;
    for (std::uint32_t i = 0; i < region.page_count; ++i) {
        const auto phase =
            static_cast<int>(phase_of(control.record(region.first_record + i).state.load(shm::relaxed)));
        if (phase < phase_count) ++counts.of[phase];
    }
    return counts;
}

std::uint32_t units_for(const Control& control, std::uint32_t page_4k) {
    const std::uint64_t unit = control.region_unit(), page = std::uint64_t{page_4k} * page_align;
    return static_cast<std::uint32_t>((page * pages_wanted + unit - 1) / unit);
}

std::uint64_t page_bytes_max(const Control& control) {
    std::uint64_t largest = 0;
    for (std::uint32_t p = 0; p < control.pool_count(); ++p)
        if (control.pool(p).state.load(shm::relaxed) == static_cast<std::uint32_t>(PoolState::active))
            largest = std::max<std::uint64_t>(largest, control.pool(p).unit_count.load(shm::relaxed));
    largest = std::min<std::uint64_t>(largest, control.region_count());  // damage: no search may be longer
    return std::max(largest * control.region_unit() / 4 / page_align, std::uint64_t{1}) * page_align;
}

std::uint64_t free_unit_bytes(const Control& control) {
    std::uint64_t units = 0;
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        const PoolEntry& pool = control.pool(p);
        if (pool.state.load(shm::relaxed) != static_cast<std::uint32_t>(PoolState::active)) continue;
        const std::uint32_t first = pool.first_unit.load(shm::relaxed);
        for (std::uint32_t u = 0;
             u < pool.unit_count.load(shm::relaxed) && first + u < control.region_count(); ++u)
            units += RegionState::unpack(control.region(first + u).state.load(shm::relaxed)).phase ==
                     RegionPhase::free;
    }
    return units * control.region_unit();
}

Room room_of(const Control& control) {
    Room room{free_unit_bytes(control), 0};
    for (std::uint32_t p = 0; p < control.pool_count(); ++p) {
        const PoolEntry& pool = control.pool(p);
        if (pool.state.load(shm::relaxed) != static_cast<std::uint32_t>(PoolState::active)) continue;
        const std::uint64_t first = pool.first_unit.load(shm::relaxed);
        const std::uint64_t units = pool.unit_count.load(shm::relaxed);
        room.total += units * control.region_unit();
        for (std::uint64_t u = first; u < std::min<std::uint64_t>(first + units, control.region_count());
             ++u) {
            const auto number = static_cast<std::uint32_t>(u);
            if (RegionState::unpack(control.region(number).state.load(shm::relaxed)).phase !=
                RegionPhase::held)
                continue;
            if (const auto view = read_region(control, number))
                room.free += std::uint64_t{hinted_pages(control, *view)} * view->page_4k * page_align;
        }
    }
    return room;
}

Result<RegionView> claim_region(Worker& daemon, PageClass wanted, std::uint64_t holder, bool may_evict,
                                std::string* warning) {
    const Control& control = daemon.control();
    const Owner me = daemon.identity().owner();
    const std::uint64_t wanted_bytes = std::uint64_t{wanted.page_4k} * page_align;
    if (wanted_bytes == 0 || wanted_bytes > page_bytes_max(control))
        return Error{Code::too_large,
                     "pages of " + format_size(wanted_bytes) + " are not possible: at most " +
                         format_size(page_bytes_max(control)) + ", a quarter of the largest pool"};
    if (const auto region = adopt(control, wanted, holder, 50)) return *region;
    std::string shortage =
        "no free memory for pages of " + format_size(wanted_bytes) + ": all units are held by regions in use";
    for (int round = 0; round < 3; ++round) {
        Run run;
        // At least 8 pages if a pool has so much in one piece, else what one page takes.
        const std::uint64_t unit = control.region_unit();
        const auto least = static_cast<std::uint32_t>((wanted_bytes + unit - 1) / unit);
        for (std::uint32_t units = units_for(control, wanted.page_4k); units >= least; --units) {
            if (!claim_units(control, me, units, &run)) continue;
            auto region = form_region(control, me, run, wanted, holder, warning);
            if (region || region.error().code != Code::full) return region;
            shortage = region.error().text;  // of page records: regions of other sizes hold them
            break;
        }
        if (!make_room(daemon, wanted, may_evict && round > 0)) {
            if (!may_evict) break;
        }
    }
    if (const auto region = adopt(control, wanted, holder, 0)) return *region;
    return Error{Code::full, shortage};
}

bool dissolve_region(Worker& daemon, std::uint32_t number, bool evict) {
    const Control& control = daemon.control();
    const auto view = read_region(control, number);
    if (!view || view->phase != RegionPhase::held) return false;
    RegionEntry& entry = control.region(number);
    const Owner me = daemon.identity().owner();
    std::uint64_t word = entry.state.load(shm::acquire);
    if (RegionState::unpack(word).phase != RegionPhase::held) return false;
    // DRAINING first: who takes a page from now on sees it after its compare-and-swap and gives the page
    // back.
    if (!advance(entry, &word, RegionPhase::draining, me)) return false;
    if (evict) evict_range(daemon, view->first_record, view->page_count, EvictReason::demand);
    if (!advance(entry, &word, RegionPhase::sealing, me)) return false;
    if (!seal_records(daemon, view->first_record, view->page_count)) {
        open_records(control, view->first_record, view->page_count);
        advance(entry, &word, RegionPhase::held, {});
        return false;
    }
    return free_sealed_region(control, *view, word);
}

bool free_sealed_region(const Control& control, const RegionView& region, std::uint64_t word) {
    control.region(region.number).holder.store(0, shm::relaxed);
    // The claims go after the region: the records of a region under repair are never somebody else's. Exactly
    // the words that stand now: later ones may be of the next region. Death in between leaves claims that no
    // region names; recover_regions finds them.
    std::vector<std::pair<Word64*, std::uint64_t>> claims;
    const std::uint32_t first = region.first_record / records_per_granule;
    for (std::uint32_t g = first;
         g < control.granule_count() && (g - first) * records_per_granule < region.page_count; ++g) {
        Word64& place = control.granule_claim(g);
        const std::uint64_t claim = place.load(shm::acquire);
        if (claim != 0 && granule_claim::region(claim) == region.number) claims.emplace_back(&place, claim);
    }
    free_units(control, region.number, region.unit_count, word);
    if (control.region(region.number).state.load(shm::acquire) == word) return false;
    for (const auto& [place, claim] : claims)
        place->compare_exchange(claim, 0);
    return true;
}

void release_region(Worker& daemon, std::uint32_t number, std::uint64_t holder) {
    const Control& control = daemon.control();
    if (number >= control.region_count()) return;
    if (!control.region(number).holder.compare_exchange(holder, 0)) return;
    const auto view = read_region(control, number);
    if (!view || view->phase != RegionPhase::held) return;
    const auto counts = count_pages(control, *view);
    if (counts.of[static_cast<int>(Phase::free)] + counts.of[static_cast<int>(Phase::retired)] ==
        view->page_count)
        dissolve_region(daemon, number, false);
}

}  // namespace maru::table
