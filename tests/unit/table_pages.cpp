// Pages: reserved by one compare-and-swap, given back once, found by place.
#include <algorithm>
#include <set>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {
constexpr PageClass pages_of_256k{page_of_256k, 0};
}

TEST_SUITE("table pages") {
    TEST_CASE("a fresh region gives each of its pages once, then it is full") {
        Domain domain;
        Client& engine = domain.client();
        std::set<std::uint64_t> offsets;
        std::set<std::uint32_t> records;
        for (int i = 0; i < 8; ++i) {
            const Page page = engine.alloc();
            CHECK(domain.phase(page.record) == Phase::reserved);
            CHECK(domain.state(page.record).owner == engine.identity.owner());
            CHECK(domain.state(page.record).generation == page.generation);
            CHECK(page.record != 0);
            CHECK(page.location.region == engine.regions[0]);
            CHECK(page.location.page_bytes() == 256 * KiB);
            std::uint32_t pool = 0;
            std::uint64_t offset = 0;
            REQUIRE(domain.control().place(page.location, &pool, &offset));
            offsets.insert(offset / (256 * KiB));
            records.insert(page.record);
        }
        CHECK(offsets.size() == 8);
        CHECK(records.size() == 8);
        Page none;
        CHECK(engine.worker.alloc_from(engine.regions, pages_of_256k, &none) == Code::full);
    }

    TEST_CASE("a page that is given back can be had again, in a higher generation") {
        Domain domain;
        Client& engine = domain.client();
        std::vector<Page> all;
        for (int i = 0; i < 8; ++i)
            all.push_back(engine.alloc());
        const Page first = all[3];
        CHECK(engine.worker.free(first) == Code::ok);
        CHECK(domain.phase(first.record) == Phase::free);

        const Page again = engine.alloc();
        CHECK(again.record == first.record);
        CHECK(again.generation > first.generation);
    }

    TEST_CASE("generations go up at each of many reuses of one page") {
        Domain domain;
        Client& engine = domain.client();
        for (int i = 0; i < 7; ++i)
            engine.alloc();
        std::uint32_t before = 0, record = 0;
        for (int round = 0; round < 100; ++round) {
            const Page page = engine.alloc();
            if (round > 0) {
                CHECK(page.record == record);
                CHECK(page.generation > before);
            }
            record = page.record;
            before = page.generation;
            REQUIRE(engine.worker.free(page) == Code::ok);
        }
    }

    TEST_CASE("a double free is refused and takes nothing from the next owner") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        for (int i = 0; i < 7; ++i)
            engine.alloc();
        const Page page = engine.alloc();
        CHECK(engine.worker.free(page) == Code::ok);
        CHECK(engine.worker.free(page) == Code::not_reserved);

        Page next;
        REQUIRE(other.worker.alloc_anywhere(pages_of_256k, &next) == Code::ok);
        REQUIRE(next.record == page.record);
        CHECK(engine.worker.free(page) == Code::not_reserved);  // a third time, when another has it
        CHECK(domain.phase(next.record) == Phase::reserved);
        CHECK(domain.state(next.record).owner == other.identity.owner());
    }

    TEST_CASE("a page of another client is not given back, not even by a forged handle") {
        Domain domain;
        Client& engine = domain.client();
        Client& thief = domain.reader();
        Page page = engine.alloc();
        CHECK(thief.worker.free(page) == Code::not_reserved);
        page.token = 0;
        CHECK(thief.worker.free(page) == Code::not_reserved);
        CHECK(domain.phase(page.record) == Phase::reserved);
    }

    TEST_CASE("handles that name nothing are refused") {
        Domain domain;
        Client& engine = domain.client();
        CHECK(engine.worker.free(Page{}) == Code::not_reserved);
        Page wild;
        wild.record = 0xffffffff;
        wild.token = ~0ull;
        CHECK(engine.worker.free(wild) == Code::not_reserved);
        wild.record = domain.control().record_count();
        CHECK(engine.worker.free(wild) == Code::not_reserved);
    }

    TEST_CASE("another thread of the client may give a page back") {
        Domain domain;
        Client& engine = domain.client();
        Client& helper = domain.thread_of(engine);
        const Page page = engine.alloc();
        CHECK(helper.worker.free(page) == Code::ok);
        CHECK(domain.phase(page.record) == Phase::free);
        CHECK(engine.worker.free(page) == Code::not_reserved);
        CHECK(domain.pins_of(engine.identity).empty());  // its own word went with it
    }

    TEST_CASE("a reserved page is announced before it is taken, and the word goes when it is given back") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.alloc();
        const auto words = domain.pins_of(engine.identity);
        REQUIRE(words.size() == 1);
        CHECK(pin::kind(words[0]) == PinKind::own);
        CHECK(pin::record(words[0]) == page.record);
        engine.worker.free(page);
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("pages of any region of the class serve when the own are full") {
        Domain domain;
        Client& rich = domain.client();
        Client& poor = domain.reader();
        Page page;
        CHECK(poor.worker.alloc_from(poor.regions, pages_of_256k, &page) == Code::full);
        REQUIRE(poor.worker.alloc_anywhere(pages_of_256k, &page) == Code::ok);
        CHECK(page.location.region == rich.regions[0]);
        CHECK(domain.state(page.record).owner == poor.identity.owner());
    }

    TEST_CASE("a class that nobody has is full, also when other sizes have room") {
        Domain domain;
        Client& engine = domain.client();
        Page page;
        for (const std::uint32_t page_4k : {1u, 63u, 65u, 0u, 0xffffffffu}) {
            CAPTURE(page_4k);
            CHECK(engine.worker.alloc_from(engine.regions, {page_4k, 0}, &page) == Code::full);
            CHECK(engine.worker.alloc_anywhere({page_4k, 0}, &page) == Code::full);
            CHECK(engine.worker.evict_to_reuse({page_4k, 0}, &page) == Code::full);
        }
        CHECK(engine.worker.alloc_anywhere({page_of_256k, 1}, &page) == Code::full);  // another namespace
        CHECK(domain.pages_in(Phase::reserved) == 0);
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("region numbers that name nothing give no page") {
        Domain domain;
        Client& engine = domain.reader();
        const std::uint32_t wild[] = {0, 1, domain.control().region_count(), 0xffffffff};
        Page page;
        CHECK(engine.worker.alloc_from(wild, pages_of_256k, &page) == Code::full);
    }

    TEST_CASE("a page is found again by its place, by its owner alone") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        engine.alloc();
        const Page page = engine.alloc();
        Page found;
        REQUIRE(engine.worker.find_reserved(page.location.region, page.location.page_index, &found) ==
                Code::ok);
        CHECK(found.record == page.record);
        CHECK(found.generation == page.generation);
        CHECK(found.location.page_4k == page_of_256k);
        CHECK(other.worker.find_reserved(page.location.region, page.location.page_index, &found) ==
              Code::not_reserved);
        CHECK(engine.worker.find_reserved(page.location.region, 8, &found) == Code::not_reserved);
        CHECK(engine.worker.find_reserved(0xffffffff, 0, &found) == Code::not_reserved);
        engine.worker.free(page);
        CHECK(engine.worker.find_reserved(page.location.region, page.location.page_index, &found) ==
              Code::not_reserved);
    }

    TEST_CASE("a page that was found by its place can be published and given back") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.alloc();
        Page found;
        REQUIRE(engine.worker.find_reserved(page.location.region, page.location.page_index, &found) ==
                Code::ok);
        std::memcpy(domain.bytes_of(found.location), "bytes", 5);
        REQUIRE(engine.worker.publish(engine.key("by place"), found, 5) == Code::ok);
        CHECK(engine.get("by place") == "bytes");
        CHECK(engine.worker.free(found) == Code::ok);
        CHECK(engine.get("by place") == "bytes");
    }

    TEST_CASE("wrong hints cost time, never a page: all hints cleared or set, every page is found") {
        Domain domain;
        Client& engine = domain.client();
        for (std::uint32_t g = 0; g < domain.control().granule_count(); ++g)
            domain.control().hint(g).store(0, shm::relaxed);
        Page page;
        int found = 0;
        while (engine.alloc_any(pages_of_256k, &page) == Code::ok)
            ++found;
        CHECK(found == 8);

        for (std::uint32_t g = 0; g < domain.control().granule_count(); ++g)
            domain.control().hint(g).store(~0ull, shm::relaxed);
        CHECK(engine.alloc_any(pages_of_256k, &page) == Code::full);
        CHECK(domain.pages_in(Phase::reserved) == 8);
    }

    TEST_CASE("who takes a page in a region that is being emptied gives it back") {
        Domain domain;
        Client& engine = domain.client();
        RegionEntry& region = domain.control().region(engine.regions[0]);
        const std::uint64_t before = region.state.load(shm::relaxed);
        RegionState draining = RegionState::unpack(before);
        draining.phase = RegionPhase::draining;
        ++draining.epoch;
        draining.owner = domain.daemon().identity().owner();
        region.state.store(draining.pack(), shm::seq_cst);

        Page page;
        CHECK(engine.worker.alloc_from(engine.regions, pages_of_256k, &page) == Code::full);
        CHECK(engine.worker.alloc_anywhere(pages_of_256k, &page) == Code::full);
        CHECK(domain.pages_in(Phase::free) == 8);
        region.state.store(before, shm::seq_cst);
        CHECK(engine.worker.alloc_from(engine.regions, pages_of_256k, &page) == Code::ok);
    }

    TEST_CASE("a page whose record says another size than wanted is given back") {
        Domain domain;
        domain.expect_damage();
        Client& engine = domain.client();
        const RegionView region = *read_region(domain.control(), engine.regions[0]);
        for (std::uint32_t i = 0; i < region.page_count; ++i)
            domain.control().record(region.first_record + i).page_4k.store(1, shm::relaxed);
        Page page;
        CHECK(engine.worker.alloc_from(engine.regions, pages_of_256k, &page) == Code::full);
        CHECK(domain.pages_in(Phase::reserved) == 0);
    }

    TEST_CASE(
        "an allocation takes the page of an object that was deleted while it was read, once it is let go") {
        Domain domain;
        Client& engine = domain.client();
        Client& reader = domain.reader();
        for (int i = 0; i < 8; ++i)
            REQUIRE(engine.put("k" + std::to_string(i), "v") == Code::ok);
        const View view = reader.hold("k5");
        CHECK(engine.remove("k5") == DeleteResult::deleted);
        CHECK(domain.phase(view.record) == Phase::retired);

        Page page;
        CHECK(engine.worker.alloc_anywhere(pages_of_256k, &page) == Code::full);  // k5 is still being read
        CHECK(domain.text_of(view) == "v");
        REQUIRE(reader.worker.release(view.token) == Code::ok);
        REQUIRE(engine.worker.alloc_anywhere(pages_of_256k, &page) == Code::ok);  // the deleter looks again
        CHECK(page.record == view.record);
        CHECK(page.generation > view.generation);
    }
}
