// Removal and the undecided states in between: who decides, who rescues, who is told "pinned".
#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_256k{page_of_256k, 0};

struct KeyPin {
    Code code = Code::miss;
    std::uint64_t token = 0;
    std::uint32_t record = 0;
};
KeyPin pin_key(Client& client, const std::string& key) {
    KeyPin made;
    made.code = client.worker.pin_key(client.key(key), &made.token, &made.record);
    return made;
}

/// An object without leases, and somebody who stopped while retiring it.
struct Stopped {
    explicit Stopped(Phase phase)
        : engine(domain.client()), retirer(domain.reader()), reader(domain.reader()) {
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        record = view.record;
        generation = view.generation;
        REQUIRE(engine.worker.release(view.token) == Code::ok);
        retirer.announce_own(record);
        domain.set_phase(record, phase, retirer.identity.owner());
    }
    Domain domain;
    Client& engine;
    Client& retirer;
    Client& reader;
    std::uint32_t record = 0, generation = 0;
};

std::uint64_t rescues_of(const Client& client) {
    return count_client(client.domain.control(), client.identity).of[static_cast<int>(Counter::rescues)];
}

}  // namespace

TEST_SUITE("table remove") {
    TEST_CASE("a removed key is gone at once, and its page is free in a new generation") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        engine.worker.release(view.token);
        CHECK(engine.remove("k") == DeleteResult::deleted);
        CHECK_FALSE(engine.exists("k"));
        CHECK_FALSE(engine.get("k"));
        CHECK(engine.remove("k") == DeleteResult::absent);
        CHECK(domain.phase(view.record) == Phase::free);
        CHECK(domain.state(view.record).generation > view.generation);
        CHECK(domain.slots_of(view.record).empty());
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("removing what was never there") {
        Domain domain;
        Client& engine = domain.client();
        CHECK(engine.remove("nothing") == DeleteResult::absent);
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("a key that is being read can be removed; its page goes when the last view goes") {
        Domain domain;
        Client& engine = domain.client();
        Client& reader = domain.reader();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View one = reader.hold("k");
        const View two = reader.hold("k");
        CHECK(engine.remove("k") == DeleteResult::deleted);
        CHECK_FALSE(reader.exists("k"));
        CHECK(domain.phase(one.record) == Phase::retired);
        CHECK(domain.text_of(one) == "value");
        // the key can be stored anew meanwhile, in another page
        REQUIRE(engine.put("k", "newer") == Code::ok);
        CHECK(reader.get("k") == "newer");
        CHECK(domain.text_of(two) == "value");

        reader.worker.release(one.token);
        engine.worker.retry_retired();
        CHECK(domain.phase(two.record) == Phase::retired);
        reader.worker.release(two.token);
        engine.worker.retry_retired();
        CHECK(domain.phase(two.record) == Phase::free);
        CHECK(reader.get("k") == "newer");
    }

    TEST_CASE("removing one's own object while the writer's lease stands") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.put_and_hold("k", "value");
        CHECK(engine.remove("k") == DeleteResult::deleted);
        CHECK(domain.phase(page.record) == Phase::retired);
        CHECK(engine.worker.free(page) == Code::ok);
        engine.worker.retry_retired();
        CHECK(domain.phase(page.record) == Phase::free);
    }

    TEST_CASE("more deleted pages under readers than the private list holds come back all the same") {
        Domain domain;
        Client& engine = domain.client(1);
        Client& reader = domain.reader();
        std::vector<View> views;
        for (int i = 0; i < 200; ++i) {
            const std::string key = "k" + std::to_string(i);
            Page page;
            REQUIRE(engine.worker.alloc_from(engine.regions, {1, 0}, &page) == Code::ok);
            REQUIRE(engine.worker.publish(engine.key(key), page, 1) == Code::ok);
            REQUIRE(engine.worker.free(page) == Code::ok);
            views.push_back(reader.hold(key));
            REQUIRE(engine.remove(key) == DeleteResult::deleted);
        }
        CHECK(domain.pages_in(Phase::retired) == 200);
        for (const View& view : views)
            REQUIRE(reader.worker.release(view.token) == Code::ok);
        engine.worker.retry_retired();
        Page page;
        int taken = 0;
        while (engine.alloc_any({1, 0}, &page) == Code::ok)
            ++taken;
        CHECK(taken == 512);
    }

    // -- key pins

    TEST_CASE("a key pin protects from removal and eviction until it is ended; pins are counted") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const KeyPin one = pin_key(other, "k"), two = pin_key(other, "k");
        REQUIRE(one.code == Code::ok);
        REQUIRE(two.code == Code::ok);
        CHECK(one.token != two.token);
        CHECK(engine.remove("k") == DeleteResult::pinned);
        CHECK(engine.worker.evict(pages_of_256k, 8) == 0);
        CHECK(other.worker.unpin(one.token));
        CHECK_FALSE(other.worker.unpin(one.token));
        CHECK(engine.remove("k") == DeleteResult::pinned);
        CHECK(engine.exists("k"));
        CHECK(domain.phase(two.record) == Phase::published);
        CHECK(other.worker.unpin(two.token));
        CHECK(engine.remove("k") == DeleteResult::deleted);
    }

    TEST_CASE("a key pin of a page's former object does not protect the next one") {
        Domain domain;
        Client& engine = domain.client();
        for (int i = 0; i < 7; ++i)
            engine.alloc();
        REQUIRE(engine.put("first", "value") == Code::ok);
        const KeyPin pin = pin_key(engine, "first");
        CHECK(engine.worker.unpin(pin.token));
        REQUIRE(engine.remove("first") == DeleteResult::deleted);
        REQUIRE(engine.put("second", "value") == Code::ok);  // in the same page
        CHECK_FALSE(engine.worker.unpin(pin.token));
        CHECK(engine.remove("second") == DeleteResult::deleted);
    }

    TEST_CASE("pinning what is absent is a miss and leaves nothing") {
        Domain domain;
        Client& engine = domain.client();
        CHECK(pin_key(engine, "k").code == Code::miss);
        CHECK(domain.pins_of(engine.identity).empty());
        for (const std::uint64_t token : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{12345}})
            CHECK_FALSE(engine.worker.unpin(token));
    }

    TEST_CASE("an ended key pin does not end another that uses its slot, nor does another client") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const KeyPin first = pin_key(engine, "k");
        REQUIRE(engine.worker.unpin(first.token));
        const KeyPin second = pin_key(engine, "k");
        CHECK_FALSE(engine.worker.unpin(first.token));
        CHECK_FALSE(other.worker.unpin(second.token));
        CHECK(engine.remove("k") == DeleteResult::pinned);
        CHECK(engine.worker.release(second.token) == Code::invalid);  // a key pin is no lease
        CHECK(engine.worker.unpin(second.token));
    }

    TEST_CASE("another thread of the client may end a key pin") {
        Domain domain;
        Client& engine = domain.client();
        Client& helper = domain.thread_of(engine);
        REQUIRE(engine.put("k", "value") == Code::ok);
        const KeyPin pin = pin_key(engine, "k");
        CHECK(helper.worker.unpin(pin.token));
        CHECK(engine.remove("k") == DeleteResult::deleted);
    }

    // -- RETIRING(evict), undecided

    TEST_CASE("an object whose evictor stopped is live for everybody") {
        Stopped given(Phase::retiring_evict);
        Domain& domain = given.domain;
        SUBCASE("exists") {
            CHECK(given.reader.exists("k"));
        }
        SUBCASE("a reader rescues it") {
            CHECK(given.reader.get("k") == "value");
            CHECK(domain.phase(given.record) == Phase::published);
            CHECK(rescues_of(given.reader) == 1);
        }
        SUBCASE("a batch rescues it") {
            const Key key = given.reader.key("k");
            View view;
            Code code = Code::miss;
            given.reader.worker.retrieve_batch({&key, 1}, {&view, 1}, {&code, 1});
            CHECK(code == Code::ok);
            CHECK(domain.phase(given.record) == Phase::published);
            given.reader.worker.release(view.token);
        }
        SUBCASE("a prefix rescues it") {
            const Key key = given.reader.key("k");
            View view;
            CHECK(given.reader.worker.match_prefix({&key, 1}, &view) == 1);
            CHECK(domain.phase(given.record) == Phase::published);
            given.reader.worker.release(view.token);
        }
        SUBCASE("a key pin rescues it") {
            const KeyPin pin = pin_key(given.reader, "k");
            CHECK(pin.code == Code::ok);
            CHECK(domain.phase(given.record) == Phase::published);
            CHECK(given.engine.remove("k") == DeleteResult::pinned);
            CHECK(given.reader.worker.unpin(pin.token));
        }
        SUBCASE("a writer of the same key loses") {
            CHECK(given.engine.put("k", "other") == Code::exists);
            CHECK(given.engine.get("k") == "value");
        }
        SUBCASE("a deleter deletes it") {
            CHECK(given.engine.remove("k") == DeleteResult::deleted);
            CHECK_FALSE(given.reader.exists("k"));
            CHECK(domain.phase(given.record) == Phase::free);
        }
        SUBCASE("a sweep of the dead evictor puts it back") {
            CHECK(domain.bury(given.retirer).retiring == 1);
            CHECK(domain.phase(given.record) == Phase::published);
        }
    }

    TEST_CASE("an evictor that comes back after a rescue does not complete its eviction") {
        Stopped given(Phase::retiring_evict);
        const State before = given.domain.state(given.record);
        REQUIRE(given.reader.get("k") == "value");
        given.domain.set_phase(given.record, Phase::published);
        const State after = given.domain.state(given.record);
        CHECK(after.generation == before.generation);
        // its next compare-and-swap expects the word it wrote: another phase stands there now
        CHECK(after.pack() != before.pack());
    }

    TEST_CASE("attempts count up, so that a stale evictor cannot complete a later eviction") {
        Stopped given(Phase::published);
        const State before = given.domain.state(given.record);
        const View view = given.reader.hold("k");  // backs the evictor off
        CHECK(given.engine.worker.evict(pages_of_256k, 1) == 0);
        const State after = given.domain.state(given.record);
        CHECK(after.phase == Phase::published);
        CHECK(after.attempt != before.attempt);
        given.reader.worker.release(view.token);
    }

    // -- RETIRING(delete), undecided

    TEST_CASE("an object whose deleter stopped before deciding") {
        Stopped given(Phase::retiring_delete);
        Domain& domain = given.domain;
        SUBCASE("a lease is a hit and leaves the decision open") {
            const View view = given.reader.hold("k");
            CHECK(domain.text_of(view) == "value");
            CHECK(domain.phase(given.record) == Phase::retiring_delete);
            // the deleter goes on: its scan finds the lease, the page is RETIRED but not reused
            CHECK(given.engine.remove("k") == DeleteResult::deleted);
            CHECK(domain.phase(given.record) == Phase::retired);
            CHECK(domain.text_of(view) == "value");
            given.reader.worker.release(view.token);
            given.engine.worker.retry_retired();
            CHECK(domain.phase(given.record) == Phase::free);
        }
        SUBCASE("exists sees it") {
            CHECK(given.reader.exists("k"));
        }
        SUBCASE("a key pin cancels the delete") {
            const KeyPin pin = pin_key(given.reader, "k");
            REQUIRE(pin.code == Code::ok);
            CHECK(domain.phase(given.record) == Phase::published);
            CHECK(given.engine.remove("k") == DeleteResult::pinned);
            CHECK(given.reader.worker.unpin(pin.token));
            CHECK(given.engine.remove("k") == DeleteResult::deleted);
        }
        SUBCASE("a second deleter decides it") {
            CHECK(given.engine.remove("k") == DeleteResult::deleted);
            CHECK_FALSE(given.reader.exists("k"));
            CHECK(domain.phase(given.record) == Phase::free);
        }
        SUBCASE("a writer of the same key is told it exists") {
            CHECK(given.engine.put("k", "other") == Code::exists);
            CHECK(given.reader.get("k") == "value");
        }
        SUBCASE("a sweep puts it back") {
            CHECK(domain.bury(given.retirer).retiring == 1);
            CHECK(domain.phase(given.record) == Phase::published);
            CHECK(given.reader.get("k") == "value");
        }
    }

    TEST_CASE("a second deleter answers 'pinned' for a foreign delete under a key pin") {
        Domain domain;
        Client& engine = domain.client();
        Client& retirer = domain.reader();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const KeyPin pin = pin_key(engine, "k");
        domain.set_phase(pin.record, Phase::retiring_delete, retirer.identity.owner());
        CHECK(engine.remove("k") == DeleteResult::pinned);
        CHECK(engine.exists("k"));
        CHECK(engine.worker.unpin(pin.token));
        CHECK(engine.remove("k") == DeleteResult::deleted);
    }

    // -- nobody is hostage to a stopped retirer

    TEST_CASE("an allocator that finds nothing else helps itself to what stopped retirers left") {
        for (const Phase phase : {Phase::retiring_evict, Phase::retiring_delete}) {
            CAPTURE(name_of(phase));
            Domain domain;
            Client& engine = domain.client();
            Client& retirer = domain.reader();
            for (int i = 0; i < 8; ++i)
                REQUIRE(engine.put("k" + std::to_string(i), "value") == Code::ok);
            for (std::uint32_t r = 1; r < domain.control().record_count(); ++r)
                if (domain.phase(r) == Phase::published) domain.set_phase(r, phase, retirer.identity.owner());
            for (int i = 0; i < 8; ++i) {
                Page page;
                REQUIRE(engine.worker.evict_to_reuse(pages_of_256k, &page) == Code::ok);
                CHECK(domain.phase(page.record) == Phase::reserved);
                if (domain.pages_in(Phase::free) > 0) break;
            }
            CHECK(domain.pages_in(Phase::reserved) >= 1);
        }
    }

    TEST_CASE("a stopped retirer's object that is being read is not taken by a helping allocator") {
        for (const Phase phase : {Phase::retiring_evict, Phase::retiring_delete}) {
            CAPTURE(name_of(phase));
            Domain domain;
            Client& engine = domain.client();
            Client& retirer = domain.reader();
            for (int i = 0; i < 8; ++i)
                REQUIRE(engine.put("k" + std::to_string(i), "value") == Code::ok);
            std::vector<View> views;
            for (int i = 0; i < 8; ++i)
                views.push_back(engine.hold("k" + std::to_string(i)));
            for (const View& view : views)
                domain.set_phase(view.record, phase, retirer.identity.owner());
            Page page;
            CHECK(engine.worker.evict_to_reuse(pages_of_256k, &page) == Code::full);
            for (const View& view : views) {
                CHECK(domain.state(view.record).generation == view.generation);
                CHECK(domain.text_of(view) == "value");
                engine.worker.release(view.token);
            }
        }
    }

    TEST_CASE("RETIRED by a stopped retirer, its slot still in the index: a miss, and the page is reused") {
        Domain domain;
        Client& engine = domain.client();
        Client& retirer = domain.reader();
        REQUIRE(engine.put("k3", "value") == Code::ok);
        for (int i = 0; i < 7; ++i)
            engine.alloc();
        const View view = engine.hold("k3");
        engine.worker.release(view.token);
        domain.set_phase(view.record, Phase::retired, retirer.identity.owner());
        CHECK_FALSE(engine.exists("k3"));
        CHECK_FALSE(engine.get("k3"));
        CHECK(engine.remove("k3") == DeleteResult::absent);
        Page page;
        REQUIRE(engine.alloc_any(pages_of_256k, &page) == Code::ok);
        CHECK(page.record == view.record);
        CHECK(domain.slots_of(view.record).empty());
    }

    TEST_CASE("a key whose old object is RETIRED can be stored: the stale slot goes") {
        Domain domain;
        Client& engine = domain.client();
        Client& retirer = domain.reader();
        REQUIRE(engine.put("k", "old") == Code::ok);
        const View view = engine.hold("k");
        retirer.announce_own(view.record);
        domain.set_phase(view.record, Phase::retired, retirer.identity.owner());
        REQUIRE(engine.put("k", "new") == Code::ok);
        CHECK(engine.get("k") == "new");
        CHECK(domain.slots_of(view.record).empty());
        CHECK(domain.text_of(view) == "old");
        engine.worker.release(view.token);
        domain.bury(retirer);
    }

    // -- damage

    TEST_CASE("an object whose bytes were found damaged is retired, and its key can be stored again") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "damaged") == Code::ok);
        const View view = engine.hold("k");
        CHECK(engine.worker.retire_damaged(view));
        CHECK_FALSE(engine.exists("k"));
        REQUIRE(engine.put("k", "good") == Code::ok);
        CHECK_FALSE(engine.worker.retire_damaged(view));  // that was another object
        CHECK(engine.get("k") == "good");
        engine.worker.release(view.token);
        engine.worker.retry_retired();
        CHECK(domain.pages_in(Phase::retired) == 0);
    }

    TEST_CASE("deletes, duplicates and stores are counted") {
        Domain domain;
        Client& engine = domain.client();
        engine.put("k", "1");
        engine.put("k", "2");
        engine.remove("k");
        engine.remove("k");
        const Counts counts = count_client(domain.control(), engine.identity);
        CHECK(counts.of[static_cast<int>(Counter::stores)] == 1);
        CHECK(counts.of[static_cast<int>(Counter::duplicates)] == 1);
        CHECK(counts.of[static_cast<int>(Counter::deletes)] == 1);
    }
}
