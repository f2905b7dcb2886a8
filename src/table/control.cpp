#include "table/control.hpp"

#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/size.hpp"
#include "shm/mapping.hpp"
#include "table/plan.hpp"
#include "table/superblock.hpp"

namespace maru::table {
namespace {

/// Set while a repair attaches: it may go on with what an earlier one left.
thread_local bool accept_unfinished_repair = false;

bool is_unfinished_repair(std::uint64_t magic) {
    return magic == magic_deciding || magic == magic_indexing;
}

void store_uuid(Word64 (&words)[2], const Uuid& uuid) {
    for (int half = 0; half < 2; ++half) {
        std::uint64_t bits;
        std::memcpy(&bits, uuid.bytes.data() + 8 * half, 8);
        words[half].store(bits, shm::relaxed);
    }
}

Uuid load_uuid(const Word64 (&words)[2]) {
    Uuid uuid;
    for (int half = 0; half < 2; ++half) {
        const std::uint64_t bits = words[half].load(shm::relaxed);
        std::memcpy(uuid.bytes.data() + 8 * half, &bits, 8);
    }
    return uuid;
}

void clear(std::span<std::byte> memory, std::uint64_t bytes) {
    auto* words = shm::table_at<Word64>(memory, 0, bytes / 8);
    for (std::uint64_t i = 0; i < bytes / 8; ++i)
        words[i].store(0, shm::relaxed);
}

void write_superblock(Superblock& super, const FormatPlan& plan, const ControlPlan& layout) {
    const auto& sizes = layout.sizes;
    const auto set32 = [](Word32& word, std::uint32_t value) { word.store(value, shm::relaxed); };
    const auto set64 = [](Word64& word, std::uint64_t value) { word.store(value, shm::relaxed); };
    set32(super.version, layout_version);
    set32(super.coherence, static_cast<std::uint32_t>(plan.coherence));
    store_uuid(super.domain_uuid, plan.domain);
    set64(super.control_bytes, sizes.control_bytes);
    set64(super.hash_seed, random_bits());
    set64(super.region_unit, sizes.region_unit);
    set64(super.min_page, plan.min_page);
    set32(super.checksum_mode, static_cast<std::uint32_t>(plan.checksum));
    set32(super.records, sizes.records);
    set32(super.index_buckets, sizes.buckets);
    set32(super.overflow_buckets, sizes.overflow_buckets);
    set32(super.clients, plan.clients + 1);  // slot 0 names nobody
    set32(super.hosts, plan.hosts);
    set32(super.namespaces, plan.namespaces);
    set32(super.pools, layout.pools);
    set32(super.regions, sizes.regions);
    set32(super.pin_chunks, sizes.pin_chunks);
    set64(super.pools_at, layout.pools_at);
    set64(super.hosts_at, layout.hosts_at);
    set64(super.clients_at, layout.clients_at);
    set64(super.client_stats_at, layout.client_stats_at);
    set64(super.namespaces_at, layout.namespaces_at);
    set64(super.regions_at, layout.regions_at);
    set64(super.records_at, layout.records_at);
    set64(super.pin_chunks_at, layout.pin_chunks_at);
    set64(super.index_at, layout.index_at);
    set64(super.overflow_claims_at, layout.overflow_claims_at);
    set64(super.granule_claims_at, layout.granule_claims_at);
    set64(super.hints_at, layout.hints_at);
    set64(super.epoch, 1);
    set64(super.tick, 1);
}

void write_pools(std::span<std::byte> memory, const FormatPlan& plan, const ControlPlan& layout) {
    auto* pools = shm::table_at<PoolEntry>(memory, layout.pools_at, layout.pools);
    std::uint32_t first_unit = 0;
    for (std::size_t p = 0; p < plan.pools.size(); ++p) {
        const auto& source = plan.pools[p];
        auto& entry = pools[p];
        store_uuid(entry.uuid, source.uuid);
        entry.kind.store(source.kind, shm::relaxed);
        entry.bytes.store(source.bytes, shm::relaxed);
        entry.data_offset.store(layout.data_offsets[p], shm::relaxed);
        entry.first_unit.store(first_unit, shm::relaxed);
        entry.unit_count.store(layout.sizes.units_of_pool[p], shm::relaxed);
        entry.name.set(source.name);
        entry.state.store(static_cast<std::uint32_t>(PoolState::active), shm::relaxed);
        first_unit += layout.sizes.units_of_pool[p];
    }
}

Error damaged(std::string what) {
    return Error{Code::damaged, "control region: " + std::move(what)};
}

std::string hex(std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

}  // namespace

Result<Control> Control::format(std::span<std::byte> memory, const FormatPlan& plan) {
    const auto layout = lay_out(plan);
    if (!layout) return layout.error();
    const std::uint64_t bytes = layout->sizes.control_bytes;
    if (memory.size() < bytes)
        return Error{Code::invalid, "control region needs " + format_size(bytes) + ", the pool has " +
                                        format_size(memory.size())};
    auto* super = shm::table_at<Superblock>(memory, 0, 1);
    if (super == nullptr) return Error{Code::invalid, "control region is not aligned to 64 bytes"};
    super->magic.store(0, shm::seq_cst);  // from here on until the end it reads as blank
    clear(memory, bytes);
    write_superblock(*super, plan, *layout);
    write_pools(memory, plan, *layout);
    auto* names = shm::table_at<NamespaceEntry>(memory, layout->namespaces_at, plan.namespaces);
    names[0].name.set("default");
    names[0].state.store(1 | std::uint64_t{1} << 32, shm::relaxed);
    super->checksum.store(checksum_of(read_immutable(*super)), shm::relaxed);
    super->magic.store(superblock_magic, shm::release);  // pairs with the acquire in attach
    return attach(memory);
}

bool Control::is_blank(std::span<std::byte> memory) {
    const auto* super = shm::table_at<Superblock>(memory, 0, 1);
    if (super == nullptr || super->magic.load(shm::acquire) != 0) return false;
    // Whole but for its magic, and served before: that is damage. A format that lacks its last word was never
    // served.
    return super->daemon_generation.load(shm::relaxed) == 0 ||
           super->checksum.load(shm::relaxed) != checksum_of(read_immutable(*super));
}

Result<Control> Control::attach(std::span<std::byte> memory) {
    auto* super = shm::table_at<Superblock>(memory, 0, 1);
    if (super == nullptr)
        return damaged("only " + format_size(memory.size()) + " are mapped, less than a superblock");
    const std::uint64_t magic = super->magic.load(shm::acquire);  // pairs with the release that ends a format
    if (magic == 0 && is_blank(memory)) return damaged("the memory is blank: no domain was formatted here");
    if (is_unfinished_repair(magic) && !accept_unfinished_repair)
        return damaged("a repair was cut short: run maructl check --repair again, it goes on");
    if (magic != superblock_magic && !is_unfinished_repair(magic))
        return damaged("the memory holds something else: magic " + hex(magic) + ", expected " +
                       hex(superblock_magic));
    const std::uint32_t version = super->version.load(shm::relaxed);
    if (version != layout_version)
        return Error{Code::version, "control region: layout version " + std::to_string(version) +
                                        ", this build knows version " + std::to_string(layout_version)};
    const std::uint64_t sum = checksum_of(read_immutable(*super)),
                        stored = super->checksum.load(shm::relaxed);
    if (sum != stored) return damaged("superblock checksum is " + hex(stored) + ", computed " + hex(sum));
    const std::uint64_t bytes = super->control_bytes.load(shm::relaxed);
    if (bytes < sizeof(Superblock) || bytes > memory.size())
        return damaged("it is " + format_size(bytes) + " long, but only " + format_size(memory.size()) +
                       " are mapped");
    Control control;
    if (!control.bind(memory.first(bytes)))
        return damaged("a table lies outside of it or has an impossible size");
    return control;
}

ImmutableWords read_immutable(const Superblock& super) {
    ImmutableWords words;
    const auto* from = shm::table_at<Word64>(
        {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(&super)), sizeof super}, 0, words.size());
    for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = from[i].load(shm::relaxed);
    return words;
}

std::uint64_t checksum_of(ImmutableWords words) {
    words[0] = superblock_magic;  // written last: not yet there while a format computes this
    return XXH3_64bits(words.data(), sizeof words);
}

Result<Control> attach_for_repair(std::span<std::byte> memory) {
    accept_unfinished_repair = true;
    auto control = Control::attach(memory);
    accept_unfinished_repair = false;
    return control;
}

bool Control::bind(std::span<std::byte> memory) {
    super_ = shm::table_at<Superblock>(memory, 0, 1);
    const auto& super = *super_;
    control_bytes_ = memory.size();
    static_assert(sizeof hash_secret_ == XXH3_SECRET_DEFAULT_SIZE);
    XXH3_generateSecret_fromSeed(hash_secret_.data(), super.hash_seed.load(shm::relaxed));
    region_unit_ = super.region_unit.load(shm::relaxed);
    record_count_ = super.records.load(shm::relaxed);
    granule_count_ = record_count_ / records_per_granule;
    bucket_count_ = super.index_buckets.load(shm::relaxed);
    overflow_count_ = super.overflow_buckets.load(shm::relaxed);
    chunk_count_ = super.pin_chunks.load(shm::relaxed);
    client_count_ = super.clients.load(shm::relaxed);
    region_count_ = super.regions.load(shm::relaxed);
    pool_count_ = super.pools.load(shm::relaxed);
    host_count_ = super.hosts.load(shm::relaxed);
    namespace_count_ = super.namespaces.load(shm::relaxed);
    const std::uint32_t coherence = super.coherence.load(shm::relaxed);
    const std::uint32_t checksum = super.checksum_mode.load(shm::relaxed);
    coherence_ = static_cast<Coherence>(coherence);
    checksum_mode_ = static_cast<ChecksumMode>(checksum);

    const bool counts = record_count_ >= 2 * records_per_granule && record_count_ <= max_records &&
                        record_count_ % records_per_granule == 0 && std::has_single_bit(bucket_count_) &&
                        overflow_count_ >= 1 && chunk_count_ >= 1 && chunk_count_ <= max_pin_chunks &&
                        client_count_ >= 2 && client_count_ <= max_clients && region_count_ >= 1 &&
                        region_count_ <= max_units && pool_count_ >= 1 && pool_count_ <= max_pools &&
                        host_count_ >= 1 && host_count_ <= max_hosts && namespace_count_ >= 1 &&
                        namespace_count_ <= max_namespaces && std::has_single_bit(region_unit_) &&
                        region_unit_ >= page_align && coherence <= 2 && checksum <= 2;
    if (!counts) return false;

    const auto bind_table = [&](auto*& table, const Word64& at, std::uint64_t count) {
        using Entry = std::remove_pointer_t<std::remove_reference_t<decltype(table)>>;
        const std::uint64_t offset = at.load(shm::relaxed);
        table = shm::table_at<Entry>(memory, offset, count);
        return table != nullptr && offset >= sizeof(Superblock);
    };
    return bind_table(records_, super.records_at, record_count_) &&
           bind_table(index_, super.index_at, std::uint64_t{bucket_count_} + overflow_count_) &&
           bind_table(chunks_, super.pin_chunks_at, chunk_count_) &&
           bind_table(clients_, super.clients_at, client_count_) &&
           bind_table(client_stats_, super.client_stats_at, client_count_) &&
           bind_table(regions_, super.regions_at, region_count_) &&
           bind_table(pools_, super.pools_at, pool_count_) &&
           bind_table(hosts_, super.hosts_at, host_count_) &&
           bind_table(namespaces_, super.namespaces_at, namespace_count_) &&
           bind_table(overflow_claims_, super.overflow_claims_at, overflow_count_) &&
           bind_table(granule_claims_, super.granule_claims_at, granule_count_) &&
           bind_table(hints_, super.hints_at, granule_count_);
}

Uuid Control::domain() const {
    return load_uuid(super_->domain_uuid);
}

Key Control::key(std::uint32_t name_space, std::string_view bytes) const {
    const auto& entry = namespaces_[name_space];
    const std::uint64_t generation = entry.state.load(shm::relaxed) >> 32;
    const XXH128_hash_t hash =
        XXH3_128bits_withSecret(bytes.data(), bytes.size(), hash_secret_.data(), hash_secret_.size());
    // The id and its generation: keys of different namespaces, and of a reused id, never meet.
    const std::uint64_t apart = (generation << 32 | name_space) * 0x9E3779B97F4A7C15u;
    return Key{bytes, hash.low64 ^ apart, hash.high64 + apart, name_space,
               static_cast<std::uint32_t>(entry.epoch.load(shm::relaxed))};
}

Control::UnitRange Control::units_of(std::uint32_t pool) const {
    const auto& entry = pools_[pool];
    return {entry.first_unit.load(shm::relaxed), entry.unit_count.load(shm::relaxed),
            entry.data_offset.load(shm::relaxed)};
}

bool Control::region_place(std::uint32_t region, std::uint32_t* pool, std::uint64_t* offset) const {
    for (std::uint32_t p = 0; p < pool_count_; ++p) {
        const auto range = units_of(p);
        if (region < range.first_unit || region - range.first_unit >= range.unit_count) continue;
        *pool = p;
        return !__builtin_add_overflow(range.data_offset, (region - range.first_unit) * region_unit_, offset);
    }
    return false;
}

bool Control::place(const PageLocation& location, std::uint32_t* pool, std::uint64_t* offset) const {
    std::uint64_t start = 0, inside = 0, end = 0;
    const std::uint64_t bytes = location.page_bytes();
    if (bytes == 0 || !region_place(location.region, pool, &start)) return false;
    if (__builtin_mul_overflow(bytes, std::uint64_t{location.page_index}, &inside)) return false;
    if (__builtin_add_overflow(start, inside, offset)) return false;
    if (__builtin_add_overflow(*offset, bytes, &end)) return false;
    const auto range = units_of(*pool);
    std::uint64_t limit = 0;
    if (__builtin_add_overflow(range.data_offset, range.unit_count * region_unit_, &limit)) return false;
    return end <= limit;
}

}  // namespace maru::table
