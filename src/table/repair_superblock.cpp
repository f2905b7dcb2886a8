// The superblock's immutable part: 64 bits of checksum tell the one candidate that is right.
#include <bit>
#include <cstring>

#include "base/size.hpp"
#include "shm/mapping.hpp"
#include "table/plan.hpp"
#include "table/repair_plan.hpp"

namespace maru::table {
namespace {

constexpr std::size_t reserved_from = offsetof(Superblock, reserved) / 8;
static_assert(offsetof(Superblock, reserved) % 8 == 0);

std::uint32_t get32(const ImmutableWords& words, std::size_t offset) {
    return static_cast<std::uint32_t>(words[offset / 8] >> (offset % 8 * 8));
}
void set32(ImmutableWords& words, std::size_t offset, std::uint32_t value) {
    const std::uint64_t mask = 0xffffffffull << (offset % 8 * 8);
    words[offset / 8] = (words[offset / 8] & ~mask) | std::uint64_t{value} << (offset % 8 * 8);
}

/// What every superblock of this build says.
void put_constants(ImmutableWords& words) {
    words[0] = superblock_magic;
    set32(words, offsetof(Superblock, version), layout_version);
    for (std::size_t w = reserved_from; w < words.size(); ++w)
        words[w] = 0;
}

/// The sizes and places that follow from the counts; false when the counts are impossible.
/// `by_regions`: the room for pools is what the number of regions says, not what the rule makes of the pools.
bool put_layout(ImmutableWords& words, const RepairSources& sources, bool by_regions) {
    FormatPlan plan;
    plan.pools = sources.pools;
    plan.region_unit = words[offsetof(Superblock, region_unit) / 8];
    const std::uint32_t regions = get32(words, offsetof(Superblock, regions));
    if (by_regions && (regions == 0 || regions > max_units || plan.region_unit > TiB)) return false;
    if (by_regions) plan.max_bytes = regions * plan.region_unit;
    const std::uint32_t records = get32(words, offsetof(Superblock, records));
    if (records < 2 * records_per_granule || plan.region_unit == 0) return false;
    plan.records = records - records_per_granule;
    plan.clients = get32(words, offsetof(Superblock, clients)) - 1;
    plan.hosts = get32(words, offsetof(Superblock, hosts));
    plan.namespaces = get32(words, offsetof(Superblock, namespaces));
    const std::uint32_t chunks = get32(words, offsetof(Superblock, pin_chunks));
    if (chunks > max_pin_chunks) return false;
    plan.pins = chunks * pins_per_chunk;
    const auto made = lay_out(plan);
    if (!made) return false;
    words[offsetof(Superblock, control_bytes) / 8] = made->sizes.control_bytes;
    set32(words, offsetof(Superblock, records), made->sizes.records);
    set32(words, offsetof(Superblock, index_buckets), made->sizes.buckets);
    set32(words, offsetof(Superblock, overflow_buckets), made->sizes.overflow_buckets);
    set32(words, offsetof(Superblock, pools), made->pools);
    set32(words, offsetof(Superblock, regions), made->sizes.regions);
    const std::pair<std::size_t, std::uint64_t> places[] = {
        {offsetof(Superblock, pools_at), made->pools_at},
        {offsetof(Superblock, hosts_at), made->hosts_at},
        {offsetof(Superblock, clients_at), made->clients_at},
        {offsetof(Superblock, client_stats_at), made->client_stats_at},
        {offsetof(Superblock, namespaces_at), made->namespaces_at},
        {offsetof(Superblock, regions_at), made->regions_at},
        {offsetof(Superblock, records_at), made->records_at},
        {offsetof(Superblock, pin_chunks_at), made->pin_chunks_at},
        {offsetof(Superblock, index_at), made->index_at},
        {offsetof(Superblock, overflow_claims_at), made->overflow_claims_at},
        {offsetof(Superblock, granule_claims_at), made->granule_claims_at},
        {offsetof(Superblock, hints_at), made->hints_at},
    };
    for (const auto& [offset, value] : places)
        words[offset / 8] = value;
    return true;
}

class Rescue {
  public:
    Rescue(const ImmutableWords& words, std::uint64_t checksum, const RepairSources& sources)
        : found_(words), checksum_(checksum), sources_(sources) {
        put_constants(found_);
    }
    std::optional<ImmutableWords> run() {
        if (fits(found_, 1) || one_bit() || one_count()) return right_;
        return {};
    }

  private:
    /// The candidate, or the same with its sizes and places worked out, has the checksum but for so many
    /// bits.
    bool fits(ImmutableWords candidate, int bits = 0) {
        const ImmutableWords given = candidate;
        for (int derived = 0; derived < 3; ++derived) {
            if (derived > 0) candidate = given;
            if (derived > 0 && !put_layout(candidate, sources_, derived == 1)) continue;
            if (std::popcount(checksum_of(candidate) ^ checksum_) > bits) continue;
            right_ = candidate;
            return true;
        }
        return false;
    }
    bool one_bit() {
        for (std::size_t w = 1; w < reserved_from; ++w)
            for (int bit = 0; bit < 64; ++bit) {
                ImmutableWords candidate = found_;
                candidate[w] ^= std::uint64_t{1} << bit;
                if (fits(candidate)) return true;
            }
        return false;
    }
    /// One of the small numbers is gone altogether.
    bool one_count() {
        const std::pair<std::size_t, std::uint32_t> counts[] = {
            {offsetof(Superblock, coherence), 2},
            {offsetof(Superblock, checksum_mode), 2},
            {offsetof(Superblock, clients), max_clients},
            {offsetof(Superblock, hosts), max_hosts},
            {offsetof(Superblock, namespaces), max_namespaces},
            {offsetof(Superblock, pin_chunks), max_pin_chunks},
        };
        for (const auto& [offset, most] : counts)
            for (std::uint32_t value = 0; value <= most; ++value) {
                ImmutableWords candidate = found_;
                set32(candidate, offset, value);
                if (fits(candidate)) return true;
            }
        for (const std::size_t offset : {offsetof(Superblock, region_unit), offsetof(Superblock, min_page)})
            for (int shift = 12; shift < 48; ++shift) {
                ImmutableWords candidate = found_;
                candidate[offset / 8] = std::uint64_t{1} << shift;
                if (fits(candidate)) return true;
            }
        return false;
    }

    ImmutableWords found_, right_{};
    const std::uint64_t checksum_;
    const RepairSources& sources_;
};

/// The fields that cannot be what they say, for people.
std::string suspects(const ImmutableWords& words) {
    std::string names;
    const auto suspect = [&](const char* name, bool is) {
        if (is) names += (names.empty() ? "" : ", ") + std::string(name);
    };
    const auto count = [&](const char* name, std::size_t offset, std::uint32_t least, std::uint32_t most) {
        const std::uint32_t value = get32(words, offset);
        suspect(name, value < least || value > most);
    };
    suspect("magic", words[0] != superblock_magic);
    count("version", offsetof(Superblock, version), layout_version, layout_version);
    count("coherence", offsetof(Superblock, coherence), 0, 2);
    count("checksum mode", offsetof(Superblock, checksum_mode), 0, 2);
    count("records", offsetof(Superblock, records), 2 * records_per_granule, max_records);
    count("clients", offsetof(Superblock, clients), 2, max_clients);
    count("hosts", offsetof(Superblock, hosts), 1, max_hosts);
    count("namespaces", offsetof(Superblock, namespaces), 1, max_namespaces);
    count("regions", offsetof(Superblock, regions), 1, max_units);
    count("pin chunks", offsetof(Superblock, pin_chunks), 1, max_pin_chunks);
    suspect("region unit", !std::has_single_bit(words[offsetof(Superblock, region_unit) / 8]));
    suspect("domain UUID", words[offsetof(Superblock, domain_uuid) / 8] == 0);
    suspect("hash seed", words[offsetof(Superblock, hash_seed) / 8] == 0);
    return names.empty()
               ? "every field reads possible, so that it is the domain UUID, the hash seed or the checksum"
               : "impossible: " + names;
}

}  // namespace

Result<void> mend_superblock(std::span<std::byte> memory, const RepairSources& sources,
                             RepairReport* report) {
    auto* super = shm::table_at<Superblock>(memory, 0, 1);
    if (super == nullptr)
        return Error{Code::damaged, "the control pool is smaller than a superblock: nothing can be repaired"};
    const ImmutableWords words = read_immutable(*super);
    const std::uint64_t checksum = super->checksum.load(shm::relaxed);
    const bool known_magic =
        words[0] == superblock_magic || words[0] == magic_deciding || words[0] == magic_indexing;
    if (known_magic && checksum_of(words) == checksum) return {};
    const std::uint32_t version = get32(words, offsetof(Superblock, version));
    if (words[0] == superblock_magic && version != layout_version && checksum_of(words) == checksum)
        return Error{Code::version, "layout version " + std::to_string(version) +
                                        ", this build knows version " + std::to_string(layout_version)};
    const auto right = Rescue(words, checksum, sources).run();
    if (!right)
        return Error{
            Code::damaged,
            "the immutable part of the superblock is damaged, and no value that its checksum proves can be "
            "derived (" +
                suspects(words) + "): only maru --format helps, which loses the domain's objects"};
    auto* to = shm::table_at<Word64>(memory, 0, immutable_words);
    // Whole again in every state between: each word is either as it was found or as it was proven, and nobody
    // attaches before the checksum fits.
    for (std::size_t w = 1; w < immutable_words; ++w)
        if (to[w].load(shm::relaxed) != (*right)[w]) to[w].store((*right)[w], shm::relaxed);
    super->checksum.store(checksum_of(*right), shm::relaxed);
    // What else is damaged is not known yet: nobody is to serve it before the end.
    if (!known_magic || words[0] == superblock_magic) super->magic.store(magic_deciding, shm::release);
    report->mended.push_back("superblock: the immutable part was made whole; its checksum proves it");
    return {};
}

}  // namespace maru::table
