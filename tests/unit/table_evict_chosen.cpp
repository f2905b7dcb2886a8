// Eviction ahead of demand and by an administrator: what goes, what stays, and how much is said to be free.
#include "domain_fixture.hpp"
#include "table/age.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr std::uint64_t page_bytes = 256 * KiB;

void fill(Client& engine, int count, const std::string& prefix = "k") {
    for (int i = 0; i < count; ++i)
        REQUIRE(engine.put(prefix + std::to_string(i), "value") == Code::ok);
}

int present(Client& engine, int count, const std::string& prefix = "k") {
    int found = 0;
    for (int i = 0; i < count; ++i)
        found += engine.exists(prefix + std::to_string(i)) ? 1 : 0;
    return found;
}

Evicted evict_all(Domain& domain, const Chosen& chosen) {
    return evict_chosen(domain.daemon(), chosen, 0, domain.control().record_count());
}

Evicted count_all_chosen(Domain& domain, const Chosen& chosen) {
    return count_chosen(domain.control(), chosen, 0, domain.control().record_count());
}

std::uint64_t evictions(const Domain& domain, EvictReason reason) {
    return count_evictions(domain.control())[static_cast<std::size_t>(reason)];
}

}  // namespace

TEST_SUITE("table evict chosen") {
    TEST_CASE("room is units without a region and free pages, and grows with each eviction") {
        Domain domain;
        const Room blank = room_of(domain.control());
        CHECK(blank.free == blank.total);
        Client& engine = domain.client();
        CHECK(room_of(domain.control()).free == blank.total);
        fill(engine, 8);
        CHECK(room_of(domain.control()).free == blank.total - 8 * page_bytes);
        CHECK(engine.worker.evict({page_of_256k, 0}, 3) == 3);
        CHECK(room_of(domain.control()).free == blank.total - 5 * page_bytes);
        Page page;
        REQUIRE(engine.worker.alloc_from(engine.regions, {page_of_256k, 0}, &page) == Code::ok);
        CHECK(room_of(domain.control()).free == blank.total - 6 * page_bytes);
        CHECK(room_of(domain.control()).total == blank.total);
        engine.worker.free(page);
    }

    TEST_CASE("ahead of demand so much goes as was asked for, what was read last") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        for (const char* read : {"k1", "k3"})
            REQUIRE(engine.get(read));
        const Evicted done =
            domain.daemon().evict_ahead(3 * page_bytes - 1, domain.control().granule_count());
        CHECK(done.objects == 3);
        CHECK(done.bytes == 3 * page_bytes);
        CHECK(present(engine, 8) == 5);
        CHECK(engine.exists("k1"));
        CHECK(engine.exists("k3"));
        CHECK(evictions(domain, EvictReason::watermark) == 3);
        CHECK(evictions(domain, EvictReason::demand) == 0);
        CHECK(count_all(domain.control()).of[static_cast<int>(Counter::evictions)] == 3);
    }

    TEST_CASE("ahead of demand the hand goes no further than it may, and says how far it went") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        domain.control().super().evict_hand.store(0, shm::relaxed);
        CHECK(domain.daemon().evict_ahead(page_bytes, 0).objects == 0);
        const std::uint32_t all = domain.control().granule_count();
        Evicted sum;
        while (sum.objects == 0 && sum.granules < all)
            sum.add(domain.daemon().evict_ahead(page_bytes, 1));
        CHECK(sum.objects == 1);
        for (int i = 0; i < 8; ++i)
            (void)engine.get("k" + std::to_string(i));
        const Evicted lap = domain.daemon().evict_ahead(100 * page_bytes, all);
        CHECK(lap.granules == all);
        CHECK(lap.objects == 0);  // each had its second chance
    }

    TEST_CASE("what is pinned, read or reserved stays, and is counted as met") {
        Domain domain;
        Client& engine = domain.client();
        Client& reader = domain.reader();
        fill(engine, 6);
        const Page reserved = engine.alloc();
        const View view = reader.hold("k0");
        std::uint64_t token = 0;
        std::uint32_t record = 0;
        REQUIRE(reader.worker.pin_key(reader.key("k1"), &token, &record) == Code::ok);
        Evicted sum;
        for (int lap = 0; lap < 2; ++lap)
            sum.add(domain.daemon().evict_ahead(100 * page_bytes, domain.control().granule_count()));
        CHECK(sum.objects == 4);
        CHECK(sum.pinned >= 2);
        CHECK(sum.reserved_bytes == 2 * page_bytes);  // met in each lap
        CHECK(engine.exists("k0"));
        CHECK(engine.exists("k1"));
        CHECK(domain.phase(reserved.record) == Phase::reserved);

        CHECK(evict_all(domain, {}).objects == 0);
        const Evicted counted = count_all_chosen(domain, {});
        CHECK(counted.objects == 0);
        CHECK(counted.pinned == 2);
        CHECK(counted.pinned_bytes == 2 * page_bytes);
        reader.worker.release(view.token);
        reader.worker.unpin(token);
        CHECK(evict_all(domain, {}).objects == 2);
        CHECK(evictions(domain, EvictReason::admin) == 2);
        CHECK(evictions(domain, EvictReason::watermark) == 4);
        engine.worker.free(reserved);
    }

    TEST_CASE("nothing goes ahead of demand from a region that is being emptied") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        RegionEntry& entry = domain.control().region(engine.regions[0]);
        const std::uint64_t held = entry.state.load(shm::relaxed);
        RegionState draining = RegionState::unpack(held);
        draining.phase = RegionPhase::draining;
        entry.state.store(draining.pack(), shm::seq_cst);
        for (int lap = 0; lap < 3; ++lap)
            CHECK(domain.daemon().evict_ahead(page_bytes, domain.control().granule_count()).objects == 0);
        entry.state.store(held, shm::seq_cst);
        CHECK(domain.daemon().evict_ahead(page_bytes, domain.control().granule_count()).objects == 1);
    }

    TEST_CASE("an administrator chooses by namespace") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 4);
        Chosen other;
        other.name_space = 1;
        CHECK(evict_all(domain, other).objects == 0);
        Chosen own;
        own.name_space = 0;
        CHECK(count_all_chosen(domain, own).objects == 4);
        CHECK(present(engine, 4) == 4);
        CHECK(evict_all(domain, own).objects == 4);
        CHECK(present(engine, 4) == 0);
    }

    TEST_CASE("an administrator chooses by bytes: no object more, those that were read last") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        REQUIRE(engine.get("k0"));
        Chosen chosen;
        chosen.bytes = 2 * page_bytes + 1;
        chosen.spares_visited = true;
        CHECK(count_all_chosen(domain, chosen).objects == 3);
        const Evicted done = evict_all(domain, chosen);
        CHECK(done.objects == 3);
        CHECK(done.bytes == 3 * page_bytes);
        CHECK(present(engine, 8) == 5);
        CHECK(engine.exists("k0"));
        CHECK(room_of(domain.control()).free == room_of(domain.control()).total - 5 * page_bytes);
    }

    TEST_CASE("pinned ones do not count towards the bytes") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        std::vector<View> views;
        for (int i = 0; i < 6; ++i)
            views.push_back(engine.hold("k" + std::to_string(i)));
        Chosen chosen;
        chosen.bytes = 2 * page_bytes;
        const Evicted done = evict_all(domain, chosen);
        CHECK(done.objects == 2);
        CHECK(present(engine, 8) == 6);
        for (const View& view : views)
            engine.worker.release(view.token);
    }

    TEST_CASE(
        "an administrator evicts where the domain's policy is none, a daemon ahead of demand is not asked "
        "to") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        domain.control().super().eviction.store(static_cast<std::uint64_t>(EvictionPolicy::none),
                                                shm::relaxed);
        CHECK(evict_all(domain, {}).objects == 8);
    }

    TEST_CASE("ages are right for half a year, over every border of their words") {
        Domain domain;
        Client& engine = domain.client();
        auto& tick = domain.control().super().tick;
        for (const std::uint64_t stored :
             {0ull, 65'530ull, 65'536ull * 254 + 7, 65'536ull * 255 - 1, 1ull << 40}) {
            CAPTURE(stored);
            tick.store(stored, shm::relaxed);
            REQUIRE(engine.put("k", "value") == Code::ok);
            const View view = engine.hold("k");
            const PageRecord& record = domain.control().record(view.record);
            for (const std::uint64_t age : {0ull, 1ull, 59ull, 65'535ull, 65'536ull, 200'000ull,
                                            180ull * 86'400, static_cast<unsigned long long>(age_max_s)}) {
                CAPTURE(age);
                CHECK(age_of(record, stored + age) == age);
            }
            CHECK(age_of(record, stored - (stored == 0 ? 0 : 1)) ==
                  0);  // published a moment later than asked
            engine.worker.release(view.token);
            CHECK(engine.remove("k") == DeleteResult::deleted);
        }
    }

    TEST_CASE("what an earlier build published is never taken for older than it is") {
        Domain domain;
        Client& engine = domain.client();
        domain.control().super().tick.store(70'000, shm::relaxed);
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        domain.control().record(view.record).publication_high.store(0, shm::relaxed);
        CHECK(age_of(domain.control().record(view.record), 70'100) == 100);
        CHECK(age_of(domain.control().record(view.record), 70'000 + 65'536 + 100) == 100);
        engine.worker.release(view.token);
    }

    TEST_CASE("an administrator chooses by age") {
        Domain domain;
        Client& engine = domain.client();
        auto& tick = domain.control().super().tick;
        fill(engine, 3, "old");
        tick.store(100'000, shm::relaxed);  // more than a day later
        fill(engine, 3, "new");
        tick.store(100'060, shm::relaxed);
        Chosen chosen;
        chosen.older_than_s = 100'061;
        CHECK(evict_all(domain, chosen).objects == 0);
        chosen.older_than_s = 86'400;
        CHECK(evict_all(domain, chosen).objects == 3);
        CHECK(present(engine, 3, "old") == 0);
        CHECK(present(engine, 3, "new") == 3);
        chosen.older_than_s = 60;
        CHECK(evict_all(domain, chosen).objects == 3);
    }
}
