// Pins: hazard pointers, what makes scans short, and the ageing of key pins.
#include <thread>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

/// The chunk a token lies in.
PinChunk& chunk_of(const Domain& domain, std::uint64_t token) {
    return domain.control().chunk(static_cast<std::uint32_t>(PinToken::Chunk::get(token)));
}
std::uint64_t bit_of(std::uint64_t token) {
    return 1ull << PinToken::Index::get(token);
}

std::uint64_t pin_key(Client& client, const std::string& key) {
    std::uint64_t token = 0;
    std::uint32_t record = 0;
    REQUIRE(client.worker.pin_key(client.key(key), &token, &record) == Code::ok);
    return token;
}

std::uint64_t bound(const Domain& domain) {
    return domain.control().super().bound.load(shm::seq_cst);
}

}  // namespace

TEST_SUITE("table pins") {
    TEST_CASE("a set gives each slot once, takes chunks as it needs them, and gives them back") {
        Domain domain({.pins = 4 * pins_per_chunk});
        Client& engine = domain.reader();
        PinSet& pins = engine.worker.pins();
        std::vector<PinSlot> taken;
        PinSlot slot;
        while (taken.size() < 1000 && pins.take(&slot)) {
            pins.announce_own(slot, 1, 1);
            for (const PinSlot& other : taken)
                REQUIRE_FALSE((other.chunk == slot.chunk && other.index == slot.index));
            taken.push_back(slot);
        }
        CHECK(taken.size() == 4 * pins_per_chunk);
        CHECK(domain.control().super().pin_high_water.load(shm::relaxed) >= 4);
        CHECK(pins.give_back() == 4);  // all in use: all stay
        for (const PinSlot& one : taken)
            pins.clear(one);
        CHECK(pins.give_back() == 0);
        for (std::uint32_t c = 0; c < domain.control().chunk_count(); ++c)
            CHECK(domain.control().chunk(c).owner.load(shm::relaxed) == 0);
        Client& next = domain.reader();
        CHECK(next.worker.pins().take(&slot));
        next.worker.pins().clear(slot);
    }

    TEST_CASE("slots that were taken but not yet announced are not handed out again") {
        Domain domain({.pins = 2 * pins_per_chunk});
        Client& engine = domain.reader();
        PinSet& pins = engine.worker.pins();
        std::vector<PinSlot> taken;
        PinSlot slot;
        while (taken.size() < 1000 && pins.take(&slot)) {
            for (const PinSlot& other : taken)
                REQUIRE_FALSE((other.chunk == slot.chunk && other.index == slot.index));
            taken.push_back(slot);
        }
        CHECK(taken.size() == 2 * pins_per_chunk);
        for (const PinSlot& one : taken)
            pins.clear(one);
    }

    TEST_CASE("a chunk that changes hands has another epoch, so that late sweeps match nothing") {
        Domain domain({.pins = pins_per_chunk});
        Client& first = domain.reader();
        PinSlot slot;
        REQUIRE(first.worker.pins().take(&slot));
        const std::uint64_t before = domain.control().chunk(0).epoch.load(shm::relaxed);
        first.worker.pins().announce_own(slot, 1, 1);
        const std::uint64_t old_word = first.worker.pins().word(slot);
        first.worker.pins().clear(slot);
        REQUIRE(first.worker.pins().give_back() == 0);

        Client& second = domain.reader();
        REQUIRE(second.worker.pins().take(&slot));
        second.worker.pins().announce_own(slot, 1, 1);
        CHECK(domain.control().chunk(0).epoch.load(shm::relaxed) > before);
        CHECK(pin::Epoch::get(second.worker.pins().word(slot)) != pin::Epoch::get(old_word));
        second.worker.pins().clear(slot);
    }

    TEST_CASE("the high-water mark covers every chunk with a pin") {
        Domain domain;
        std::vector<Client*> clients;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        for (int i = 0; i < 8; ++i)
            clients.push_back(&domain.reader());
        std::vector<View> views;
        for (Client* client : clients)
            views.push_back(client->hold("k"));
        const std::uint64_t mark = domain.control().super().pin_high_water.load(shm::relaxed);
        for (const View& view : views)
            CHECK(PinToken::Chunk::get(view.token) < mark);
        for (std::size_t i = 0; i < views.size(); ++i) {
            CHECK(is_pinned(domain.control(), views[i].record, views[i].generation, false));
            clients[i]->worker.release(views[i].token);
        }
        CHECK_FALSE(is_pinned(domain.control(), views[0].record, views[0].generation, false));
    }

    // -- summary words

    TEST_CASE("a chunk's summary shows a pin while it stands") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        CHECK((chunk_of(domain, view.token).summary.load(shm::relaxed) & bit_of(view.token)) != 0);
        engine.worker.release(view.token);
        CHECK((chunk_of(domain, view.token).summary.load(shm::relaxed) & bit_of(view.token)) == 0);

        const std::uint64_t token = pin_key(engine, "k");
        CHECK((chunk_of(domain, token).summary.load(shm::relaxed) & bit_of(token)) != 0);
        engine.worker.unpin(token);
        CHECK((chunk_of(domain, token).summary.load(shm::relaxed) & bit_of(token)) == 0);
    }

    TEST_CASE("views of a batch stand in the summary too") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("a", "value") == Code::ok);
        REQUIRE(engine.put("b", "value") == Code::ok);
        const Key keys[] = {engine.key("a"), engine.key("b")};
        View views[2];
        Code codes[2];
        engine.worker.retrieve_batch(keys, views, codes);
        for (const View& view : views) {
            CHECK((chunk_of(domain, view.token).summary.load(shm::relaxed) & bit_of(view.token)) != 0);
            engine.worker.release(view.token);
        }
    }

    TEST_CASE("the writer's lease stands in the summary") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.put_and_hold("k", "value");
        CHECK((chunk_of(domain, page.token).summary.load(shm::relaxed) & bit_of(page.token)) != 0);
        CHECK(is_pinned(domain.control(), page.record, page.generation, false));
        engine.worker.free(page);
    }

    // -- the epoch filter

    TEST_CASE("the bound follows the epoch while nobody reads") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const std::uint64_t before = domain.control().epoch();
        for (int i = 0; i < 5; ++i)
            advance_epoch(domain.control());
        CHECK(domain.control().epoch() == before + 5);
        CHECK(bound(domain) > before);
    }

    TEST_CASE("an old lease holds the bound, and its page is found pinned however old it is") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        const std::uint64_t began = domain.control().epoch();
        for (int i = 0; i < 20; ++i) {
            advance_epoch(domain.control());
            CHECK(bound(domain) <= began);
            CHECK(is_pinned(domain.control(), view.record, view.generation, false));
        }
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 0);
        engine.worker.release(view.token);
        for (int i = 0; i < 3; ++i)
            advance_epoch(domain.control());
        CHECK(bound(domain) > began);
        CHECK_FALSE(is_pinned(domain.control(), view.record, view.generation, false));
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 1);
    }

    TEST_CASE("an old lease beside younger ones holds the bound; the younger ones alone hold their own") {
        Domain domain;
        Client& engine = domain.client();
        Client& reader = domain.reader();
        for (const char* key : {"a", "b"})
            REQUIRE(engine.put(key, "value") == Code::ok);
        const View old = reader.hold("a");
        const std::uint64_t began = domain.control().epoch();
        for (int i = 0; i < 5; ++i)
            advance_epoch(domain.control());
        const View young = reader.hold("b");
        for (int i = 0; i < 5; ++i) {
            advance_epoch(domain.control());
            CHECK(bound(domain) <= began);
        }
        reader.worker.release(old.token);
        for (int i = 0; i < 5; ++i) {
            advance_epoch(domain.control());
            CHECK(is_pinned(domain.control(), young.record, young.generation, false));
        }
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 1);
        reader.worker.release(young.token);
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 1);
    }

    TEST_CASE("a record says the youngest epoch in which a lease was taken") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        for (int i = 0; i < 5; ++i)
            advance_epoch(domain.control());
        const View view = engine.hold("k");
        const std::uint64_t last = domain.control().record(view.record).last.load(shm::relaxed);
        CHECK((last & last::epoch_mask) >= domain.control().epoch());
        engine.worker.release(view.token);
    }

    TEST_CASE("views of a batch hold the bound as well") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        for (int i = 0; i < 3; ++i)
            advance_epoch(domain.control());
        const Key key = engine.key("k");
        View view;
        Code code;
        engine.worker.retrieve_batch({&key, 1}, {&view, 1}, {&code, 1});
        const std::uint64_t began = domain.control().epoch();
        for (int i = 0; i < 5; ++i) {
            advance_epoch(domain.control());
            CHECK(bound(domain) <= began);
            CHECK(is_pinned(domain.control(), view.record, view.generation, false));
        }
        engine.worker.release(view.token);
    }

    TEST_CASE("a lease that another thread released does not hold the bound for ever") {
        Domain domain;
        Client& engine = domain.client();
        Client& helper = domain.thread_of(engine);
        REQUIRE(engine.put("k", "value") == Code::ok);
        const View view = engine.hold("k");
        const std::uint64_t began = domain.control().epoch();
        std::uint64_t key_pin = 0;
        SUBCASE("alone in its chunk") {}
        SUBCASE("beside a key pin") {
            key_pin = pin_key(engine, "k");
        }
        SUBCASE("beside a reserved page") {
            engine.alloc();
        }
        REQUIRE(helper.worker.release(view.token) == Code::ok);
        for (int i = 0; i < 5; ++i)
            advance_epoch(domain.control());
        CHECK(bound(domain) > began);
        if (key_pin != 0) CHECK(engine.worker.unpin(key_pin));
    }

    TEST_CASE("the bound never goes back") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        std::uint64_t before = bound(domain);
        std::vector<View> views;
        for (int i = 0; i < 20; ++i) {
            if (i % 3 == 0) views.push_back(engine.hold("k"));
            if (i % 5 == 4) {
                engine.worker.release(views.back().token);
                views.pop_back();
            }
            advance_epoch(domain.control());
            CHECK(bound(domain) >= before);
            before = bound(domain);
        }
        for (const View& view : views)
            engine.worker.release(view.token);
    }

    TEST_CASE("a key pin is found without any epoch: its record says so") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const std::uint64_t token = pin_key(engine, "k");
        for (int i = 0; i < 10; ++i)
            advance_epoch(domain.control());
        CHECK(engine.remove("k") == DeleteResult::pinned);
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 0);
        CHECK(engine.worker.unpin(token));
    }

    TEST_CASE("a page that is reused starts without the marks of its former object") {
        Domain domain;
        Client& engine = domain.client();
        for (int i = 0; i < 7; ++i)
            engine.alloc();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const std::uint64_t token = pin_key(engine, "k");
        const View view = engine.hold("k");
        engine.worker.release(view.token);
        engine.worker.unpin(token);
        domain.control().record(view.record).last.fetch_or(last::always_scan, shm::seq_cst);
        REQUIRE(engine.remove("k") == DeleteResult::deleted);
        REQUIRE(engine.put("next", "value") == Code::ok);
        const std::uint64_t last = domain.control().record(view.record).last.load(shm::relaxed);
        CHECK((last & last::key_pinned) == 0);
        CHECK((last & last::epoch_mask) <= domain.control().epoch());
    }

    // -- ageing of key pins

    TEST_CASE("a key pin ends after its time to live, by the daemon's own clock") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        const std::uint64_t token = pin_key(engine, "k");
        KeyPinExpiry expiry(domain.control());
        std::vector<std::uint64_t> expired(domain.control().client_count());
        CHECK(expiry.pass(1000, 10, &expired) == 0);  // first seen now
        CHECK(expiry.pass(1009, 10, &expired) == 0);
        CHECK(engine.remove("k") == DeleteResult::pinned);
        CHECK(expiry.pass(1011, 10, &expired) == 1);
        CHECK(expired[engine.identity.slot] == 1);
        CHECK_FALSE(engine.worker.unpin(token));
        CHECK(engine.remove("k") == DeleteResult::deleted);
        CHECK(expiry.pass(2000, 10, &expired) == 0);
    }

    TEST_CASE("a pin slot that expired serves again") {
        Domain domain({.pins = 3 * pins_per_chunk});
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        KeyPinExpiry expiry(domain.control());
        std::vector<std::uint64_t> expired(domain.control().client_count());
        std::uint64_t now = 0;
        for (int round = 0; round < 10; ++round) {
            for (std::uint32_t i = 0; i < pins_per_chunk; ++i)
                pin_key(engine, "k");
            expiry.pass(now += 100, 10, &expired);
            CHECK(expiry.pass(now += 100, 10, &expired) == pins_per_chunk);
        }
        CHECK(engine.get("k") == "value");
        CHECK(engine.remove("k") == DeleteResult::deleted);
    }

    TEST_CASE("a re-pin in the same slot is not ended by the age of the one before") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        KeyPinExpiry expiry(domain.control());
        std::vector<std::uint64_t> expired(domain.control().client_count());
        const std::uint64_t first = pin_key(engine, "k");
        expiry.pass(0, 10, &expired);
        REQUIRE(engine.worker.unpin(first));
        const std::uint64_t second = pin_key(engine, "k");
        REQUIRE(PinToken::Chunk::get(first) == PinToken::Chunk::get(second));
        REQUIRE(PinToken::Index::get(first) == PinToken::Index::get(second));
        REQUIRE(first != second);
        CHECK(expiry.pass(11, 10, &expired) == 0);
        CHECK(engine.remove("k") == DeleteResult::pinned);
        CHECK(expiry.pass(22, 10, &expired) == 1);
        CHECK(engine.remove("k") == DeleteResult::deleted);
    }

    TEST_CASE("expiry ends no lease and no reservation") {
        Domain domain;
        Client& engine = domain.client();
        const Page reserved = engine.alloc();
        const Page published = engine.put_and_hold("k", "value");
        const View view = engine.hold("k");
        pin_key(engine, "k");
        KeyPinExpiry expiry(domain.control());
        std::vector<std::uint64_t> expired(domain.control().client_count());
        expiry.pass(0, 10, &expired);
        CHECK(expiry.pass(1000, 10, &expired) == 1);
        CHECK(domain.pins_of(engine.identity).size() == 3);
        CHECK(engine.worker.release(view.token) == Code::ok);
        CHECK(engine.worker.free(published) == Code::ok);
        CHECK(engine.worker.free(reserved) == Code::ok);
    }

    TEST_CASE("a view outlives the key pin that expired over it") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        pin_key(engine, "k");
        const View view = engine.hold("k");
        KeyPinExpiry expiry(domain.control());
        std::vector<std::uint64_t> expired(domain.control().client_count());
        expiry.pass(0, 1, &expired);
        REQUIRE(expiry.pass(5, 1, &expired) == 1);
        CHECK(engine.remove("k") == DeleteResult::deleted);
        CHECK(domain.phase(view.record) == Phase::retired);
        CHECK(domain.text_of(view) == "value");
        engine.worker.release(view.token);
    }
}
