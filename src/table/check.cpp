#include "table/check.hpp"

#include <time.h>

#include <algorithm>
#include <unordered_map>

#include "table/clients.hpp"
#include "table/index.hpp"
#include "table/regions.hpp"

namespace maru::table {
namespace {

std::string at(const char* what, std::uint64_t number) {
    return std::string(what) + " " + std::to_string(number);
}

class Look {
  public:
    explicit Look(const Control& control) : control_(control) {}

    CheckReport run() {
        regions();
        clients();
        records();
        index();
        objects();
        overflow();
        pins();
        granules();
        return std::move(report_);
    }

  private:
    void find(const char* what, std::string where, std::uint64_t a = 0, std::uint64_t b = 0,
              std::uint64_t c = 0) {
        ++report_.findings_total;
        if (report_.findings.size() < findings_max)
            report_.findings.push_back({what, std::move(where), {a, b, c, 0}});
    }

    bool owner_known(Owner owner) const { return owner.slot != 0 && !owner_gone(owner); }
    bool owner_gone(Owner owner) const {
        if (owner.slot >= control_.client_count()) return true;
        const std::uint64_t word = control_.client(owner.slot).state.load(shm::acquire);
        return client_state::phase(word) == ClientPhase::free ||
               Owner::of(owner.slot, client_state::generation(word)) != owner;
    }
    bool holder_gone(std::uint64_t word) const {
        return owner_gone(Owner::of(holder::slot(word), holder::generation(word))) || holder::slot(word) == 0;
    }

    /// Marks the records of each region; finds regions whose numbers make no sense or overlap.
    void regions() {
        region_of_.assign(control_.record_count(), 0);
        for (std::uint32_t r = 0; r < control_.region_count(); ++r) {
            const std::uint64_t word = control_.region(r).state.load(shm::acquire);
            const RegionState state = RegionState::unpack(word);
            if (state.phase > RegionPhase::part) {
                find("region in a phase that does not exist", at("region", r), word);
                continue;
            }
            if (state.phase == RegionPhase::free) continue;
            ++report_.regions;
            if (state.phase == RegionPhase::part) {
                part(r, word);
                continue;
            }
            const auto view = read_region(control_, r);
            if (!view) {
                if (state.phase == RegionPhase::held)
                    find("region lies outside its tables", at("region", r), word);
                continue;
            }
            if (state.phase != RegionPhase::held && !owner_known(state.owner))
                find("region between two phases, and who worked on it is gone", at("region", r), word);
            if (state.phase != RegionPhase::held) continue;
            if (view->holder != 0 && holder_gone(view->holder))
                find("region held by a client that does not exist", at("region", r), word, view->holder);
            const std::uint64_t page = std::uint64_t{view->page_4k} * page_align;
            if (view->page_count == 0 || page == 0 ||
                page > view->unit_count * control_.region_unit() / view->page_count)
                find("pages of a region do not fit into it", at("region", r), word, view->page_count, page);
            for (std::uint32_t i = 0; i < view->page_count; ++i) {
                auto& mark = region_of_[view->first_record + i];
                if (mark != 0)
                    find("record belongs to two regions", at("record", view->first_record + i), r, mark - 1);
                mark = r + 1;
            }
        }
    }

    void part(std::uint32_t number, std::uint64_t word) {
        const std::uint32_t head = control_.region(number).head.load(shm::relaxed);
        const auto phase = head < number
                               ? RegionState::unpack(control_.region(head).state.load(shm::acquire)).phase
                               : RegionPhase::free;
        const bool named = phase != RegionPhase::free && phase != RegionPhase::part &&
                           (phase == RegionPhase::formatting ||
                            control_.region(head).unit_count.load(shm::relaxed) > number - head);
        if (!named) find("unit is part of no region", at("region", number), word, head);
    }

    void clients() {
        for (std::uint32_t slot = 1; slot < control_.client_count(); ++slot) {
            const std::uint64_t word = control_.client(slot).state.load(shm::acquire);
            if (client_state::phase(word) > ClientPhase::dead)
                find("client slot in a phase that does not exist", at("client slot", slot), word);
            report_.clients += client_state::phase(word) != ClientPhase::free;
        }
    }

    void records() {
        slots_of_.assign(control_.record_count(), 0);
        for (std::uint32_t n = 0; n < control_.record_count(); ++n) {
            const PageRecord& record = control_.record(n);
            const std::uint64_t word = record.state.load(shm::acquire);
            const State state = State::unpack(word);
            const auto phase = static_cast<int>(state.phase);
            if (phase >= phase_count) {
                find("record in a phase that does not exist", at("record", n), word);
                continue;
            }
            ++report_.pages[phase];
            if (n < records_per_granule) {
                if (word != 0) find("record that is never used is in use", at("record", n), word);
                continue;
            }
            ++report_.records;
            record_in_region(n, record, state, word);
            record_owner(n, state, word);
        }
    }

    void record_in_region(std::uint32_t n, const PageRecord& record, State state, std::uint64_t word) {
        if (region_of_[n] == 0) {
            // A region between two phases still has records in other phases; its owner is looked at above.
            const std::uint64_t claim = control_.granule_claim(n / records_per_granule).load(shm::acquire);
            if (state.phase != Phase::sealed && claim == 0)
                find("page in use belongs to no region", at("record", n), word);
            return;
        }
        if (state.phase == Phase::sealed) return;  // may be opened by anybody
        const std::uint32_t region = record.region.load(shm::relaxed),
                            index = record.page_index.load(shm::relaxed);
        if (region != region_of_[n] - 1 ||
            control_.region(region).first_record.load(shm::relaxed) + index != n)
            find("record names another page than its region does", at("record", n), word, region, index);
        PageLocation location;
        std::uint32_t pool = 0;
        std::uint64_t offset = 0;
        if (!control_.locate(record, &location) || !control_.place(location, &pool, &offset))
            find("page lies outside every pool", at("record", n), word, region, index);
        if (is_live(state.phase) && state.phase != Phase::publishing) {
            const std::uint64_t length = record.length.load(shm::relaxed);
            if (length > location.page_bytes())
                find("value is longer than its page", at("record", n), word, length);
            const std::uint16_t key = record.key_length.load(shm::relaxed);
            if (key == 0 || key > key_length_max)
                find("key of an impossible length", at("record", n), word, key);
        }
    }

    void record_owner(std::uint32_t n, State state, std::uint64_t word) {
        const bool owned = state.phase == Phase::reserved || state.phase == Phase::publishing ||
                           state.phase == Phase::retiring_evict || state.phase == Phase::retiring_delete;
        if (owned && !owner_known(state.owner))
            find("page held by a client that does not exist", at("record", n), word);
    }

    void index() {
        const std::uint64_t buckets = std::uint64_t{control_.bucket_count()} + control_.overflow_count();
        for (std::uint64_t b = 0; b < buckets; ++b) {
            Bucket& bucket = control_.bucket(b);
            for (std::uint32_t s = 0; s < slots_per_bucket; ++s) {
                const std::uint64_t word = bucket.slots[s].load(shm::acquire);
                if (word != 0) index_slot(b, s, word);
            }
            if (bucket.link.load(shm::acquire) > control_.overflow_count())
                find("link to an overflow bucket that does not exist", at("bucket", b),
                     bucket.link.load(shm::relaxed));
        }
    }

    void index_slot(std::uint64_t b, std::uint32_t s, std::uint64_t word) {
        ++report_.slots;
        const std::string where = at("bucket", b) + " slot " + std::to_string(s);
        const std::uint32_t n = slot::record(word);
        if (n < records_per_granule || n >= control_.record_count()) {
            find("slot names a record that does not exist", where, word);
            return;
        }
        const PageRecord& record = control_.record(n);
        const std::uint64_t state_word = record.state.load(shm::acquire);
        const State state = State::unpack(state_word);
        if (slot::is_tentative(word)) {
            if (!slot::same_generation(word, state.generation) || state.phase != Phase::publishing ||
                !owner_known(state.owner))
                find("tentative slot that nobody will finish", where, word, state_word);
            return;
        }
        if (!slot::same_generation(word, state.generation) || !is_live(state.phase)) {
            find("slot names no live record", where, word, state_word);
            return;
        }
        if (slots_of_[n]++ != 0) find("two slots name one record", where, word, state_word);
        const std::uint64_t hash = record.hash_low.load(shm::relaxed);
        if (slot::tag(word) != Control::tag_of(hash))
            find("slot has another tag than its key", where, word, hash);
        if (!reachable(hash, b)) find("slot lies in a chain that its key does not reach", where, word, hash);
    }

    bool reachable(std::uint64_t hash, std::uint64_t bucket) const {
        std::uint64_t number = control_.home_of(hash);
        for (int hop = 0; hop <= chain_hops_max; ++hop) {
            if (number == bucket) return true;
            const std::uint64_t link = control_.bucket(number).link.load(shm::acquire);
            if (link == 0 || link > control_.overflow_count()) return false;
            number = control_.bucket_count() + link - 1;
        }
        return false;
    }

    /// Every object has its slot, and no key stands twice.
    void objects() {
        struct Hash {
            std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& key) const {
                return key.first;
            }
        };
        std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t, Hash> seen;
        for (std::uint32_t n = records_per_granule; n < control_.record_count(); ++n) {
            const PageRecord& record = control_.record(n);
            const std::uint64_t word = record.state.load(shm::acquire);
            const State state = State::unpack(word);
            if (!is_live(state.phase) || (state.phase == Phase::publishing && slots_of_[n] == 0)) continue;
            ++report_.objects;
            if (slots_of_[n] == 0 && state.phase != Phase::publishing)
                find("object has no slot in the index", at("record", n), word);
            // A flush leaves objects of an older epoch behind: same hash, another epoch, not the same key.
            const std::uint64_t low = record.hash_low.load(shm::relaxed);
            const std::uint64_t high = record.hash_high.load(shm::relaxed) +
                                       record.namespace_epoch.load(shm::relaxed) * 0x9E3779B97F4A7C15u;
            if (const auto [other, fresh] = seen.try_emplace({low, high}, n); !fresh)
                find("key stands twice", at("record", n) + " and " + std::to_string(other->second), word,
                     control_.record(other->second).state.load(shm::acquire));
        }
    }

    void overflow() {
        std::vector<bool> linked(control_.overflow_count(), false);
        const std::uint64_t buckets = std::uint64_t{control_.bucket_count()} + control_.overflow_count();
        for (std::uint64_t b = 0; b < buckets; ++b) {
            const std::uint64_t link = control_.bucket(b).link.load(shm::acquire);
            if (link == 0 || link > control_.overflow_count()) continue;
            if (linked[link - 1]) find("overflow bucket linked twice", at("overflow bucket", link - 1), b);
            linked[link - 1] = true;
        }
        for (std::uint32_t n = 0; n < control_.overflow_count(); ++n) {
            const std::uint64_t claim = control_.overflow_claim(n).load(shm::acquire);
            if (overflow_claim::in_progress(claim)) {
                if (!owner_known(overflow_claim::owner(claim)))
                    find("overflow bucket claimed by a client that does not exist", at("overflow bucket", n),
                         claim);
            } else if (claim > overflow_claim::linked || (claim == overflow_claim::linked) != linked[n]) {
                find("overflow bucket and its claim disagree", at("overflow bucket", n), claim, linked[n]);
            }
        }
    }

    void pins() {
        const std::uint64_t mark = control_.super().pin_high_water.load(shm::acquire);
        for (std::uint32_t c = 0; c < control_.chunk_count(); ++c) {
            const PinChunk& chunk = control_.chunk(c);
            const std::uint64_t owner = chunk.owner.load(shm::acquire);
            if (owner != 0 && holder_gone(owner))
                find("pin chunk of a client that does not exist", at("pin chunk", c), owner);
            if (owner != 0 && c >= mark)
                find("pin chunk in use above the high-water mark", at("pin chunk", c), owner, mark);
            for (std::uint32_t i = 0; i < pins_per_chunk; ++i) {
                const std::uint64_t word = chunk.pins[i].load(shm::acquire);
                if (word == 0) continue;
                ++report_.pins;
                const std::string where = at("pin chunk", c) + " pin " + std::to_string(i);
                if (owner == 0) find("pin of nobody", where, word);
                if (pin::kind(word) == PinKind::none || pin::record(word) >= control_.record_count())
                    find("pin names a record that does not exist", where, word);
            }
        }
    }

    void granules() {
        for (std::uint32_t g = 0; g < control_.granule_count(); ++g) {
            const std::uint64_t claim = control_.granule_claim(g).load(shm::acquire);
            if (claim == 0) {
                if (region_of_[g * records_per_granule] != 0)
                    find("records of a region without a claim", at("granule", g),
                         region_of_[g * records_per_granule]);
                continue;
            }
            const std::uint32_t region = granule_claim::region(claim);
            const bool exists = region < control_.region_count();
            const std::uint64_t word = exists ? control_.region(region).state.load(shm::acquire) : 0;
            const auto phase = RegionState::unpack(word).phase;
            if (phase == RegionPhase::formatting || phase == RegionPhase::draining ||
                phase == RegionPhase::sealing)
                continue;
            const std::uint32_t first =
                exists ? control_.region(region).first_record.load(shm::relaxed) / records_per_granule : 0;
            if (phase != RegionPhase::held || g < first ||
                g - first >= control_.region(region).granules.load(shm::relaxed))
                find("records claimed for a region that does not have them", at("granule", g), claim, word);
        }
    }

    const Control& control_;
    CheckReport report_;
    std::vector<std::uint32_t> region_of_;  // by record: 1 + region
    std::vector<std::uint16_t> slots_of_;   // by record: final slots that name it
};

}  // namespace

CheckReport look(const Control& control) {
    return Look(control).run();
}

CheckReport check(const Control& control, int pause_ms) {
    CheckReport report = look(control);
    if (report.findings.empty()) return report;
    // Something may just have been changing: what is wrong is still wrong, word for word, a moment later.
    const timespec pause{pause_ms / 1000, pause_ms % 1000 * 1'000'000L};
    ::nanosleep(&pause, nullptr);
    const CheckReport first = std::move(report);
    report = look(control);
    std::vector<Finding> both;
    for (const auto& finding : report.findings)
        if (std::find(first.findings.begin(), first.findings.end(), finding) != first.findings.end())
            both.push_back(finding);
    const bool cut = report.findings_total > report.findings.size();
    report.findings = std::move(both);
    if (!cut) report.findings_total = report.findings.size();
    return report;
}

}  // namespace maru::table
