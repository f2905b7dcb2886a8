// Regions: claimed, adopted, taken apart, and put right after a daemon's death in any phase.
#include <set>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_256k{page_of_256k, 0};
constexpr PageClass pages_of_4k{1, 0};

std::uint64_t units_in(const Domain& domain, RegionPhase phase) {
    std::uint64_t units = 0;
    for (std::uint32_t r = 0; r < domain.control().region_count(); ++r)
        units += RegionState::unpack(domain.control().region(r).state.load(shm::relaxed)).phase == phase;
    return units;
}

std::uint64_t claims(const Domain& domain) {
    std::uint64_t count = 0;
    for (std::uint32_t g = 0; g < domain.control().granule_count(); ++g)
        count += domain.control().granule_claim(g).load(shm::relaxed) != 0;
    return count;
}

RegionView region_of(const Domain& domain, std::uint32_t number) {
    const auto view = read_region(domain.control(), number);
    REQUIRE(view);
    return *view;
}

Code put_small(Client& engine, const std::string& key) {
    Page page;
    const Code found = engine.worker.alloc_from(engine.regions, pages_of_4k, &page);
    if (found != Code::ok) return found;
    const Code code = engine.worker.publish(engine.key(key), page, 1);
    CHECK(engine.worker.free(page) == Code::ok);
    return code;
}

/// A daemon that stopped and is proven dead, as the owner of what it left.
Owner dead_owner(Domain& domain) {
    Client& daemon = domain.reader();
    const Owner owner = daemon.identity.owner();
    domain.bury(daemon);
    return owner;
}

void set_region(Domain& domain, std::uint32_t number, RegionPhase phase, Owner owner) {
    Word64& word = domain.control().region(number).state;
    const RegionState before = RegionState::unpack(word.load(shm::relaxed));
    word.store(RegionState{phase, owner, before.epoch + 1}.pack(), shm::seq_cst);
}

}  // namespace

TEST_SUITE("table regions") {
    TEST_CASE("a claimed region says what it is") {
        Domain domain;
        Client& engine = domain.reader();
        const RegionView region = domain.claim(engine);
        CHECK(region.phase == RegionPhase::held);
        CHECK(region.page_4k == page_of_256k);
        CHECK(region.page_count == 8);
        CHECK(region.unit_count == 1);
        CHECK(region.holder == engine.identity.holder_word());
        CHECK(region.pool == 0);
        CHECK(region.offset >= domain.control().control_bytes());
        CHECK(region.first_record >= records_per_granule);
        const PageCounts counts = count_pages(domain.control(), region);
        CHECK(counts.of[static_cast<int>(Phase::free)] == 8);
        for (std::uint32_t i = 0; i < 8; ++i) {
            const PageRecord& record = domain.control().record(region.first_record + i);
            CHECK(record.region.load(shm::relaxed) == region.number);
            CHECK(record.page_index.load(shm::relaxed) == i);
            CHECK(record.page_4k.load(shm::relaxed) == page_of_256k);
        }
    }

    TEST_CASE("regions of different pages share no byte and no record") {
        Domain domain;
        std::set<std::uint64_t> units;
        std::set<std::uint32_t> records;
        for (const std::uint32_t page_4k : {64u, 128u, 1u, 3u, 512u}) {
            Client& engine = domain.reader();
            std::string warning;
            const auto region =
                claim_region(domain.daemon(), {page_4k, 0}, engine.identity.holder_word(), false, &warning);
            if (!region) {
                CHECK(region.error().code == Code::full);
                continue;
            }
            for (std::uint32_t u = 0; u < region->unit_count; ++u)
                CHECK(units.insert(region->number + u).second);
            for (std::uint32_t i = 0; i < region->page_count; ++i)
                CHECK(records.insert(region->first_record + i).second);
            CHECK(std::uint64_t{region->page_count} * page_4k * page_align <=
                  region->unit_count * domain.control().region_unit());
        }
    }

    TEST_CASE("entries that are free, parts or beyond the table read as nothing") {
        Domain domain;
        Client& engine = domain.client(512);  // pages of 2 MiB: a run of several units
        REQUIRE(region_of(domain, engine.regions[0]).unit_count > 1);
        CHECK_FALSE(read_region(domain.control(), engine.regions[0] + 1));  // a part
        CHECK_FALSE(read_region(domain.control(), domain.control().region_count() - 1));
        CHECK_FALSE(read_region(domain.control(), domain.control().region_count()));
        CHECK_FALSE(read_region(domain.control(), 0xffffffff));
    }

    TEST_CASE("a run has room for eight pages where the pool has room, else for what there is") {
        Domain domain;
        CHECK(units_for(domain.control(), 1) == 1);
        CHECK(units_for(domain.control(), 64) == 1);
        CHECK(units_for(domain.control(), 65) == 2);
        CHECK(units_for(domain.control(), 128) == 2);
        Client& engine = domain.reader();
        const RegionView region = domain.claim(engine, 512);  // 8 pages would take 16 MiB: there is less
        CHECK(region.page_count >= 1);
        CHECK(region.page_count < 8);
    }

    TEST_CASE("a page size of nothing, or more than a claim accepts, is refused") {
        Domain domain;
        const std::uint64_t most = page_bytes_max(domain.control());
        CHECK(most <= 16 * MiB / 4);
        CHECK(most >= 2 * MiB);
        CHECK(most % page_align == 0);
        Client& engine = domain.reader();
        std::string warning;
        for (const std::uint32_t page_4k :
             {0u, static_cast<std::uint32_t>(most / page_align) + 1, 1u << 20, 0x7fffffffu, 0xffffffffu}) {
            CAPTURE(page_4k);
            const auto refused =
                claim_region(domain.daemon(), {page_4k, 0}, engine.identity.holder_word(), false, &warning);
            REQUIRE_FALSE(bool(refused));
            CHECK_FALSE(refused.error().text.empty());
        }
        CHECK(units_in(domain, RegionPhase::free) == domain.control().region_count());
        CHECK(claims(domain) == 0);
        const auto largest = claim_region(domain.daemon(), {static_cast<std::uint32_t>(most / page_align), 0},
                                          engine.identity.holder_word(), false, &warning);
        CHECK(bool(largest));
    }

    TEST_CASE("when no unit is left a claim is full, and nothing is half claimed") {
        Domain domain;
        Client& engine = domain.reader();
        const std::uint64_t before = free_unit_bytes(domain.control());
        std::string warning;
        int claimed = 0;
        for (;; ++claimed) {
            const auto region =
                claim_region(domain.daemon(), pages_of_256k, engine.identity.holder_word(), false, &warning);
            if (!region) {
                CHECK(region.error().code == Code::full);
                CHECK_FALSE(region.error().text.empty());
                break;
            }
            REQUIRE(claimed < 100);
        }
        CHECK(static_cast<std::uint64_t>(claimed) * 2 * MiB == before);
        CHECK(free_unit_bytes(domain.control()) == 0);
        CHECK(units_in(domain, RegionPhase::formatting) == 0);
        CHECK(claims(domain) == static_cast<std::uint64_t>(claimed));
    }

    TEST_CASE(
        "too few records left: the region gets the rest, with a warning that names control.max_objects") {
        Domain domain({.records = 128});
        Client& engine = domain.reader();
        std::string warning;
        const auto region =
            claim_region(domain.daemon(), pages_of_4k, engine.identity.holder_word(), false, &warning);
        REQUIRE(bool(region));
        CHECK(region->page_count == 128);  // of 512
        CHECK(warning.find("control.max_objects") != std::string::npos);
        CHECK(warning.find("128") != std::string::npos);
        CHECK(warning.find("512") != std::string::npos);
        engine.regions.push_back(region->number);
        for (int i = 0; i < 128; ++i)
            CHECK(put_small(engine, "k" + std::to_string(i)) == Code::ok);
        CHECK(put_small(engine, "more") == Code::full);

        // none at all: an error that names the key, and the units stay free
        const std::uint64_t free = free_unit_bytes(domain.control());
        const auto none = claim_region(domain.daemon(), pages_of_4k, domain.reader().identity.holder_word(),
                                       false, &warning);
        REQUIRE_FALSE(bool(none));
        CHECK(none.error().text.find("control.max_objects") != std::string::npos);
        CHECK(free_unit_bytes(domain.control()) == free);
    }

    TEST_CASE("no warning when there was enough") {
        Domain domain;
        std::string warning;
        CHECK(bool(claim_region(domain.daemon(), pages_of_256k, domain.reader().identity.holder_word(), false,
                                &warning)));
        CHECK(warning.empty());
        CHECK(bool(claim_region(domain.daemon(), pages_of_256k, domain.reader().identity.holder_word(), false,
                                nullptr)));
    }

    // -- release and adoption

    TEST_CASE("an empty region that is released goes back to the free units") {
        Domain domain;
        Client& engine = domain.client();
        const std::uint64_t free = free_unit_bytes(domain.control());
        release_region(domain.daemon(), engine.regions[0], engine.identity.holder_word());
        CHECK_FALSE(read_region(domain.control(), engine.regions[0]));
        CHECK(free_unit_bytes(domain.control()) == free + 2 * MiB);
        CHECK(claims(domain) == 0);
    }

    TEST_CASE("a region with objects stays when it is released, and the next of its class adopts it") {
        Domain domain;
        Client& first = domain.client();
        REQUIRE(first.put("k", "value") == Code::ok);
        const std::uint32_t number = first.regions[0];
        release_region(domain.daemon(), number, first.identity.holder_word());
        CHECK(region_of(domain, number).phase == RegionPhase::held);
        CHECK(region_of(domain, number).holder == 0);

        Client& other_class = domain.client(1);
        CHECK(other_class.regions[0] != number);
        Client& second = domain.client();
        CHECK(second.regions[0] == number);
        CHECK(region_of(domain, number).holder == second.identity.holder_word());
        CHECK(second.get("k") == "value");
        Client& third = domain.client();
        CHECK(third.regions[0] != number);
    }

    TEST_CASE("only the holder's word releases a region") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        const std::uint32_t number = engine.regions[0];
        release_region(domain.daemon(), number, other.identity.holder_word());
        release_region(domain.daemon(), number,
                       holder::pack(engine.identity.slot, engine.identity.generation + 1));
        release_region(domain.daemon(), 0xffffffff, engine.identity.holder_word());
        CHECK(region_of(domain, number).holder == engine.identity.holder_word());
    }

    TEST_CASE("a region with a reserved page is not taken apart when it is released") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.alloc();
        release_region(domain.daemon(), engine.regions[0], engine.identity.holder_word());
        CHECK(region_of(domain, engine.regions[0]).phase == RegionPhase::held);
        Page copy = page;
        CHECK(engine.worker.publish(engine.key("late"), copy, 1) == Code::ok);
        CHECK(engine.worker.free(copy) == Code::ok);
        CHECK(engine.exists("late"));
    }

    // -- taking apart

    TEST_CASE("a published page in the way: not taken apart without eviction, and nothing is lost") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const std::uint32_t number = engine.regions[0];
        CHECK_FALSE(dissolve_region(domain.daemon(), number, false));
        CHECK(region_of(domain, number).phase == RegionPhase::held);
        CHECK(engine.get("k") == "value");
        CHECK(domain.pages_in(Phase::free) == 7);
        for (int i = 0; i < 7; ++i)
            engine.alloc();  // its pages can be had again
    }

    TEST_CASE("with eviction it goes, and its objects with it") {
        Domain domain;
        Client& engine = domain.client();
        for (int i = 0; i < 8; ++i)
            REQUIRE(engine.put("k" + std::to_string(i), "value") == Code::ok);
        for (int i = 0; i < 8; ++i)
            REQUIRE(engine.get("k" + std::to_string(i)));  // visited does not save them
        CHECK(dissolve_region(domain.daemon(), engine.regions[0], true));
        CHECK_FALSE(read_region(domain.control(), engine.regions[0]));
        for (int i = 0; i < 8; ++i)
            CHECK_FALSE(engine.exists("k" + std::to_string(i)));
        CHECK(units_in(domain, RegionPhase::free) == domain.control().region_count());
        CHECK(claims(domain) == 0);
    }

    TEST_CASE("what is pinned or reserved stops even an eviction; the rest of the region goes on") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        View view;
        std::uint64_t token = 0;
        std::uint32_t record = 0;
        Page page;
        SUBCASE("a view") {
            view = engine.hold("k");
        }
        SUBCASE("a key pin") {
            REQUIRE(engine.worker.pin_key(engine.key("k"), &token, &record) == Code::ok);
        }
        SUBCASE("a reserved page") {
            page = engine.alloc();
        }
        CHECK_FALSE(dissolve_region(domain.daemon(), engine.regions[0], true));
        CHECK(region_of(domain, engine.regions[0]).phase == RegionPhase::held);
        if (page.record == 0) CHECK(engine.get("k") == "value");
        CHECK(engine.put("next", "value") == Code::ok);
        if (view.token != 0) CHECK(engine.worker.release(view.token) == Code::ok);
        if (token != 0) CHECK(engine.worker.unpin(token));
        if (page.record != 0) CHECK(engine.worker.free(page) == Code::ok);
        CHECK(dissolve_region(domain.daemon(), engine.regions[0], true));
    }

    TEST_CASE("a region that does not exist is not taken apart") {
        Domain domain;
        CHECK_FALSE(dissolve_region(domain.daemon(), 0, true));
        CHECK_FALSE(dissolve_region(domain.daemon(), 0xffffffff, true));
    }

    TEST_CASE("a change of page size reuses units and records in higher generations") {
        Domain domain;
        Client& engine = domain.client();
        const RegionView before = region_of(domain, engine.regions[0]);
        const Page stale = engine.alloc();
        REQUIRE(engine.worker.free(stale) == Code::ok);
        std::vector<std::uint32_t> generations;
        for (std::uint32_t i = 0; i < 8; ++i)
            generations.push_back(domain.state(before.first_record + i).generation);
        REQUIRE(dissolve_region(domain.daemon(), before.number, false));

        Client& small = domain.reader();
        std::string warning;
        const auto after =
            claim_region(domain.daemon(), {32, 0}, small.identity.holder_word(), false, &warning);
        REQUIRE(bool(after));
        CHECK(after->number == before.number);
        CHECK(after->first_record == before.first_record);
        CHECK(after->page_count == 16);
        for (std::uint32_t i = 0; i < 8; ++i)
            CHECK(domain.state(before.first_record + i).generation > generations[i]);
        // a handle from before means nothing now
        CHECK(engine.worker.free(stale) == Code::not_reserved);
        Page copy = stale;
        CHECK(engine.worker.publish(engine.key("k"), copy, 1) == Code::not_reserved);
        CHECK(domain.pages_in(Phase::free) == 16);
    }

    TEST_CASE("a claim takes empty regions of another size apart before it says full") {
        Domain domain;
        Client& engine = domain.reader();
        while (free_unit_bytes(domain.control()) > 0)
            domain.claim(engine);
        REQUIRE(engine.put("k", "value") == Code::ok);
        const auto regions = engine.regions;
        for (const std::uint32_t number : regions)
            domain.control().region(number).holder.store(0, shm::seq_cst);
        std::string warning;
        const auto region = claim_region(domain.daemon(), pages_of_4k, domain.reader().identity.holder_word(),
                                         false, &warning);
        REQUIRE_MESSAGE(bool(region), (region ? "" : region.error().text));
        CHECK(region->page_4k == 1);
        CHECK(engine.get("k") == "value");
    }

    TEST_CASE("a claim evicts a region that nobody holds only when it may") {
        Domain domain;
        Client& engine = domain.reader();
        while (free_unit_bytes(domain.control()) > 0)
            domain.claim(engine);
        for (std::size_t i = 0; i < engine.regions.size() * 8; ++i)
            REQUIRE(engine.put("k" + std::to_string(i), "value") == Code::ok);
        const std::uint64_t objects = domain.pages_in(Phase::published);
        std::string warning;
        const std::uint64_t holder = domain.reader().identity.holder_word();
        CHECK_FALSE(
            bool(claim_region(domain.daemon(), pages_of_4k, holder, true, &warning)));  // all are held
        CHECK(domain.pages_in(Phase::published) == objects);
        for (const std::uint32_t number : engine.regions)
            domain.control().region(number).holder.store(0, shm::seq_cst);
        CHECK_FALSE(bool(claim_region(domain.daemon(), pages_of_4k, holder, false, &warning)));
        CHECK(domain.pages_in(Phase::published) == objects);
        const auto region = claim_region(domain.daemon(), pages_of_4k, holder, true, &warning);
        REQUIRE(bool(region));
        CHECK(domain.pages_in(Phase::published) < objects);
        CHECK(domain.pages_in(Phase::published) >= objects - 8);
    }

    // -- death of a daemon between two phases

    TEST_CASE("formatting that never ended is undone") {
        Domain domain;
        Client& engine = domain.client();
        const RegionView region = region_of(domain, engine.regions[0]);
        const Owner dead = dead_owner(domain);
        SUBCASE("all records opened") {}
        SUBCASE("some records still sealed") {
            for (std::uint32_t i = 4; i < 8; ++i)
                domain.set_phase(region.first_record + i, Phase::sealed);
        }
        domain.control().region(region.number).holder.store(0, shm::relaxed);
        set_region(domain, region.number, RegionPhase::formatting, dead);
        const std::uint32_t epoch =
            RegionState::unpack(domain.control().region(region.number).state.load(shm::relaxed)).epoch;
        domain.control()
            .granule_claim(region.first_record / records_per_granule)
            .store(granule_claim::pack(region.number, epoch, dead), shm::seq_cst);

        recover_regions(domain.daemon(), owner_is_dead);
        CHECK_FALSE(read_region(domain.control(), region.number));
        CHECK(claims(domain) == 0);
        CHECK(domain.pages_in(Phase::free) == 0);
        CHECK(units_in(domain, RegionPhase::free) == domain.control().region_count());
        // and can be claimed as ever
        CHECK(domain.client().regions[0] == region.number);
    }

    TEST_CASE("formatting of several units that stopped while claiming them") {
        Domain domain;
        const Owner dead = dead_owner(domain);
        set_region(domain, 1, RegionPhase::formatting, dead);
        set_region(domain, 2, RegionPhase::part, dead);
        domain.control().region(1).head.store(1, shm::relaxed);
        domain.control().region(2).head.store(1, shm::relaxed);
        recover_regions(domain.daemon(), owner_is_dead);
        CHECK(units_in(domain, RegionPhase::free) == domain.control().region_count());
    }

    TEST_CASE("a unit that was claimed before its head is given back") {
        Domain domain;
        const Owner dead = dead_owner(domain);
        set_region(domain, 2, RegionPhase::part, dead);
        domain.control().region(2).head.store(1, shm::relaxed);
        recover_regions(domain.daemon(), owner_is_dead);
        CHECK(units_in(domain, RegionPhase::free) == domain.control().region_count());
    }

    TEST_CASE("draining that never ended is undone: nothing is lost") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        set_region(domain, engine.regions[0], RegionPhase::draining, dead_owner(domain));
        recover_regions(domain.daemon(), owner_is_dead);
        CHECK(region_of(domain, engine.regions[0]).phase == RegionPhase::held);
        CHECK(engine.get("k") == "value");
        CHECK(engine.put("next", "value") == Code::ok);
    }

    TEST_CASE("sealing that never ended: undone with an object in the way, completed without") {
        Domain domain;
        Client& engine = domain.client();
        const RegionView region = region_of(domain, engine.regions[0]);
        SUBCASE("an object in the way") {
            REQUIRE(engine.put("k", "value") == Code::ok);
            for (std::uint32_t i = 0; i < 8; ++i)
                if (domain.phase(region.first_record + i) == Phase::free && i % 2 == 0)
                    domain.set_phase(region.first_record + i, Phase::sealed);
            set_region(domain, region.number, RegionPhase::sealing, dead_owner(domain));
            recover_regions(domain.daemon(), owner_is_dead);
            CHECK(region_of(domain, region.number).phase == RegionPhase::held);
            CHECK(engine.get("k") == "value");
            CHECK(domain.pages_in(Phase::free) == 7);
        }
        SUBCASE("empty, half sealed") {
            for (std::uint32_t i = 0; i < 4; ++i)
                domain.set_phase(region.first_record + i, Phase::sealed);
            set_region(domain, region.number, RegionPhase::sealing, dead_owner(domain));
            recover_regions(domain.daemon(), owner_is_dead);
            CHECK_FALSE(read_region(domain.control(), region.number));
            CHECK(claims(domain) == 0);
            CHECK(units_in(domain, RegionPhase::free) == domain.control().region_count());
        }
    }

    TEST_CASE("what a living daemon is working on is left alone") {
        Domain domain;
        Client& engine = domain.client();
        Client& other_daemon = domain.reader();
        for (const RegionPhase phase :
             {RegionPhase::draining, RegionPhase::sealing, RegionPhase::formatting}) {
            set_region(domain, engine.regions[0], phase, other_daemon.identity.owner());
            const std::uint64_t word = domain.control().region(engine.regions[0]).state.load(shm::relaxed);
            recover_regions(domain.daemon(), owner_is_dead);
            CHECK(domain.control().region(engine.regions[0]).state.load(shm::relaxed) == word);
        }
        set_region(domain, engine.regions[0], RegionPhase::held, {});
    }

    TEST_CASE("granule claims that no region names are given back, others are not") {
        Domain domain;
        Client& engine = domain.client();
        const Owner dead = dead_owner(domain);
        const std::uint64_t held = claims(domain);
        Word64& stray = domain.control().granule_claim(domain.control().granule_count() - 1);
        stray.store(granule_claim::pack(5, 1, dead), shm::seq_cst);
        Word64& wild = domain.control().granule_claim(domain.control().granule_count() - 2);
        wild.store(granule_claim::pack(0xffffffff, 1, dead), shm::seq_cst);
        recover_regions(domain.daemon(), owner_is_dead);
        CHECK(stray.load(shm::relaxed) == 0);
        CHECK(wild.load(shm::relaxed) == 0);
        CHECK(claims(domain) == held);
        CHECK(engine.put("k", "value") == Code::ok);
    }

    TEST_CASE("recovery of a sound domain changes nothing") {
        Domain domain;
        Client& engine = domain.client();
        Client& wide = domain.client(128);
        REQUIRE(engine.put("k", "value") == Code::ok);
        const RegionView before = region_of(domain, wide.regions[0]);
        recover_regions(domain.daemon(), owner_is_dead);
        recover_regions(domain.daemon(), owner_is_dead);
        CHECK(engine.get("k") == "value");
        CHECK(region_of(domain, wide.regions[0]).unit_count == before.unit_count);
        CHECK(claims(domain) == 2);
    }
}
