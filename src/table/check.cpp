#include "table/check.hpp"

#include <time.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "table/clients.hpp"
#include "table/index.hpp"
#include "table/regions.hpp"
#include "table/repair_plan.hpp"
#include "table/seal.hpp"

namespace maru::table {
namespace {

std::string at(const char* what, std::uint64_t number) {
    return std::string(what) + " " + std::to_string(number);
}

class Look {
  public:
    explicit Look(const Control& control) : control_(control) {}

    CheckReport run() {
        superblock();
        pools();
        namespaces();
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

    void superblock() {
        const Superblock& super = control_.super();
        const std::uint64_t bound = super.bound.load(shm::acquire), epoch = super.epoch.load(shm::acquire);
        if (epoch == 0 || epoch < bound || epoch > last::epoch_mask / 2)
            find("epoch is impossible", "superblock", epoch, bound);
        const std::uint64_t eviction = super.eviction.load(shm::relaxed);
        if (eviction > static_cast<std::uint64_t>(EvictionPolicy::none))
            find("eviction policy that does not exist", "superblock", eviction);
        for (std::uint32_t h = 0; h < control_.host_count(); ++h)
            if (const std::uint64_t state = control_.host(h).state.load(shm::relaxed);
                host_state::phase(state) > HostPhase::joining)
                find("host in a state that does not exist", at("host", h), state);
    }

    static bool is_name(const std::string& name) {
        return !name.empty() && std::all_of(name.begin(), name.end(), [](char letter) {
            return static_cast<unsigned char>(letter) > 0x20 && letter != 0x7f;
        });
    }

    void pools() {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // units, from and to
        for (std::uint32_t p = 0; p < control_.pool_count(); ++p) {
            const PoolEntry& pool = control_.pool(p);
            const std::uint32_t state = pool.state.load(shm::acquire),
                                count = pool.unit_count.load(shm::relaxed),
                                first = pool.first_unit.load(shm::relaxed);
            if (state >= pool_states) {
                find("pool in a state that does not exist", at("pool", p), state);
                continue;
            }
            if (state == static_cast<std::uint32_t>(PoolState::none)) {
                if (count != 0 || p == 0) find("units of no pool", at("pool", p), first, count);
                continue;
            }
            const std::uint64_t bytes = pool.bytes.load(shm::relaxed),
                                offset = pool.data_offset.load(shm::relaxed);
            const bool behind = p != 0 || offset >= control_.control_bytes();
            const bool has_left = state == static_cast<std::uint32_t>(PoolState::removed) && count == 0;
            const bool overlaps = std::any_of(taken.begin(), taken.end(), [&](const auto& other) {
                return first < other.second && other.first < std::uint64_t{first} + count;
            });
            if (!has_left && (count == 0 || overlaps || first > control_.region_count() ||
                              count > control_.region_count() - first || (p == 0 && first != 0) || !behind ||
                              offset > bytes || count > (bytes - offset) / control_.region_unit()))
                find("units of a pool do not lie inside it", at("pool", p), offset, first, count);
            if (!is_name(pool.name.get())) find("pool without a name", at("pool", p));
            taken.emplace_back(first, std::uint64_t{first} + count);
        }
    }

    void namespaces() {
        for (std::uint32_t id = 0; id < control_.namespace_count(); ++id) {
            const NamespaceEntry& entry = control_.name_space(id);
            const std::uint64_t state = entry.state.load(shm::acquire);
            if (id == 0 && (state & 1) == 0) find("default namespace is not in use", "namespace 0", state);
            if ((state & 1) != 0 && !is_name(entry.name.get()))
                find("namespace without a name", at("namespace", id), state);
            if (!namespace_state::is_sound(state))
                find("namespace in a state that does not exist", at("namespace", id), state);
            const std::uint64_t rules = entry.rules.load(shm::acquire);
            if ((state & 1) != 0 && !namespace_rules::is_sound(rules))
                find("namespace with impossible access rules", at("namespace", id), rules);
        }
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
            const std::uint32_t granules = control_.region(r).granules.load(shm::relaxed);
            if (granules != (view->page_count + records_per_granule - 1) / records_per_granule)
                find("region has other granules than pages", at("region", r), granules, view->page_count);
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
            else
                object_proof(n, record, state, word);
        }
    }

    /// The record proves itself: its namespace, its hash and its seal fit to what it says.
    void object_proof(std::uint32_t n, const PageRecord& record, State state, std::uint64_t word) {
        const std::uint32_t id = record.name_space.load(shm::relaxed),
                            epoch = record.namespace_epoch.load(shm::relaxed);
        const std::uint64_t name_space =
            id < control_.namespace_count() ? control_.name_space(id).state.load(shm::acquire) : 0;
        const std::uint16_t length = record.key_length.load(shm::relaxed);
        const std::uint64_t low = record.hash_low.load(shm::relaxed),
                            high = record.hash_high.load(shm::relaxed),
                            stamp = record.checksum.load(shm::relaxed);
        const std::uint64_t seal = record_seal(record, state.generation);
        const std::string bytes = inline_key(record);
        shm::fence(shm::acquire);  // with the fence of who fills the record for another object
        if (generation_of(record.state.load(shm::acquire)) != state.generation) return;
        if ((name_space & 1) == 0)
            return find("object of a namespace that is not in use", at("record", n), word, id);
        if (epoch > control_.name_space(id).epoch.load(shm::relaxed))
            find("object of an epoch that has not come", at("record", n), word, epoch);
        const bool whole = length <= key_inline_max;
        const Key key = whole ? control_.key(id, bytes) : Key{};
        if (whole && (key.low != low || key.high != high))
            find("key has another hash than its record says", at("record", n), word, low, key.low);
        if (control_.checksum_mode() == ChecksumMode::off && stamp != 0 && stamp != seal)
            find("record does not have its seal", at("record", n), word, stamp, seal);
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
        // Of a page that is RETIRED by now: stale, and cleared by whoever takes the page.
        if (slot::same_generation(word, state.generation) && state.phase == Phase::retired) return;
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
        std::vector<bool> reached(control_.overflow_count(), false);
        for (std::uint64_t home = 0; home < control_.bucket_count(); ++home) {
            std::uint64_t link = control_.bucket(home).link.load(shm::acquire);
            for (int hop = 0; hop < chain_hops_max && link != 0 && link <= control_.overflow_count(); ++hop) {
                reached[link - 1] = true;
                link = control_.bucket(control_.bucket_count() + link - 1).link.load(shm::acquire);
            }
        }
        for (std::uint32_t n = 0; n < control_.overflow_count(); ++n) {
            const std::uint64_t claim = control_.overflow_claim(n).load(shm::acquire);
            if (overflow_claim::in_progress(claim)) {
                if (!owner_known(overflow_claim::owner(claim)))
                    find("overflow bucket claimed by a client that does not exist", at("overflow bucket", n),
                         claim);
            } else if (linked[n] && !reached[n]) {
                find("overflow bucket that no chain reaches", at("overflow bucket", n), claim);
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
                const bool protects = pin::kind(word) == PinKind::lease || pin::kind(word) == PinKind::key;
                if (protects && (chunk.summary.load(shm::acquire) >> i & 1) == 0)
                    find("pin that no scan finds", where, word);
                if (const std::uint64_t epoch = chunk.epoch.load(shm::acquire);
                    pin::Epoch::get(word) != (epoch & pin::Epoch::mask))
                    find("pin of another time of its chunk", where, word, epoch);
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
