// Which page records are objects.
#include <unordered_map>

#include "table/index.hpp"
#include "table/repair_plan.hpp"
#include "table/seal.hpp"

namespace maru::table {
namespace {

std::uint32_t next_generation(std::uint32_t generation) {
    return generation + 1 == 0 ? 1 : generation + 1;
}

/// The record's key is one of this namespace: its hash comes from its bytes where they are here as a whole.
const char* wrong_key(const Control& control, const PageRecord& record, std::uint32_t name_space,
                      std::uint32_t generation) {
    const std::uint16_t length = record.key_length.load(shm::relaxed);
    if (length == 0 || length > key_length_max) return "its key has an impossible length";
    if (length > key_inline_max) return nullptr;
    // Not with Control::key alone: the namespace's entry may be what is damaged.
    constexpr std::uint64_t factor = 0x9E3779B97F4A7C15u;
    const std::string bytes = inline_key(record);
    const Key key = control.key(name_space, bytes);
    const std::uint64_t now =
        (control.name_space(name_space).state.load(shm::relaxed) >> 32 << 32 | name_space) * factor;
    const std::uint64_t right = (std::uint64_t{generation} << 32 | name_space) * factor;
    const bool same = (key.low ^ now ^ right) == record.hash_low.load(shm::relaxed) &&
                      key.high - now + right == record.hash_high.load(shm::relaxed);
    return same ? nullptr : "its key does not have its hash";
}

class Records {
  public:
    Records(const Control& control, const RepairSources& sources, RepairPlan* plan)
        : control_(control), sources_(sources), plan_(*plan) {}

    void run() {
        plan_.states.assign(control_.record_count(), 0);
        plan_.kept.assign(control_.record_count(), false);
        find_slots();
        for (std::uint32_t n = records_per_granule; n < control_.record_count(); ++n)
            decide(n);
        drop_doubles();
        for (std::uint32_t n = records_per_granule; n < control_.record_count(); ++n)
            plan_.report.kept += plan_.kept[n];
    }

  private:
    /// Final slots that name a record in its generation, in a chain that its hash reaches.
    void find_slots() {
        has_slot_.assign(control_.record_count(), false);
        named_.assign(control_.record_count(), false);
        const std::uint64_t buckets = std::uint64_t{control_.bucket_count()} + control_.overflow_count();
        for (std::uint64_t b = 0; b < buckets; ++b)
            for (const auto& place : control_.bucket(b).slots) {
                const std::uint64_t word = place.load(shm::relaxed);
                const std::uint32_t n = slot::record(word);
                if (word == 0 || slot::is_tentative(word) || n < records_per_granule ||
                    n >= control_.record_count())
                    continue;
                named_[n] = true;
            }
        for (std::uint32_t n = records_per_granule; n < control_.record_count(); ++n)
            if (named_[n])
                has_slot_[n] =
                    has_final_slot(control_, n, generation_of(control_.record(n).state.load(shm::relaxed)));
    }

    void decide(std::uint32_t n) {
        const std::uint64_t word = control_.record(n).state.load(shm::relaxed);
        const State state = State::unpack(word);
        const auto free_word = state_word(Phase::free, next_generation(state.generation));
        const RegionPlan* region = plan_.region_of[n] == 0 ? nullptr : &plan_.regions[plan_.region_of[n] - 1];
        if (region == nullptr || n - region->first_record >= region->page_count) {
            plan_.states[n] = state.phase == Phase::sealed
                                  ? word
                                  : state_word(Phase::sealed, next_generation(state.generation));
            if (was_object(n, state)) plan_.lose(control_, n, "no region can be proven to hold its page");
            return;
        }
        if (state.phase == Phase::bad || (state.phase == Phase::free && state.owner == Owner{})) {
            plan_.states[n] = word;
            if (named_[n] && has_slot_[n]) plan_.lose(control_, n, "its page is free or bad");
            return;
        }
        plan_.states[n] = free_word;
        if (!was_object(n, state)) return;
        if (const char* why = refusal(n, state, *region)) return plan_.lose(control_, n, why);
        plan_.states[n] = state_word(Phase::published, state.generation, {}, state.attempt);
        plan_.kept[n] = true;
    }

    /// Somebody may miss it.
    bool was_object(std::uint32_t n, State state) const {
        if (static_cast<int>(state.phase) >= phase_count) return true;
        if (state.phase == Phase::publishing) return has_slot_[n];  // else it was never committed
        if (state.phase == Phase::sealed || state.phase == Phase::reserved || state.phase == Phase::free)
            return named_[n] && has_slot_[n];
        return is_live(state.phase);
    }

    /// Why the record is no proof of an object; nullptr when it is one.
    const char* refusal(std::uint32_t n, State state, const RegionPlan& region) {
        const PageRecord& record = control_.record(n);
        if (!is_live(state.phase)) return "its state is damaged";
        if (state.phase == Phase::published && state.owner != Owner{}) return "its state is damaged";
        const std::uint64_t length = record.length.load(shm::relaxed);
        if (length > std::uint64_t{region.page_4k} * page_align) return "its value is longer than its page";
        if (const char* wrong = wrong_key(control_, record, region.name_space,
                                          plan_.namespaces[region.name_space].generation))
            return wrong;
        if (record.namespace_epoch.load(shm::relaxed) > plan_.namespaces[region.name_space].epoch)
            return "its namespace has not come to its epoch";
        if (plan_.stage == RepairStage::indexing) return nullptr;  // proven by the repair that was cut short
        const std::uint64_t stamp = record.checksum.load(shm::relaxed);
        if (control_.checksum_mode() == ChecksumMode::off) {
            if (stamp == record_seal(record, state.generation)) return nullptr;
            if (stamp != 0) return "its record does not have its seal";
        } else if (const auto sum = checksum_of_value(n, region, length)) {
            if (*sum != stamp) return "its value does not have its checksum";
            return nullptr;
        }
        return has_slot_[n] ? nullptr : "no slot in the index names it, and nothing else proves it";
    }

    std::optional<std::uint64_t> checksum_of_value(std::uint32_t n, const RegionPlan& region,
                                                   std::uint64_t length) {
        if (!sources_.checksum_of) return {};
        const auto& pool = plan_.pools[region.pool];
        const std::uint64_t offset = pool.data_offset +
                                     std::uint64_t{region.number - pool.first_unit} * control_.region_unit() +
                                     std::uint64_t{n - region.first_record} * region.page_4k * page_align;
        return sources_.checksum_of(region.pool, offset, length);
    }

    /// Of two records of one key the one that the index names, else the first: same key means same content.
    void drop_doubles() {
        struct Hash {
            std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& key) const {
                return key.first;
            }
        };
        std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t, Hash> seen;
        for (std::uint32_t n = records_per_granule; n < control_.record_count(); ++n) {
            if (!plan_.kept[n]) continue;
            const PageRecord& record = control_.record(n);
            const std::uint64_t high = record.hash_high.load(shm::relaxed) +
                                       record.namespace_epoch.load(shm::relaxed) * 0x9E3779B97F4A7C15u;
            const auto [other, fresh] = seen.try_emplace({record.hash_low.load(shm::relaxed), high}, n);
            if (fresh) continue;
            const bool this_one = has_slot_[n] && !has_slot_[other->second];
            const std::uint32_t loser = this_one ? other->second : n;
            if (this_one) other->second = n;
            plan_.kept[loser] = false;
            plan_.states[loser] = state_word(
                Phase::free, next_generation(generation_of(control_.record(loser).state.load(shm::relaxed))));
            plan_.mend("record " + std::to_string(loser) + ": freed; record " +
                       std::to_string(other->second) + " holds the same key");
        }
    }

    const Control& control_;
    const RepairSources& sources_;
    RepairPlan& plan_;
    std::vector<bool> named_, has_slot_;  // by record
};

}  // namespace

std::string inline_key(const PageRecord& record) {
    const std::size_t length = record.key_length.load(shm::relaxed);
    std::string key;
    for (std::size_t at = 0; at < std::min<std::size_t>(length, key_inline_max); ++at)
        key += static_cast<char>(record.key[at / 8].load(shm::relaxed) >> (8 * (at % 8)) & 0xff);
    return key;
}

void RepairPlan::lose(const Control& control, std::uint32_t record, std::string why) {
    ++report.lost_total;
    if (report.lost.size() >= lost_max) return;
    const PageRecord& lost = control.record(record);
    report.lost.push_back({record, inline_key(lost), lost.key_length.load(shm::relaxed), std::move(why)});
}

void decide_records(const Control& control, const RepairSources& sources, RepairPlan* plan) {
    Records(control, sources, plan).run();
}

}  // namespace maru::table
