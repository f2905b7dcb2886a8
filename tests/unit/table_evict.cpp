// Eviction: who goes, who stays, and what a full pool says.
#include <set>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_256k{page_of_256k, 0};
constexpr PageClass pages_of_4k{1, 0};

void fill(Client& engine, int count) {
    for (int i = 0; i < count; ++i)
        REQUIRE(engine.put("k" + std::to_string(i), "value") == Code::ok);
}

}  // namespace

TEST_SUITE("table evict") {
    TEST_CASE("a full region gives the page of a victim, reserved for who asked") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        Page page;
        CHECK(engine.worker.alloc_from(engine.regions, pages_of_256k, &page) == Code::full);
        REQUIRE(engine.worker.evict_to_reuse(pages_of_256k, &page) == Code::ok);
        CHECK(domain.phase(page.record) == Phase::reserved);
        CHECK(domain.state(page.record).owner == engine.identity.owner());
        CHECK(domain.state(page.record).generation == page.generation);
        CHECK(domain.slots_of(page.record).empty());
        CHECK(engine.worker.free(page) == Code::ok);
    }

    TEST_CASE("an evicted key is gone, and can be stored again") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        CHECK(engine.worker.evict(pages_of_256k, 8) == 8);
        for (int i = 0; i < 8; ++i)
            CHECK_FALSE(engine.exists("k" + std::to_string(i)));
        CHECK(domain.pages_in(Phase::free) == 8);
        CHECK(domain.pins_of(engine.identity).empty());
        fill(engine, 8);
    }

    TEST_CASE("evict takes no more than it is asked for, nor than there is") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        CHECK(engine.worker.evict(pages_of_256k, 0) == 0);
        CHECK(engine.worker.evict(pages_of_256k, 3) == 3);
        CHECK(domain.pages_in(Phase::published) == 5);
        CHECK(engine.worker.evict(pages_of_256k, 1000) == 5);
        CHECK(engine.worker.evict(pages_of_256k, 1000) == 0);
    }

    TEST_CASE("one eviction leaves free pages for the next stores") {
        Domain domain;
        Client& engine = domain.client(1);
        for (int i = 0; i < 512; ++i) {
            Page page;
            REQUIRE(engine.worker.alloc_from(engine.regions, pages_of_4k, &page) == Code::ok);
            REQUIRE(engine.worker.publish(engine.key("k" + std::to_string(i)), page, 1) == Code::ok);
            REQUIRE(engine.worker.free(page) == Code::ok);
        }
        Page page;
        REQUIRE(engine.worker.evict_to_reuse(pages_of_4k, &page) == Code::ok);
        const std::uint64_t free = domain.pages_in(Phase::free);
        CHECK(free >= 8);
        CHECK(free < 64);
        CHECK(domain.pages_in(Phase::published) == 511 - free);
        CHECK(engine.worker.alloc_from(engine.regions, pages_of_4k, &page) == Code::ok);
    }

    TEST_CASE("an object that was read since the hand last passed gets a second chance") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        for (int i = 0; i < 4; ++i)
            REQUIRE(engine.get("k" + std::to_string(2 * i)));
        CHECK(engine.worker.evict(pages_of_256k, 4) == 4);
        for (int i = 0; i < 8; ++i)
            CHECK(engine.exists("k" + std::to_string(i)) == (i % 2 == 0));
        // and only one: not read again, they go
        CHECK(engine.worker.evict(pages_of_256k, 4) == 4);
        CHECK(domain.pages_in(Phase::published) == 0);
    }

    TEST_CASE("one allocation from a small full region spares what was read") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        for (int i = 0; i < 4; ++i)
            REQUIRE(engine.get("k" + std::to_string(2 * i)));
        Page page;
        REQUIRE(engine.worker.evict_to_reuse(pages_of_256k, &page) == Code::ok);
        for (int i = 0; i < 4; ++i)
            CHECK(engine.exists("k" + std::to_string(2 * i)));
        engine.worker.free(page);
    }

    TEST_CASE("exists and match_prefix without pins give no credit") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        for (int i = 0; i < 4; ++i)
            REQUIRE(engine.get("k" + std::to_string(i)));
        const std::string name = "k6";
        const Key key = engine.key(name);
        engine.exists("k5");
        engine.worker.match_prefix({&key, 1}, nullptr);
        CHECK(engine.worker.evict(pages_of_256k, 4) == 4);
        CHECK_FALSE(engine.exists("k5"));
        CHECK_FALSE(engine.exists("k6"));
        CHECK(engine.exists("k0"));
    }

    TEST_CASE("when everything was read, the hand still finds a victim") {
        Domain domain;
        Client& engine = domain.client();
        fill(engine, 8);
        for (int i = 0; i < 8; ++i)
            REQUIRE(engine.get("k" + std::to_string(i)));
        Page page;
        CHECK(engine.worker.evict_to_reuse(pages_of_256k, &page) == Code::ok);
        engine.worker.free(page);
    }

    TEST_CASE("a full pool with everything pinned: full, and the occupancy says what holds it") {
        Domain domain;
        Client& engine = domain.client();
        Client& reader = domain.reader();
        fill(engine, 6);
        engine.alloc();
        engine.alloc();
        std::vector<View> views;
        for (int i = 0; i < 4; ++i)
            views.push_back(reader.hold("k" + std::to_string(i)));
        std::uint64_t tokens[2];
        std::uint32_t record = 0;
        for (int i = 0; i < 2; ++i) {
            const std::string key = "k" + std::to_string(4 + i);
            REQUIRE(reader.worker.pin_key(reader.key(key), &tokens[i], &record) == Code::ok);
        }
        Page page;
        CHECK(engine.worker.alloc_anywhere(pages_of_256k, &page) == Code::full);
        CHECK(engine.worker.evict_to_reuse(pages_of_256k, &page) == Code::full);
        const Occupancy held = engine.worker.occupancy(pages_of_256k);
        CHECK(held.pages == 8);
        CHECK(held.reserved == 2);
        CHECK(held.pinned == 6);
        CHECK(held.free == 0);
        for (int i = 0; i < 6; ++i)
            CHECK(engine.exists("k" + std::to_string(i)));

        // When one view ends, that page can be had
        const View gone = views.back();
        reader.worker.release(gone.token);
        REQUIRE(engine.worker.evict_to_reuse(pages_of_256k, &page) == Code::ok);
        CHECK(page.record == gone.record);
        views.pop_back();
        for (const View& view : views)
            reader.worker.release(view.token);
        for (const std::uint64_t token : tokens)
            reader.worker.unpin(token);
    }

    TEST_CASE("the occupancy counts each page once") {
        Domain domain;
        Client& engine = domain.client();
        Client& reader = domain.reader();
        fill(engine, 4);
        engine.alloc();
        const View read = reader.hold("k0");
        const View removed = reader.hold("k1");
        engine.remove("k1");
        const Occupancy held = engine.worker.occupancy(pages_of_256k);
        CHECK(held.pages == 8);
        CHECK(held.free == 3);
        CHECK(held.reserved == 1);
        CHECK(held.retired == 1);
        CHECK(held.published + held.pinned >= 3);
        CHECK(held.pinned >= 1);
        CHECK(held.bad == 0);
        CHECK(engine.worker.occupancy({1, 0}).pages == 0);
        reader.worker.release(read.token);
        reader.worker.release(removed.token);
    }

    TEST_CASE("pages that a quarantined client reserved are named as such") {
        Domain domain;
        Client& engine = domain.client();
        Client& gone = domain.reader();
        Page page;
        REQUIRE(gone.worker.alloc_anywhere(pages_of_256k, &page) == Code::ok);
        sweep_gone(domain.daemon(), gone.identity);
        CHECK(engine.worker.occupancy(pages_of_256k).quarantined == 1);
    }

    TEST_CASE("eviction stays in its class, unless asked for any") {
        Domain domain;
        Client& large = domain.client();
        Client& small = domain.client(1);
        fill(large, 4);
        for (int i = 0; i < 4; ++i) {
            Page page;
            REQUIRE(small.worker.alloc_from(small.regions, pages_of_4k, &page) == Code::ok);
            REQUIRE(small.worker.publish(small.key("s" + std::to_string(i)), page, 1) == Code::ok);
            REQUIRE(small.worker.free(page) == Code::ok);
        }
        CHECK(small.worker.evict(pages_of_4k, 100) == 4);
        for (int i = 0; i < 4; ++i)
            CHECK(large.exists("k" + std::to_string(i)));
        CHECK(small.worker.evict({0, 0}, 100) == 4);
        CHECK(domain.pages_in(Phase::published) == 0);
    }

    TEST_CASE("an evictor takes no reserved page and no page that is being published") {
        Domain domain;
        Client& engine = domain.client();
        Client& writer = domain.reader();
        Page page;
        REQUIRE(writer.worker.alloc_anywhere(pages_of_256k, &page) == Code::ok);
        CHECK(engine.worker.evict(pages_of_256k, 100) == 0);
        CHECK(domain.phase(page.record) == Phase::reserved);
        CHECK(writer.worker.publish(writer.key("k"), page, 1) == Code::ok);
        writer.worker.free(page);
    }

    TEST_CASE("a sealed page is opened by who meets it in its region, and nowhere else") {
        Domain domain;
        Client& engine = domain.client();
        const RegionView region = *read_region(domain.control(), engine.regions[0]);
        fill(engine, 1);
        domain.set_phase(region.first_record + 7, Phase::sealed);
        engine.worker.evict(pages_of_256k, 8);
        CHECK(domain.phase(region.first_record + 7) == Phase::free);

        // Given a region that is being formed over a record that still names the one before
        RegionEntry& forming = domain.control().region(1);
        const std::uint32_t granule = region.first_record / records_per_granule + 1;
        const std::uint32_t record = granule * records_per_granule;
        const RegionState state{RegionPhase::formatting, domain.daemon().identity().owner(), 1};
        forming.state.store(state.pack(), shm::seq_cst);
        forming.page_4k.store(page_of_256k, shm::relaxed);
        forming.page_count.store(8, shm::relaxed);
        forming.first_record.store(record, shm::relaxed);
        domain.control().granule_claim(granule).store(granule_claim::pack(1, 1, state.owner), shm::seq_cst);
        domain.control().record(record).region.store(region.number, shm::relaxed);
        engine.worker.evict(pages_of_256k, 8);
        engine.worker.evict({0, 0}, 8);
        CHECK(domain.phase(record) == Phase::sealed);

        domain.control().granule_claim(granule).store(0, shm::seq_cst);
        forming.state.store(RegionState{RegionPhase::free, {}, 2}.pack(), shm::seq_cst);
    }

    TEST_CASE("a store that goes on for long through a small pool never fails and evicts the oldest") {
        Domain domain;
        Client& engine = domain.client();
        for (int i = 0; i < 500; ++i) {
            Page page;
            Code code = engine.worker.alloc_from(engine.regions, pages_of_256k, &page);
            if (code == Code::full) code = engine.worker.alloc_anywhere(pages_of_256k, &page);
            if (code == Code::full) code = engine.worker.evict_to_reuse(pages_of_256k, &page);
            REQUIRE(code == Code::ok);
            const std::string key = "k" + std::to_string(i);
            std::memcpy(domain.bytes_of(page.location), key.data(), key.size());
            REQUIRE(engine.worker.publish(engine.key(key), page, key.size()) == Code::ok);
            REQUIRE(engine.worker.free(page) == Code::ok);
            CHECK(engine.get(key) == key);
            if (i % 10 == 0) advance_epoch(domain.control());
        }
        CHECK(count_client(domain.control(), engine.identity).of[static_cast<int>(Counter::evictions)] >=
              492);
        CHECK(engine.exists("k499"));
        CHECK_FALSE(engine.exists("k0"));
    }
}
