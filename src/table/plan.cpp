// How large each table becomes, and where it lies.
#include "table/plan.hpp"

#include <algorithm>
#include <bit>

#include "base/size.hpp"

namespace maru::table {
namespace {

constexpr std::uint64_t line = 64;
constexpr std::uint32_t spare_pools = 16;  // entries for pools that are added at run time

std::uint64_t total_bytes(const FormatPlan& plan) {
    std::uint64_t total = 0;
    for (const auto& pool : plan.pools)
        total += pool.bytes;
    return total;
}

std::uint64_t pick_region_unit(std::uint64_t total) {
    return std::clamp(std::bit_floor(std::max<std::uint64_t>(total / 64, 1)), 2 * MiB, GiB);
}

/// control.max_objects by its rule: one a 512 KiB; on small pools up to 65,536, never more than one a 16 KiB.
std::uint64_t pick_objects(std::uint64_t total) {
    return std::max<std::uint64_t>(
        {total / (512 * KiB), std::min<std::uint64_t>(65536, total / (16 * KiB)), 64});
}

Error too_many(const char* what, std::uint64_t got, std::uint64_t most) {
    return Error{Code::invalid, std::string(what) + " is " + std::to_string(got) + ", at most " +
                                    std::to_string(most) + " are possible"};
}

Result<void> check_counts(const FormatPlan& plan, std::uint64_t objects) {
    if (plan.pools.empty()) return Error{Code::invalid, "a domain needs at least one pool"};
    if (plan.pools.size() > max_pools) return too_many("the number of pools", plan.pools.size(), max_pools);
    if (plan.clients < 2 || plan.clients >= max_clients)
        return Error{Code::invalid, "control.max_clients is " + std::to_string(plan.clients) +
                                        ", it must lie between 2 and " + std::to_string(max_clients - 1)};
    if (plan.hosts < 1 || plan.hosts > max_hosts) return too_many("control.max_hosts", plan.hosts, max_hosts);
    if (plan.namespaces < 1 || plan.namespaces > max_namespaces)
        return too_many("control.max_namespaces", plan.namespaces, max_namespaces);
    if (plan.pins < pins_per_chunk || plan.pins / pins_per_chunk > max_pin_chunks)
        return Error{Code::invalid, "control.max_pins is " + std::to_string(plan.pins) +
                                        ", it must lie between " + std::to_string(pins_per_chunk) + " and " +
                                        std::to_string(std::uint64_t{max_pin_chunks} * pins_per_chunk)};
    if (objects + 2 * records_per_granule >= max_records)
        return too_many("control.max_objects", objects, max_records - 2 * records_per_granule - 1);
    return {};
}

}  // namespace

Result<ControlPlan> lay_out(const FormatPlan& plan) {
    const std::uint64_t total = total_bytes(plan);
    if (plan.max_bytes != 0 && plan.max_bytes < total)
        return Error{Code::invalid, "control.max_pool_bytes is " + format_size(plan.max_bytes) +
                                        ", the pools have " + format_size(total) +
                                        " already: raise it, or set it to 0"};
    const std::uint64_t objects =
        plan.records != 0 ? plan.records : pick_objects(std::max(total, plan.max_bytes));
    if (const auto counts = check_counts(plan, objects); !counts) return counts.error();

    ControlPlan made;
    ControlSizes& sizes = made.sizes;
    sizes.region_unit = plan.region_unit != 0 ? plan.region_unit : pick_region_unit(total);
    if (sizes.region_unit % page_align != 0 || !std::has_single_bit(sizes.region_unit))
        return Error{Code::invalid, "control.region_size is " + format_size(sizes.region_unit) +
                                        ", it must be a power of two of at least 4 KiB"};
    if (plan.min_page < page_align || plan.min_page % page_align != 0)
        return Error{Code::invalid, "control.min_page is " + std::to_string(plan.min_page) +
                                        ", it must be a multiple of 4 KiB"};

    // Granule 0 holds record 0, which names nothing, and is never given to a region.
    sizes.records = static_cast<std::uint32_t>(round_up(objects, records_per_granule)) + records_per_granule;
    // Mean load of the slots stays below one half at the largest object count.
    sizes.buckets = static_cast<std::uint32_t>(std::bit_ceil(objects * 2 / slots_per_bucket + 1));
    // Linked for good, and in the long run every bucket overflows once: so many that each may.
    sizes.overflow_buckets = std::max<std::uint32_t>(sizes.buckets, 64);
    sizes.pin_chunks = static_cast<std::uint32_t>((plan.pins + pins_per_chunk - 1) / pins_per_chunk);
    std::uint64_t units = 0;
    for (const auto& pool : plan.pools)
        units += pool.bytes / sizes.region_unit;
    // Room for pools that are added later: an entry costs little, a page record costs a domain its budget.
    const std::uint64_t wanted =
        plan.max_bytes != 0
            ? std::max(units, plan.max_bytes / sizes.region_unit + (plan.max_bytes % sizes.region_unit != 0))
            : std::max<std::uint64_t>(units * 2, 64);
    if (wanted > max_units)
        return Error{Code::invalid, "pools of " + format_size(std::max(total, plan.max_bytes)) + " make " +
                                        std::to_string(plan.max_bytes != 0 ? wanted : units) + " units of " +
                                        format_size(sizes.region_unit) + ": raise control.region_size" +
                                        (plan.max_bytes != 0 ? ", or lower control.max_pool_bytes" : "")};
    sizes.regions = static_cast<std::uint32_t>(wanted);

    std::uint64_t at = sizeof(Superblock);
    const auto lay = [&at](std::uint64_t count, std::uint64_t entry) {
        const std::uint64_t place = at;
        at = round_up(at + count * entry, line);
        return place;
    };
    const std::uint32_t granules = sizes.records / records_per_granule;
    made.pools = std::max<std::uint32_t>(static_cast<std::uint32_t>(plan.pools.size()), spare_pools);
    made.pools_at = lay(made.pools, sizeof(PoolEntry));
    made.hosts_at = lay(plan.hosts, sizeof(HostEntry));
    made.clients_at = lay(plan.clients + 1, sizeof(ClientEntry));
    made.client_stats_at = lay(plan.clients + 1, sizeof(CounterLine));
    made.namespaces_at = lay(plan.namespaces, sizeof(NamespaceEntry));
    made.regions_at = lay(sizes.regions, sizeof(RegionEntry));
    made.overflow_claims_at = lay(sizes.overflow_buckets, sizeof(Word64));
    made.granule_claims_at = lay(granules, sizeof(Word64));
    made.hints_at = lay(granules, sizeof(Word64));
    sizes.other_bytes = at;
    made.pin_chunks_at = lay(sizes.pin_chunks, sizeof(PinChunk));
    sizes.pins_bytes = at - sizes.other_bytes;
    at = round_up(at, page_align);
    made.index_at = lay(std::uint64_t{sizes.buckets} + sizes.overflow_buckets, sizeof(Bucket));
    sizes.index_bytes = at - made.index_at;
    at = round_up(at, page_align);
    made.records_at = lay(sizes.records, sizeof(PageRecord));
    sizes.records_bytes = at - made.records_at;
    sizes.control_bytes = round_up(at, page_align);

    const std::uint64_t unit_align = std::min(sizes.region_unit, 2 * MiB);
    for (std::size_t p = 0; p < plan.pools.size(); ++p) {
        const auto& pool = plan.pools[p];
        std::uint64_t start = pool.data_offset;
        if (p == 0) start = round_up(start + sizes.control_bytes, unit_align);
        const std::uint64_t room = pool.bytes > start ? pool.bytes - start : 0;
        const auto count = static_cast<std::uint32_t>(room / sizes.region_unit);
        if (count == 0)
            return Error{
                Code::invalid,
                "pool '" + pool.name + "' of " + format_size(pool.bytes) +
                    (p == 0 ? " has no room for the control region of " + format_size(sizes.control_bytes) +
                                  " and one unit of "
                            : " has no room for one unit of ") +
                    format_size(sizes.region_unit) + ": make it larger, or lower control.region_size" +
                    (p == 0 ? ", control.max_objects, control.max_pins or control.max_pool_bytes" : "")};
        made.data_offsets.push_back(start);
        sizes.units_of_pool.push_back(count);
    }
    return made;
}

const char* name_of(EvictReason reason) {
    switch (reason) {
        case EvictReason::demand:
            return "demand";
        case EvictReason::watermark:
            return "watermark";
        case EvictReason::admin:
            return "admin";
    }
    return "unknown";
}

const char* name_of(Coherence coherence) {
    switch (coherence) {
        case Coherence::local:
            return "local";
        case Coherence::hardware:
            return "hardware";
        case Coherence::software:
            return "software";
    }
    return "unknown";
}

Result<ControlSizes> plan_control(const FormatPlan& plan) {
    auto made = lay_out(plan);
    if (!made) return made.error();
    return made->sizes;
}

}  // namespace maru::table
