// Publishing: the commit is one step, the first value stays, no key is like another.
#include <set>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

TEST_SUITE("table publish") {
    TEST_CASE("a published value is read back whole, from any client") {
        Domain domain;
        Client& writer = domain.client();
        Client& reader = domain.reader();
        CHECK_FALSE(reader.get("prompt"));
        REQUIRE(writer.put("prompt", "tokens") == Code::ok);
        CHECK(writer.get("prompt") == "tokens");
        CHECK(reader.get("prompt") == "tokens");
        CHECK(reader.exists("prompt"));
        CHECK_FALSE(reader.exists("prompt "));
    }

    TEST_CASE("what a record says after the commit") {
        Domain domain;
        Client& writer = domain.client();
        const Page page = writer.put_and_hold("prompt", "tokens");
        const PageRecord& record = domain.control().record(page.record);
        CHECK(domain.phase(page.record) == Phase::published);
        CHECK(domain.state(page.record).generation == page.generation);
        CHECK(record.length.load(shm::relaxed) == 6);
        CHECK(record.key_length.load(shm::relaxed) == 6);
        CHECK(record.name_space.load(shm::relaxed) == 0);
        const auto slots = domain.slots_of(page.record);
        REQUIRE(slots.size() == 1);
        CHECK_FALSE(slot::is_tentative(slots[0]->load(shm::relaxed)));
        CHECK(slot::same_generation(slots[0]->load(shm::relaxed), page.generation));
    }

    TEST_CASE("lengths from nothing to the whole page are kept") {
        Domain domain;
        Client& writer = domain.client();
        for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, 256 * KiB - 1, 256 * KiB}) {
            CAPTURE(length);
            const std::string key = "length " + std::to_string(length);
            REQUIRE(writer.put(key, std::string(length, 'x')) == Code::ok);
            const auto value = writer.get(key);
            REQUIRE(value);
            CHECK(value->size() == length);
        }
    }

    TEST_CASE("a length beyond the page is refused and the page stays reserved") {
        Domain domain;
        Client& writer = domain.client();
        Page page = writer.alloc();
        for (const std::uint64_t length : {256 * KiB + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
            const Code code = writer.worker.publish(writer.key("long"), page, length);
            CHECK((code == Code::too_large || code == Code::invalid));
        }
        CHECK(domain.phase(page.record) == Phase::reserved);
        CHECK_FALSE(writer.exists("long"));
        CHECK(writer.worker.publish(writer.key("long"), page, 4) == Code::ok);
    }

    TEST_CASE("a checksum that came with the value comes back with it") {
        Domain domain({.checksum = ChecksumMode::publish});
        Client& writer = domain.client();
        Page page = writer.alloc();
        REQUIRE(writer.worker.publish(writer.key("sum"), page, 4, 0x0123456789abcdef) == Code::ok);
        const View view = writer.hold("sum");
        CHECK(view.checksum == 0x0123456789abcdef);
        CHECK(view.length == 4);
        CHECK(writer.worker.release(view.token) == Code::ok);
    }

    // -- duplicates

    TEST_CASE("a duplicate keeps the first value and leaves the page reserved, fit for another key") {
        Domain domain;
        Client& first = domain.client();
        Client& second = domain.client();
        REQUIRE(first.put("prompt", "first") == Code::ok);

        Page page = second.alloc();
        std::memcpy(domain.bytes_of(page.location), "second", 6);
        CHECK(second.worker.publish(second.key("prompt"), page, 6) == Code::exists);
        CHECK(domain.phase(page.record) == Phase::reserved);
        CHECK(domain.state(page.record).owner == second.identity.owner());
        CHECK(domain.slots_of(page.record).empty());
        CHECK(first.get("prompt") == "first");

        CHECK(second.worker.publish(second.key("other"), page, 6) == Code::ok);
        CHECK(first.get("other") == "second");
        CHECK(second.worker.free(page) == Code::ok);
        CHECK(first.get("prompt") == "first");
    }

    TEST_CASE("a duplicate that is given back leaves nothing") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "1") == Code::ok);
        CHECK(engine.put("k", "2") == Code::exists);
        CHECK(domain.pages_in(Phase::free) == 7);
        CHECK(domain.pins_of(engine.identity).empty());
        CHECK(engine.get("k") == "1");
    }

    TEST_CASE("one handle is published once: again with the same key, with another, from another thread") {
        Domain domain;
        Client& engine = domain.client();
        Client& helper = domain.thread_of(engine);
        Page page = engine.put_and_hold("k", "value");
        Page copy = page;
        CHECK(engine.worker.publish(engine.key("k"), copy, 5) != Code::ok);
        copy = page;
        CHECK(engine.worker.publish(engine.key("other"), copy, 5) == Code::not_reserved);
        copy = page;
        CHECK(helper.worker.publish(helper.key("third"), copy, 5) == Code::not_reserved);
        CHECK(engine.get("k") == "value");
        CHECK_FALSE(engine.exists("other"));
        CHECK_FALSE(engine.exists("third"));
        CHECK(domain.slots_of(page.record).size() == 1);
        CHECK(domain.phase(page.record) == Phase::published);
    }

    TEST_CASE("a page that was given back cannot be published") {
        Domain domain;
        Client& engine = domain.client();
        Page page = engine.alloc();
        REQUIRE(engine.worker.free(page) == Code::ok);
        CHECK(engine.worker.publish(engine.key("k"), page, 1) == Code::not_reserved);
        CHECK_FALSE(engine.exists("k"));
        CHECK(domain.phase(page.record) == Phase::free);
    }

    TEST_CASE("a page of another client cannot be published, nor a handle that names nothing") {
        Domain domain;
        Client& engine = domain.client();
        Client& thief = domain.reader();
        Page page = engine.alloc();
        Page forged = page;
        CHECK(thief.worker.publish(thief.key("k"), forged, 1) == Code::not_reserved);
        forged.token = 0;
        CHECK(thief.worker.publish(thief.key("k"), forged, 1) == Code::not_reserved);
        Page wild;
        CHECK(thief.worker.publish(thief.key("k"), wild, 1) != Code::ok);
        wild.location = page.location;
        CHECK(thief.worker.publish(thief.key("k"), wild, 1) == Code::not_reserved);
        for (const std::uint32_t record : {0xffffffffu, domain.control().record_count()}) {
            wild.record = record;
            CHECK(thief.worker.publish(thief.key("k"), wild, 1) == Code::not_reserved);
        }
        CHECK_FALSE(engine.exists("k"));
        CHECK(engine.worker.publish(engine.key("k"), page, 1) == Code::ok);
    }

    TEST_CASE("another thread of the client may publish a page") {
        Domain domain;
        Client& engine = domain.client();
        Client& helper = domain.thread_of(engine);
        Page page = engine.alloc();
        std::memcpy(domain.bytes_of(page.location), "value", 5);
        REQUIRE(helper.worker.publish(helper.key("k"), page, 5) == Code::ok);
        CHECK(engine.get("k") == "value");
        // the lease stands, wherever it stands, until somebody drops it
        CHECK(is_pinned(domain.control(), page.record, page.generation, false));
        CHECK(engine.worker.free(page) == Code::ok);
        CHECK_FALSE(is_pinned(domain.control(), page.record, page.generation, false));
        CHECK(domain.pins_of(engine.identity).empty());
    }

    TEST_CASE("the writer's lease keeps the page until it is dropped; the key stays") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.put_and_hold("k", "value");
        const auto words = domain.pins_of(engine.identity);
        REQUIRE(words.size() == 1);
        CHECK(pin::kind(words[0]) == PinKind::lease);
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 0);

        CHECK(engine.worker.free(page) == Code::ok);
        CHECK(domain.pins_of(engine.identity).empty());
        CHECK(engine.get("k") == "value");
        CHECK(engine.worker.free(page) == Code::not_reserved);  // a second time
        CHECK(engine.get("k") == "value");
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 1);
    }

    TEST_CASE("a key that was removed can be stored again, with another value") {
        Domain domain;
        Client& engine = domain.client();
        for (int round = 0; round < 20; ++round) {
            const std::string value = "value " + std::to_string(round);
            REQUIRE(engine.put("k", value) == Code::ok);
            CHECK(engine.get("k") == value);
            CHECK(engine.remove("k") == DeleteResult::deleted);
            CHECK_FALSE(engine.exists("k"));
        }
        CHECK(domain.pages_in(Phase::free) == 8);
    }

    // -- keys

    TEST_CASE("keys of every length, with every byte, meet only themselves") {
        Domain domain;
        Client& engine = domain.client(1);  // 512 pages of 4 KiB
        std::vector<std::string> keys;
        for (const std::size_t length :
             {1u, 2u, 7u, 8u, 9u, 63u, 64u, 119u, 120u, 121u, 128u, 4095u, 4096u}) {
            keys.push_back(std::string(length, 'a'));
            keys.push_back(std::string(length, '\0'));
            keys.push_back(std::string(length, '\xff'));
            std::string last = std::string(length, 'a');
            last.back() = 'b';
            keys.push_back(last);  // unlike in the last byte only
        }
        std::string past_inline = std::string(200, 'a');
        past_inline[130] = 'b';  // unlike behind the inline part only
        keys.push_back(past_inline);
        keys.push_back(std::string(200, 'a'));
        for (int byte = 0; byte < 256; byte += 5)
            keys.push_back(std::string(3, static_cast<char>(byte)) + "x");

        REQUIRE(std::set<std::string>(keys.begin(), keys.end()).size() == keys.size());
        const auto put = [&](const std::string& key, const std::string& value) {
            Page page;
            REQUIRE(engine.worker.alloc_from(engine.regions, {1, 0}, &page) == Code::ok);
            std::memcpy(domain.bytes_of(page.location), value.data(), value.size());
            const Code code = engine.worker.publish(engine.key(key), page, value.size());
            REQUIRE(engine.worker.free(page) == Code::ok);
            return code;
        };
        for (std::size_t i = 0; i < keys.size(); ++i) {
            CHECK_FALSE(engine.exists(keys[i]));
            REQUIRE(put(keys[i], "value " + std::to_string(i)) == Code::ok);
        }
        for (std::size_t i = 0; i < keys.size(); ++i) {
            CAPTURE(i);
            CHECK(engine.get(keys[i]) == "value " + std::to_string(i));
            CHECK(put(keys[i], "other") == Code::exists);
        }
        for (std::size_t i = 0; i < keys.size(); ++i) {
            CAPTURE(i);
            CHECK(engine.remove(keys[i]) == DeleteResult::deleted);
            CHECK_FALSE(engine.exists(keys[i]));
            if (i + 1 < keys.size()) CHECK(engine.exists(keys[i + 1]));
        }
        CHECK(domain.pages_in(Phase::published) == 0);
    }

    TEST_CASE("a hash that collides in every bit is told apart by the inline key") {
        Domain domain;
        Client& engine = domain.client();
        Key one = engine.key("one"), two = engine.key("two");
        two.low = one.low;
        two.high = one.high;
        Page first = engine.alloc(), second = engine.alloc();
        REQUIRE(engine.worker.publish(one, first, 1) == Code::ok);
        CHECK_FALSE(engine.worker.exists(two));
        CHECK(engine.worker.publish(two, second, 2) == Code::ok);
        View view;
        REQUIRE(engine.worker.retrieve(two, &view) == Code::ok);
        CHECK(view.length == 2);
        engine.worker.release(view.token);
        engine.worker.free(first);
        engine.worker.free(second);
        CHECK(engine.worker.remove(two) == DeleteResult::deleted);  // its hash is not that of its bytes
        CHECK(engine.worker.exists(one));
    }

    TEST_CASE("a key of another namespace, or of an earlier flush, is another key") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        CHECK_FALSE(engine.worker.exists(domain.control().key(1, "k")));
        Key forged = engine.key("k");
        forged.name_space = 1;
        CHECK_FALSE(engine.worker.exists(forged));
        Key flushed = engine.key("k");
        flushed.namespace_epoch += 1;
        CHECK_FALSE(engine.worker.exists(flushed));
        CHECK(engine.exists("k"));
    }

    // -- a publication that somebody left half way

    TEST_CASE("a tentative slot is no object; who stores that key throws it out") {
        Domain domain;
        Client& stopped = domain.client();
        Client& engine = domain.client();
        // Given a writer that stopped between placement and commit
        const Page page = stopped.put_and_hold("k", "half");
        Word64* slot = domain.slots_of(page.record).at(0);
        slot->store(slot->load(shm::relaxed) | slot::Tentative::put(1), shm::seq_cst);
        domain.set_phase(page.record, Phase::publishing, stopped.identity.owner());

        CHECK_FALSE(engine.exists("k"));
        CHECK_FALSE(engine.get("k"));
        CHECK(engine.remove("k") == DeleteResult::absent);
        // When another stores the key
        REQUIRE(engine.put("k", "whole") == Code::ok);
        // Then that one is the value, and the placement of the stopped one is gone
        CHECK(engine.get("k") == "whole");
        CHECK(domain.slots_of(page.record).empty());
        CHECK(domain.phase(page.record) == Phase::publishing);  // still its owner's
        domain.bury(stopped);
    }

    TEST_CASE("a tentative slot of another key with the same tag is left alone") {
        Domain domain({.records = 128});
        Client& stopped = domain.client();
        Client& engine = domain.client();
        const Page page = stopped.put_and_hold("k", "half");
        Word64* slot = domain.slots_of(page.record).at(0);
        const std::uint64_t tentative = slot->load(shm::relaxed) | slot::Tentative::put(1);
        slot->store(tentative, shm::seq_cst);
        domain.set_phase(page.record, Phase::publishing, stopped.identity.owner());

        Key other = engine.key("other");
        other.low = engine.key("k").low;  // same bucket, same tag
        other.high = engine.key("k").high + 1;
        Page mine = engine.alloc();
        REQUIRE(engine.worker.publish(other, mine, 1) == Code::ok);
        CHECK(slot->load(shm::seq_cst) == tentative);
        engine.worker.free(mine);
        CHECK(engine.worker.remove(other) == DeleteResult::deleted);
        domain.bury(stopped);
    }

    TEST_CASE("a tentative slot whose record moved on is stale and is cleared") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.alloc();
        const Key key = engine.key("k");
        Word64& slot = domain.control().bucket(domain.control().home_of(key.low)).slots[0];
        REQUIRE(slot.load(shm::relaxed) == 0);
        slot.store(slot::pack(true, Control::tag_of(key.low), page.generation, page.record), shm::seq_cst);
        engine.worker.free(page);  // the generation goes up: the slot is stale

        REQUIRE(engine.put("k", "value") == Code::ok);
        CHECK(engine.get("k") == "value");
        CHECK(engine.remove("k") == DeleteResult::deleted);
        CHECK(slot.load(shm::relaxed) == 0);
    }

    TEST_CASE("a stale final slot of the same key is cleared, and does not hide the new value") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.alloc();
        const Key key = engine.key("k");
        Word64& slot = domain.control().bucket(domain.control().home_of(key.low)).slots[0];
        slot.store(slot::pack(false, Control::tag_of(key.low), page.generation + 1000, page.record),
                   shm::seq_cst);
        CHECK_FALSE(engine.exists("k"));
        REQUIRE(engine.put("k", "value") == Code::ok);
        CHECK(engine.get("k") == "value");
        CHECK(slot.load(shm::relaxed) !=
              slot::pack(false, Control::tag_of(key.low), page.generation + 1000, page.record));
        engine.worker.free(page);
    }

    TEST_CASE("a committed publication that lacks its last step is an object for everybody") {
        Domain domain;
        Client& stopped = domain.client();
        Client& engine = domain.client();
        const Page page = stopped.put_and_hold("k", "whole");
        domain.set_phase(page.record, Phase::publishing, stopped.identity.owner());

        SUBCASE("a reader hits") {
            CHECK(engine.get("k") == "whole");
        }
        SUBCASE("exists sees it") {
            CHECK(engine.exists("k"));
        }
        SUBCASE("another writer loses") {
            CHECK(engine.put("k", "other") == Code::exists);
        }
        SUBCASE("a key pin holds it") {
            std::uint64_t token = 0;
            std::uint32_t record = 0;
            CHECK(engine.worker.pin_key(engine.key("k"), &token, &record) == Code::ok);
            CHECK(record == page.record);
            CHECK(engine.remove("k") == DeleteResult::pinned);
            CHECK(engine.worker.unpin(token));
        }
        SUBCASE("a deleter completes and deletes it") {
            CHECK(engine.remove("k") == DeleteResult::deleted);
            CHECK_FALSE(engine.exists("k"));
        }
        SUBCASE("a sweep completes it") {
            const SweepReport report = domain.bury(stopped);
            CHECK(report.publishing_final == 1);
            CHECK(domain.phase(page.record) == Phase::published);
            CHECK(engine.get("k") == "whole");
        }
    }

    TEST_CASE("an evictor completes a committed publication before it evicts it") {
        Domain domain;
        Client& stopped = domain.client();
        Client& engine = domain.reader();
        Page page = stopped.put_and_hold("k", "whole");
        stopped.worker.free(page);  // the lease is gone, the last step missing
        domain.set_phase(page.record, Phase::publishing, stopped.identity.owner());
        CHECK(engine.worker.evict({page_of_256k, 0}, 8) == 1);
        CHECK_FALSE(engine.exists("k"));
        CHECK(domain.phase(page.record) == Phase::free);
    }
}
