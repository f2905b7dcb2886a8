// Reading: views and their leases, batches, prefixes, and what happens when no pin slot is left.
#include <set>
#include <thread>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_4k{1, 0};

/// A client with 512 small pages and `count` objects "k0", "k1", ...; the value is the key.
Client& client_with_objects(Domain& domain, int count) {
    Client& engine = domain.client(1);
    for (int i = 0; i < count; ++i) {
        const std::string key = "k" + std::to_string(i);
        Page page;
        REQUIRE(engine.worker.alloc_from(engine.regions, pages_of_4k, &page) == Code::ok);
        std::memcpy(domain.bytes_of(page.location), key.data(), key.size());
        REQUIRE(engine.worker.publish(engine.key(key), page, key.size()) == Code::ok);
        REQUIRE(engine.worker.free(page) == Code::ok);
    }
    return engine;
}

/// Key strings that outlive the keys made of them.
struct Keys {
    Keys(const Client& client, std::vector<std::string> names) : strings(std::move(names)) {
        for (const auto& name : strings)
            keys.push_back(client.key(name));
    }
    std::vector<std::string> strings;
    std::vector<Key> keys;
};

std::vector<std::string> numbered(int from, int to) {
    std::vector<std::string> names;
    for (int i = from; i < to; ++i)
        names.push_back("k" + std::to_string(i));
    return names;
}

}  // namespace

TEST_SUITE("table lookup") {
    TEST_CASE("a view names page and length, and ends once") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        View view;
        REQUIRE(engine.worker.retrieve(engine.key("k"), &view) == Code::ok);
        CHECK(view.length == 5);
        CHECK(view.location.region == engine.regions[0]);
        CHECK(view.location.page_bytes() == 256 * KiB);
        CHECK(domain.text_of(view) == "value");
        CHECK(view.token != 0);

        CHECK(engine.worker.release(view.token) == Code::ok);
        CHECK(engine.worker.release(view.token) == Code::invalid);
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("a miss leaves nothing behind") {
        Domain domain;
        Client& engine = domain.client();
        View view;
        CHECK(engine.worker.retrieve(engine.key("k"), &view) == Code::miss);
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("tokens that name nothing end nothing") {
        Domain domain;
        Client& engine = domain.client();
        Client& other = domain.reader();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        for (const std::uint64_t token :
             {std::uint64_t{0}, ~std::uint64_t{0}, view.token + 1, view.token ^ 1,
              view.token ^ PinToken::Sequence::put(1), view.token ^ PinToken::Generation::put(256)})
            CHECK(engine.worker.release(token) == Code::invalid);
        CHECK(other.worker.release(view.token) == Code::invalid);  // another client's
        CHECK_FALSE(engine.worker.unpin(view.token));              // a lease is no key pin
        CHECK(is_pinned(domain.control(), view.record, view.generation, false));
        CHECK(engine.worker.release(view.token) == Code::ok);
    }

    TEST_CASE("a token of a slot that was used again ends nothing") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View first = engine.hold("k");
        REQUIRE(engine.worker.release(first.token) == Code::ok);
        const View second = engine.hold("k");
        CHECK(second.token != first.token);
        CHECK(engine.worker.release(first.token) == Code::invalid);
        CHECK(is_pinned(domain.control(), second.record, second.generation, false));
        CHECK(engine.worker.release(second.token) == Code::ok);
    }

    TEST_CASE("another thread of the client may end a view") {
        Domain domain;
        Client& engine = domain.client();
        Client& helper = domain.thread_of(engine);
        REQUIRE(engine.put("k", "value") == Code::ok);
        for (int round = 0; round < 200; ++round) {  // more than a chunk has slots: they come back
            const View view = engine.hold("k");
            REQUIRE(helper.worker.release(view.token) == Code::ok);
            REQUIRE(engine.worker.release(view.token) == Code::invalid);
        }
        CHECK(domain.pins_of(engine.identity).empty());
        CHECK(engine.worker.evict({page_of_256k, 0}, 1) == 1);
    }

    TEST_CASE("any number of views of one object may stand; each ends by itself") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        std::vector<View> views;
        for (int i = 0; i < 150; ++i)
            views.push_back(engine.hold("k"));
        std::set<std::uint64_t> tokens;
        for (const View& view : views)
            tokens.insert(view.token);
        CHECK(tokens.size() == 150);
        for (const View& view : views) {
            CHECK(is_pinned(domain.control(), view.record, view.generation, false));
            REQUIRE(engine.worker.release(view.token) == Code::ok);
        }
        CHECK_FALSE(is_pinned(domain.control(), views[0].record, views[0].generation, false));
    }

    TEST_CASE("a view keeps its page and its bytes from reuse, across removal and eviction") {
        Domain domain;
        Client& engine = domain.client();
        Client& reader = domain.reader();
        for (int i = 0; i < 8; ++i)
            REQUIRE(engine.put("k" + std::to_string(i), "old") == Code::ok);
        const View removed = reader.hold("k0");
        const View evicted = reader.hold("k1");
        REQUIRE(engine.remove("k0") == DeleteResult::deleted);
        // When everything else is turned over many times
        for (int round = 0; round < 30; ++round) {
            Page page;
            REQUIRE(engine.worker.evict_to_reuse({page_of_256k, 0}, &page) == Code::ok);
            CHECK(page.record != removed.record);
            CHECK(page.record != evicted.record);
            std::memcpy(domain.bytes_of(page.location), "new", 3);
            REQUIRE(engine.worker.publish(engine.key("n" + std::to_string(round)), page, 3) == Code::ok);
            REQUIRE(engine.worker.free(page) == Code::ok);
        }
        // Then both still read what they read before
        CHECK(domain.text_of(removed) == "old");
        CHECK(domain.text_of(evicted) == "old");
        CHECK(domain.state(removed.record).generation == removed.generation);
        CHECK(domain.state(evicted.record).generation == evicted.generation);
        CHECK(reader.exists("k1"));
        CHECK(reader.worker.release(removed.token) == Code::ok);
        CHECK(reader.worker.release(evicted.token) == Code::ok);
    }

    TEST_CASE("lookups and hits are counted for the client, also after its chunks went back") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        Client& reader = domain.reader();
        reader.get("k");
        reader.get("k");
        reader.get("absent");
        const auto of = [](const Counts& counts, Counter counter) {
            return counts.of[static_cast<int>(counter)];
        };
        const Counts before = count_client(domain.control(), reader.identity);
        CHECK(of(before, Counter::lookups) == 3);
        CHECK(of(before, Counter::hits) == 2);
        CHECK(of(count_client(domain.control(), engine.identity), Counter::stores) == 1);
        CHECK(reader.worker.pins().give_back() == 0);
        CHECK(of(count_client(domain.control(), reader.identity), Counter::hits) == 2);
        CHECK(of(count_all(domain.control()), Counter::hits) == 2);
        CHECK(of(count_all(domain.control()), Counter::stores) == 1);
    }

    // -- batches

    TEST_CASE("a batch answers for each key by itself") {
        Domain domain;
        Client& engine = client_with_objects(domain, 20);
        const Keys asked(engine, {"k3", "absent", "k7", "k7", "none", "k19"});
        std::vector<View> views(6);
        std::vector<Code> codes(6);
        engine.worker.retrieve_batch(asked.keys, views, codes);
        CHECK(codes == std::vector<Code>{Code::ok, Code::miss, Code::ok, Code::ok, Code::miss, Code::ok});
        CHECK(domain.text_of(views[0]) == "k3");
        CHECK(domain.text_of(views[2]) == "k7");
        CHECK(domain.text_of(views[3]) == "k7");
        CHECK(views[2].token != views[3].token);
        CHECK(domain.text_of(views[5]) == "k19");
        std::vector<std::uint64_t> tokens = {views[0].token, views[2].token, views[3].token, views[5].token};
        CHECK(domain.pins_of(engine.identity).size() == 4);
        for (const std::size_t i : {0u, 2u, 3u, 5u})
            CHECK(is_pinned(domain.control(), views[i].record, views[i].generation, false));
        engine.worker.release_batch(tokens);
        CHECK(domain.pins_of(engine.identity).empty());
        engine.worker.release_batch(tokens);  // again: nothing to end
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("empty batches are nothing") {
        Domain domain;
        Client& engine = domain.client();
        engine.worker.retrieve_batch({}, {}, {});
        engine.worker.exists_batch({}, {});
        engine.worker.release_batch({});
        CHECK(engine.worker.match_prefix({}, nullptr) == 0);
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("a batch larger than a pin chunk") {
        Domain domain;
        Client& engine = client_with_objects(domain, 300);
        const Keys asked(engine, numbered(0, 400));  // the last hundred are not there
        std::vector<View> views(400);
        std::vector<Code> codes(400);
        engine.worker.retrieve_batch(asked.keys, views, codes);
        std::set<std::uint64_t> tokens;
        for (std::size_t i = 0; i < 300; ++i) {
            REQUIRE(codes[i] == Code::ok);
            CHECK(domain.text_of(views[i]) == asked.strings[i]);
            tokens.insert(views[i].token);
        }
        for (std::size_t i = 300; i < 400; ++i)
            CHECK(codes[i] == Code::miss);
        CHECK(tokens.size() == 300);  // no slot was handed out twice
        CHECK(domain.pins_of(engine.identity).size() == 300);
        engine.worker.release_batch(std::vector<std::uint64_t>(tokens.begin(), tokens.end()));
        CHECK(domain.pins_of(engine.identity).empty());

        std::unique_ptr<bool[]> present(new bool[400]);
        engine.worker.exists_batch(asked.keys, {present.get(), 400});
        for (std::size_t i = 0; i < 400; ++i)
            CHECK(present[i] == (i < 300));
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("a batch of one key many times") {
        Domain domain;
        Client& engine = client_with_objects(domain, 1);
        const Keys asked(engine, std::vector<std::string>(100, "k0"));
        std::vector<View> views(100);
        std::vector<Code> codes(100);
        engine.worker.retrieve_batch(asked.keys, views, codes);
        for (std::size_t i = 0; i < 100; ++i) {
            REQUIRE(codes[i] == Code::ok);
            CHECK(engine.worker.release(views[i].token) == Code::ok);
        }
    }

    TEST_CASE("views of a batch keep their pages as others do") {
        Domain domain;
        Client& engine = domain.client();
        for (int i = 0; i < 8; ++i)
            REQUIRE(engine.put("k" + std::to_string(i), "value") == Code::ok);
        const Keys asked(engine, numbered(0, 4));
        std::vector<View> views(4);
        std::vector<Code> codes(4);
        engine.worker.retrieve_batch(asked.keys, views, codes);
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 4);
        for (std::size_t i = 0; i < 4; ++i) {
            CHECK(domain.text_of(views[i]) == "value");
            CHECK(engine.exists(asked.strings[i]));
            engine.worker.release(views[i].token);
        }
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 4);
    }

    // -- prefixes

    TEST_CASE("match_prefix stops at the first miss and pins what it counted, and nothing more") {
        Domain domain;
        Client& engine = client_with_objects(domain, 10);
        const Keys asked(engine, {"k0", "k1", "k2", "hole", "k3", "k4"});
        CHECK(engine.worker.match_prefix(asked.keys, nullptr) == 3);
        CHECK(domain.pins_of(engine.identity).empty());

        std::vector<View> views(6);
        REQUIRE(engine.worker.match_prefix(asked.keys, views.data()) == 3);
        CHECK(domain.pins_of(engine.identity).size() == 3);
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(domain.text_of(views[i]) == asked.strings[i]);
            CHECK(is_pinned(domain.control(), views[i].record, views[i].generation, false));
            CHECK(engine.worker.release(views[i].token) == Code::ok);
        }
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("match_prefix: nothing, all, and a miss at the front") {
        Domain domain;
        Client& engine = client_with_objects(domain, 200);
        std::vector<View> views(200);
        const Keys all(engine, numbered(0, 200));
        REQUIRE(engine.worker.match_prefix(all.keys, views.data()) == 200);
        for (const View& view : views)
            CHECK(engine.worker.release(view.token) == Code::ok);
        CHECK(engine.worker.match_prefix(all.keys, nullptr) == 200);

        const Keys none(engine, {"absent", "k0", "k1"});
        CHECK(engine.worker.match_prefix(none.keys, views.data()) == 0);
        CHECK(engine.worker.match_prefix(none.keys, nullptr) == 0);
        CHECK(domain.pins_of(engine.identity).empty());
    }

    // -- no pin slot left

    TEST_CASE("without a pin slot there is an error, never an unpinned hit") {
        Domain domain({.pins = 3 * pins_per_chunk});
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        Client& hoarder = domain.reader();
        std::vector<View> hoard;
        View view;
        Code code;
        while ((code = hoarder.worker.retrieve(hoarder.key("k"), &view)) == Code::ok && hoard.size() < 1000)
            hoard.push_back(view);
        CHECK(code == Code::full);
        CHECK(hoard.size() >= pins_per_chunk);
        CHECK(hoard.size() <= 3 * pins_per_chunk);
        CHECK(domain.pins_of(hoarder.identity).size() == hoard.size());

        // Then nobody else gets a hit without a pin; what needs none goes on
        Client& late = domain.reader();
        std::uint64_t token = 0;
        std::uint32_t record = 0;
        Page page;
        CHECK(late.worker.retrieve(late.key("k"), &view) == Code::full);
        CHECK(late.worker.retrieve(late.key("absent"), &view) != Code::ok);
        CHECK(late.worker.pin_key(late.key("k"), &token, &record) == Code::full);
        CHECK(late.worker.alloc_anywhere({page_of_256k, 0}, &page) == Code::contended);
        CHECK(late.worker.evict_to_reuse({page_of_256k, 0}, &page) != Code::ok);
        CHECK(late.worker.exists(late.key("k")));
        CHECK(domain.pages_in(Phase::reserved) == 0);

        // When the slots come back, everything works again
        for (const View& held : hoard)
            REQUIRE(hoarder.worker.release(held.token) == Code::ok);
        CHECK(hoarder.worker.pins().give_back() == 0);
        CHECK(late.get("k") == "value");
        CHECK(late.worker.alloc_anywhere({page_of_256k, 0}, &page) == Code::ok);
        CHECK(late.worker.free(page) == Code::ok);
    }

    TEST_CASE("a delete without a pin slot says so, or deletes; never 'absent'") {
        Domain domain({.pins = 2 * pins_per_chunk});
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        REQUIRE(engine.put("other", "value") == Code::ok);
        Client& hoarder = domain.reader();
        View view;
        while (hoarder.worker.retrieve(hoarder.key("other"), &view) == Code::ok) {
        }
        Client& late = domain.reader();
        const DeleteResult result = late.remove("k");
        CHECK((result == DeleteResult::no_pin_slot || result == DeleteResult::deleted));
        CHECK(engine.exists("k") == (result == DeleteResult::no_pin_slot));
    }

    TEST_CASE("a prefix ends where the pin slots end, and says how many it pinned") {
        Domain domain({.pins = 3 * pins_per_chunk});
        Client& engine = client_with_objects(domain, 300);
        Client& reader = domain.reader();
        const Keys asked(reader, numbered(0, 300));
        std::vector<View> views(300);
        const std::size_t matched = reader.worker.match_prefix(asked.keys, views.data());
        CHECK(matched >= pins_per_chunk);
        CHECK(matched < 3 * pins_per_chunk);
        CHECK(domain.pins_of(reader.identity).size() == matched);
        for (std::size_t i = 0; i < matched; ++i) {
            CHECK(domain.text_of(views[i]) == asked.strings[i]);
            REQUIRE(reader.worker.release(views[i].token) == Code::ok);
        }
        CHECK(domain.pins_of(reader.identity).empty());
        CHECK(reader.worker.match_prefix(asked.keys, nullptr) == 300);  // no pins asked for, none needed
        CHECK(engine.exists("k0"));
    }

    TEST_CASE("a batch beyond the pin slots: hits with pins, then full; each hit is pinned") {
        Domain domain({.pins = 3 * pins_per_chunk});
        Client& engine = client_with_objects(domain, 300);
        Client& reader = domain.reader();
        const Keys asked(reader, numbered(0, 300));
        std::vector<View> views(300);
        std::vector<Code> codes(300);
        reader.worker.retrieve_batch(asked.keys, views, codes);
        std::size_t hits = 0;
        for (std::size_t i = 0; i < 300; ++i) {
            CHECK((codes[i] == Code::ok || codes[i] == Code::full));
            if (codes[i] != Code::ok) continue;
            ++hits;
            CHECK(is_pinned(domain.control(), views[i].record, views[i].generation, false));
            CHECK(reader.worker.release(views[i].token) == Code::ok);
        }
        CHECK(hits >= pins_per_chunk);
        CHECK(hits < 300);
        CHECK(domain.pins_of(reader.identity).empty());
        CHECK(engine.exists("k299"));
    }
}
