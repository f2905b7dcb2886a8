// Where everything lies, and what the control region may cost.
#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <string>

#include "table/control.hpp"

using namespace maru;
using namespace maru::table;

namespace {

FormatPlan plan_of(std::uint64_t pool_bytes) {
    FormatPlan plan;
    plan.domain = Uuid::random();
    PoolPlan pool;
    pool.uuid = Uuid::random();
    pool.name = "main";
    pool.bytes = pool_bytes;
    plan.pools.push_back(pool);
    return plan;
}

ControlSizes sizes_of(const FormatPlan& plan) {
    const auto sizes = plan_control(plan);
    REQUIRE_MESSAGE(bool(sizes), (sizes ? "" : sizes.error().text));
    return *sizes;
}

Error refusal_of(const FormatPlan& plan) {
    const auto sizes = plan_control(plan);
    REQUIRE_FALSE(bool(sizes));
    return sizes.error();
}

bool has_digit(const std::string& text) {
    return text.find_first_of("0123456789") != std::string::npos;
}

/// Within `per_mille` of the pool?
bool within(const ControlSizes& sizes, std::uint64_t pool_bytes, std::uint64_t per_mille) {
    return sizes.control_bytes * 1000 <= pool_bytes * per_mille;
}

}  // namespace

TEST_SUITE("table layout") {
    TEST_CASE("sizes and places of version 2") {
        CHECK(layout_version == 2);
        CHECK(sizeof(Superblock) == 4096);
        CHECK(offsetof(Superblock, magic) == 0);
        CHECK(offsetof(Superblock, version) == 8);
        CHECK(offsetof(Superblock, checksum) == 1016);
        CHECK(sizeof(PoolEntry) == 256);
        CHECK(sizeof(HostEntry) == 128);
        CHECK(sizeof(ClientEntry) == 256);
        CHECK(sizeof(CounterLine) == 64);
        CHECK(sizeof(NamespaceEntry) == 256);
        CHECK(sizeof(RegionEntry) == 192);
        CHECK(sizeof(PageRecord) == 192);
        CHECK(sizeof(PinChunk) == 640);
        CHECK(sizeof(Bucket) == 64);
        CHECK(sizeof(Word64) == 8);
        CHECK(sizeof(Word8) == 1);
    }

    TEST_CASE("what one writer touches often shares no line with what others write") {
        CHECK(offsetof(Superblock, epoch) % 64 == 0);
        CHECK(offsetof(Superblock, evict_hand) % 64 == 0);
        CHECK(offsetof(HostEntry, beat) % 64 == 0);
        CHECK(offsetof(RegionEntry, holder) % 64 == 0);
        CHECK(offsetof(PinChunk, counters) % 64 == 0);
        CHECK(offsetof(PinChunk, pins) % 64 == 0);
    }

    TEST_CASE("a lookup finds all it needs before the key in the first line of a record") {
        CHECK(alignof(PageRecord) == 64);
        CHECK(offsetof(PageRecord, state) < 64);
        CHECK(offsetof(PageRecord, hash_high) < 64);
        CHECK(offsetof(PageRecord, key_length) < 64);
        CHECK(offsetof(PageRecord, namespace_epoch) < 64);
        CHECK(offsetof(PageRecord, visited) < 64);
        CHECK(offsetof(PageRecord, key) == 64);
        CHECK(key_inline_max >= 120);
    }

    TEST_CASE("text in shared memory: whole, cut at its end, and empty") {
        Text<64> text;
        text.set("pool-1");
        CHECK(text.get() == "pool-1");
        text.set(std::string(64, 'x'));
        CHECK(text.get() == std::string(64, 'x'));
        text.set(std::string(100, 'y'));
        CHECK(text.get() == std::string(64, 'y'));
        text.set("");
        CHECK(text.get().empty());
        text.set("k\xc3\xbc");
        CHECK(text.get() == "k\xc3\xbc");
    }

    // -- budget

    TEST_CASE("the control region of a pool of 1 TiB costs at most 0.1 %") {
        const auto sizes = sizes_of(plan_of(TiB));
        CHECK(within(sizes, TiB, 1));
        CHECK(sizes.region_unit == GiB);
        CHECK(sizes.records >= TiB / (512 * KiB));
    }

    TEST_CASE("pools of 1 GiB and more cost at most 2 %") {
        for (const std::uint64_t bytes : {GiB, 4 * GiB, 64 * GiB, 256 * GiB}) {
            CAPTURE(bytes);
            CHECK(within(sizes_of(plan_of(bytes)), bytes, 20));
        }
    }

    TEST_CASE("the split adds up to the whole") {
        for (const std::uint64_t bytes : {64 * MiB, GiB, TiB}) {
            CAPTURE(bytes);
            const auto sizes = sizes_of(plan_of(bytes));
            const std::uint64_t parts =
                sizes.records_bytes + sizes.index_bytes + sizes.pins_bytes + sizes.other_bytes;
            CHECK(parts <= sizes.control_bytes);
            CHECK(sizes.control_bytes - parts <= 4 * page_align);
            CHECK(sizes.control_bytes % page_align == 0);
            CHECK(sizes.records_bytes >= std::uint64_t{sizes.records} * sizeof(PageRecord));
            CHECK(sizes.index_bytes >=
                  (std::uint64_t{sizes.buckets} + sizes.overflow_buckets) * sizeof(Bucket));
            CHECK(std::has_single_bit(sizes.buckets));
        }
    }

    TEST_CASE("the mean load stays below one half of the slots at the largest object count") {
        for (const std::uint64_t bytes : {16 * MiB, GiB, 64 * GiB, TiB}) {
            CAPTURE(bytes);
            const auto sizes = sizes_of(plan_of(bytes));
            const std::uint64_t objects = sizes.records - records_per_granule;
            CHECK(objects * 2 <= std::uint64_t{sizes.buckets} * slots_per_bucket + 2 * records_per_granule);
        }
    }

    TEST_CASE("units and control region fit into the pool together") {
        for (const std::uint64_t bytes : {16 * MiB, 100 * MiB, GiB, 3 * GiB + 5 * MiB, TiB}) {
            CAPTURE(bytes);
            const auto sizes = sizes_of(plan_of(bytes));
            REQUIRE(sizes.units_of_pool.size() == 1);
            CHECK(sizes.units_of_pool[0] >= 1);
            CHECK(sizes.units_of_pool[0] * sizes.region_unit + sizes.control_bytes <= bytes);
            // and not much is lost
            CHECK((sizes.units_of_pool[0] + 2) * sizes.region_unit + sizes.control_bytes + 2 * MiB > bytes);
        }
    }

    TEST_CASE("the smallest pools: from some size on they are accepted, below it refused with numbers") {
        std::uint64_t smallest = 0;
        for (std::uint64_t bytes = 64 * KiB; bytes <= 64 * MiB; bytes += 64 * KiB) {
            const auto sizes = plan_control(plan_of(bytes));
            if (!sizes) {
                CHECK(smallest == 0);  // once accepted, more is never refused
                CHECK(sizes.error().code == Code::invalid);
                CHECK(has_digit(sizes.error().text));
                CHECK(sizes.error().text.find("main") != std::string::npos);
                continue;
            }
            if (smallest == 0) smallest = bytes;
            CHECK(sizes->units_of_pool.at(0) * sizes->region_unit + sizes->control_bytes <= bytes);
        }
        CHECK(smallest > 0);
        CHECK(smallest <= 8 * MiB);
    }

    TEST_CASE("a pool without bytes, and a plan without pools, are refused") {
        CHECK(refusal_of(plan_of(0)).code == Code::invalid);
        FormatPlan none = plan_of(GiB);
        none.pools.clear();
        CHECK(refusal_of(none).text.find("pool") != std::string::npos);
    }

    TEST_CASE("a second pool gives units of its own; one that is too small is named") {
        FormatPlan plan = plan_of(GiB);
        plan.pools.push_back(plan.pools[0]);
        plan.pools[1].name = "second";
        plan.pools[1].data_offset = 2 * MiB;
        const auto sizes = sizes_of(plan);
        REQUIRE(sizes.units_of_pool.size() == 2);
        CHECK(sizes.units_of_pool[1] * sizes.region_unit + 2 * MiB <= GiB);

        plan.pools[1].bytes = MiB;
        CHECK(refusal_of(plan).text.find("second") != std::string::npos);
        plan.pools[1].bytes = GiB;
        plan.pools[1].data_offset = 2 * GiB;  // begins behind its end
        CHECK(refusal_of(plan).text.find("second") != std::string::npos);
    }

    // -- objects at most

    TEST_CASE(
        "objects at most: one a 512 KiB, on small pools up to 65,536 but never more than one a 16 KiB") {
        const auto objects = [](std::uint64_t bytes) {
            return sizes_of(plan_of(bytes)).records - records_per_granule;
        };
        CHECK(objects(TiB) == 2 * 1024 * 1024);
        CHECK(objects(64 * GiB) == 131072);
        CHECK(objects(16 * GiB) == 65536);
        CHECK(objects(GiB) == 65536);
        CHECK(objects(64 * MiB) == 4096);
        CHECK(objects(16 * MiB) == 1024);
    }

    TEST_CASE("a number of objects that was asked for is kept, at least; too many are refused by name") {
        FormatPlan plan = plan_of(GiB);
        for (const std::uint32_t asked : {1u, 63u, 64u, 65u, 1000u, 100'000u}) {
            plan.records = asked;
            const auto sizes = sizes_of(plan);
            CHECK(sizes.records >= asked + 1);
            CHECK(sizes.records <= asked + 2 * records_per_granule);
        }
        for (const std::uint32_t asked : {max_records - 1, max_records, 0xffffffffu}) {
            plan.records = asked;
            const auto refused = refusal_of(plan);
            CHECK(refused.text.find("control.max_objects") != std::string::npos);
            CHECK(refused.text.find(std::to_string(asked)) != std::string::npos);
        }
    }

    TEST_CASE("more objects than the pool has room for a table of are refused, naming what to lower") {
        FormatPlan plan = plan_of(64 * MiB);
        plan.records = 10'000'000;
        const auto refused = refusal_of(plan);
        CHECK(refused.text.find("control.max_objects") != std::string::npos);
        CHECK(has_digit(refused.text));
    }

    // -- region unit

    TEST_CASE("the region unit: a power of two near a 64th of all pools, 2 MiB to 1 GiB") {
        CHECK(sizes_of(plan_of(16 * MiB)).region_unit == 2 * MiB);
        CHECK(sizes_of(plan_of(128 * MiB)).region_unit == 2 * MiB);
        CHECK(sizes_of(plan_of(GiB)).region_unit == 16 * MiB);
        CHECK(sizes_of(plan_of(64 * GiB)).region_unit == GiB);
        CHECK(sizes_of(plan_of(4 * TiB)).region_unit == GiB);
    }

    TEST_CASE("a region unit that is no power of two, under a page or larger than the pool is refused") {
        FormatPlan plan = plan_of(GiB);
        for (const std::uint64_t unit :
             {3 * MiB, std::uint64_t{1}, 2 * KiB, 2 * MiB + 4 * KiB, GiB, 4 * GiB}) {
            CAPTURE(unit);
            plan.region_unit = unit;
            const auto refused = refusal_of(plan);
            CHECK(refused.code == Code::invalid);
            CHECK(refused.text.find("region_size") != std::string::npos);
        }
        plan.region_unit = 8 * MiB;
        CHECK(sizes_of(plan).region_unit == 8 * MiB);
    }

    // -- other counts

    TEST_CASE("counts beyond their limits are refused, naming key and number") {
        struct Bad {
            const char* name;
            std::uint64_t value;
            void (*set)(FormatPlan&, std::uint64_t);
        };
        const auto clients = [](FormatPlan& plan, std::uint64_t v) {
            plan.clients = static_cast<std::uint32_t>(v);
        };
        const auto hosts = [](FormatPlan& plan, std::uint64_t v) {
            plan.hosts = static_cast<std::uint32_t>(v);
        };
        const auto spaces = [](FormatPlan& plan, std::uint64_t v) {
            plan.namespaces = static_cast<std::uint32_t>(v);
        };
        const auto pins = [](FormatPlan& plan, std::uint64_t v) {
            plan.pins = static_cast<std::uint32_t>(v);
        };
        const Bad bad[] = {
            {"control.max_clients", 0, clients},
            {"control.max_clients", max_clients, clients},
            {"control.max_clients", 0xffffffff, clients},
            {"control.max_hosts", max_hosts + 1, hosts},
            {"control.max_namespaces", max_namespaces + 1, spaces},
            {"control.max_pins", 0, pins},
            {"control.max_pins", 0xffffffff, pins},
        };
        for (const Bad& entry : bad) {
            CAPTURE(entry.name);
            CAPTURE(entry.value);
            FormatPlan plan = plan_of(GiB);
            entry.set(plan, entry.value);
            const auto refused = refusal_of(plan);
            CHECK(refused.code == Code::invalid);
            CHECK(refused.text.find(entry.name) != std::string::npos);
            CHECK(refused.text.find(std::to_string(entry.value)) != std::string::npos);
        }
        FormatPlan most = plan_of(4 * GiB);
        most.clients = max_clients - 1;
        most.hosts = max_hosts;
        most.namespaces = max_namespaces;
        CHECK(sizes_of(most).control_bytes > 0);
    }

    TEST_CASE("a pool of impossible size is refused, not computed with") {
        for (const std::uint64_t bytes : {~0ull, ~0ull - 4095, 1ull << 63, 1ull << 60}) {
            CAPTURE(bytes);
            CHECK(has_digit(refusal_of(plan_of(bytes)).text));
        }
    }

    TEST_CASE("two pools whose sizes add up past 64 bits are refused") {
        FormatPlan plan = plan_of(1ull << 63);
        plan.pools.push_back(plan.pools[0]);
        CHECK(refusal_of(plan).code == Code::invalid);
    }
}
