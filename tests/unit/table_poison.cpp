// Pages whose memory is bad leave the game, and nothing else does.
#include "domain_fixture.hpp"
#include "table/poison.hpp"

using namespace maru;
using namespace maru::table;

TEST_SUITE("table poison") {
    TEST_CASE("a poisoned object is gone, its page is BAD, and its key can be stored again") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        CHECK(poison_object(engine.worker, view));
        CHECK(domain.phase(view.record) == Phase::bad);
        CHECK(domain.state(view.record).generation > view.generation);
        CHECK_FALSE(engine.exists("k"));
        CHECK(domain.slots_of(view.record).empty());
        CHECK_FALSE(poison_object(engine.worker, view));
        CHECK(engine.worker.release(view.token) == Code::ok);
        CHECK(domain.phase(view.record) == Phase::bad);
        REQUIRE(engine.put("k", "again") == Code::ok);
        CHECK(engine.get("k") == "again");
        CHECK(domain.pages_in(Phase::bad) == 1);
    }

    TEST_CASE("an object that others read is poisoned all the same; a pinned one stays") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        REQUIRE(engine.put("read", "value") == Code::ok);
        REQUIRE(engine.put("pinned", "value") == Code::ok);
        const View read = engine.hold("read"), too = other.hold("read");
        CHECK(poison_object(engine.worker, read));
        CHECK(domain.phase(read.record) == Phase::bad);
        CHECK(other.worker.release(too.token) == Code::ok);
        CHECK(engine.worker.release(read.token) == Code::ok);

        std::uint64_t token = 0;
        std::uint32_t record = 0;
        REQUIRE(other.worker.pin_key(other.key("pinned"), &token, &record) == Code::ok);
        const View pinned = engine.hold("pinned");
        CHECK_FALSE(poison_object(engine.worker, pinned));
        CHECK(domain.phase(pinned.record) == Phase::published);
        CHECK(engine.worker.release(pinned.token) == Code::ok);
        CHECK(other.worker.unpin(token));
    }

    TEST_CASE("a reserved page that cannot be written is taken out of use, by its owner only") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        const Page page = engine.alloc();
        CHECK_FALSE(poison_page(other.worker, page));
        CHECK(poison_page(engine.worker, page));
        CHECK(domain.phase(page.record) == Phase::bad);
        CHECK(domain.pins_of(engine.identity).empty());
        CHECK_FALSE(poison_page(engine.worker, page));
        CHECK(engine.worker.free(page) == Code::not_reserved);
        // Never given out again.
        Page next;
        for (int taken = 0; engine.alloc_any({page_of_256k, 0}, &next) == Code::ok; ++taken) {
            CHECK(next.record != page.record);
            REQUIRE(taken < 1000);
        }
    }
}
