// The check finds each kind of damage, and nothing in a sound region.
#include <algorithm>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

/// A domain with one of everything, and with one thing wrong afterwards.
struct Damaged {
    Damaged() : engine(domain.client()), other(domain.client(128)) {
        domain.expect_damage();
        page = engine.put_and_hold("k", "value");
        REQUIRE(engine.put("second", "value") == Code::ok);
        reserved = engine.alloc();
        engine.hold("second");
        const CheckReport report = look(domain.control());
        REQUIRE_MESSAGE(report.findings_total == 0, describe(report));
    }
    const Control& control() { return domain.control(); }
    PageRecord& record() { return domain.control().record(page.record); }
    Word64& slot() { return *domain.slots_of(page.record).at(0); }
    RegionEntry& region() { return domain.control().region(engine.regions[0]); }
    /// An empty slot of the home bucket of the key.
    Word64& empty_slot() {
        Bucket& bucket = domain.control().bucket(domain.control().home_of(engine.key("k").low));
        for (Word64& word : bucket.slots)
            if (word.load(shm::relaxed) == 0) return word;
        FAIL("no empty slot");
        return bucket.slots[0];
    }

    Domain domain;
    Client& engine;
    Client& other;
    Page page, reserved;
};

/// The check must say this, somewhere, in both of its forms.
void expect(Damaged& given, const char* what) {
    const CheckReport report = look(given.control());
    INFO(describe(report));
    CHECK(report.findings_total > 0);
    const auto says = [&](const CheckReport& one) {
        return std::any_of(one.findings.begin(), one.findings.end(), [&](const Finding& finding) {
            return finding.what.find(what) != std::string::npos;
        });
    };
    CHECK_MESSAGE(says(report), what);
    CHECK(says(check(given.control(), 0)));
    for (const Finding& finding : report.findings)
        CHECK_FALSE(finding.where.empty());
}

void put_state(Damaged& given, std::uint64_t word) {
    given.record().state.store(word, shm::seq_cst);
}

}  // namespace

TEST_SUITE("table check") {
    TEST_CASE("a fresh domain is sound and empty") {
        Domain domain;
        const CheckReport report = look(domain.control());
        CHECK(report.findings_total == 0);
        CHECK(report.objects == 0);
        CHECK(report.slots == 0);
        CHECK(report.pins == 0);
        CHECK(report.regions == 0);
        CHECK(report.clients == 1);  // the daemon
    }

    TEST_CASE("a domain in use is sound, and counted") {
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.put_and_hold("a", "value");
        REQUIRE(engine.put("b", "value") == Code::ok);
        engine.alloc();
        const View view = engine.hold("b");
        const View removed = engine.hold("a");
        REQUIRE(engine.remove("a") == DeleteResult::deleted);
        const CheckReport report = check(domain.control(), 0);
        CHECK_MESSAGE(report.findings_total == 0, describe(report));
        CHECK(report.objects == 1);
        CHECK(report.slots == 1);
        CHECK(report.pins == 4);
        CHECK(report.clients == 2);
        CHECK(report.regions == 1);
        CHECK(report.pages[static_cast<int>(Phase::published)] == 1);
        CHECK(report.pages[static_cast<int>(Phase::reserved)] == 1);
        CHECK(report.pages[static_cast<int>(Phase::retired)] == 1);
        CHECK(report.pages[static_cast<int>(Phase::free)] == 5);
        engine.worker.release(view.token);
        engine.worker.release(removed.token);
        engine.worker.free(page);
    }

    TEST_CASE("undecided states of living clients are no findings") {
        Domain domain;
        Client& engine = domain.client();
        const Page one = engine.put_and_hold("a", "value");
        const Page two = engine.put_and_hold("b", "value");
        const Page three = engine.put_and_hold("c", "value");
        domain.set_phase(one.record, Phase::retiring_evict, engine.identity.owner());
        domain.set_phase(two.record, Phase::retiring_delete, engine.identity.owner());
        domain.set_phase(three.record, Phase::publishing, engine.identity.owner());
        Word64* slot = domain.slots_of(three.record).at(0);
        slot->fetch_or(slot::Tentative::put(1), shm::seq_cst);
        CHECK(look(domain.control()).findings_total == 0);
        domain.bury(engine);
    }

    TEST_CASE("a quarantined client's things are no findings") {
        Domain domain;
        Client& engine = domain.client();
        engine.alloc();
        engine.put_and_hold("k", "value");
        sweep_gone(domain.daemon(), engine.identity);
        CHECK(look(domain.control()).findings_total == 0);
    }

    TEST_CASE("a slot of a retired page is stale, and no finding") {
        // What somebody leaves who stops between RETIRED and the clearing of the slot.
        Domain domain;
        Client& engine = domain.client();
        const Page page = engine.put_and_hold("k", "value");
        domain.set_phase(page.record, Phase::retired);
        REQUIRE(domain.slots_of(page.record).size() == 1);
        const CheckReport report = look(domain.control());
        CHECK_MESSAGE(report.findings_total == 0, describe(report));
        engine.worker.free(page);
    }

    TEST_CASE("what only one of two looks saw is no finding") {
        Damaged given;
        given.slot().fetch_or(slot::Tentative::put(1), shm::seq_cst);
        CHECK(look(given.control()).findings_total > 0);
        given.slot().fetch_and(~slot::Tentative::put(1), shm::seq_cst);
        CHECK(check(given.control(), 0).findings_total == 0);
    }

    TEST_CASE("findings beyond the most that are kept are counted") {
        Domain domain;
        domain.expect_damage();
        for (std::uint64_t b = 0; b < domain.control().bucket_count(); ++b)
            for (Word64& word : domain.control().bucket(b).slots)
                word.store(~0ull >> 1, shm::relaxed);
        const CheckReport report = look(domain.control());
        CHECK(report.findings.size() == findings_max);
        CHECK(report.findings_total >= domain.control().bucket_count() * slots_per_bucket);
        CHECK(check(domain.control(), 0).findings_total > 0);
    }

    // -- records

    TEST_CASE("a record in a phase that does not exist") {
        Damaged given;
        put_state(given, state_word(static_cast<Phase>(13), given.page.generation));
        expect(given, "record in a phase that does not exist");
    }
    TEST_CASE("a page that is reserved by a client that does not exist") {
        Damaged given;
        given.control()
            .record(given.reserved.record)
            .state.store(state_word(Phase::reserved, given.reserved.generation, Owner::of(15, 9)),
                         shm::seq_cst);
        expect(given, "page held by a client that does not exist");
    }
    TEST_CASE("a page that is reserved by nobody") {
        Damaged given;
        given.control()
            .record(given.reserved.record)
            .state.store(state_word(Phase::reserved, given.reserved.generation), shm::seq_cst);
        expect(given, "page held by a client that does not exist");
    }
    TEST_CASE("a page that is retired by an earlier generation of a client") {
        Damaged given;
        const Identity before{given.engine.identity.slot, given.engine.identity.generation + 3};
        given.domain.set_phase(given.page.record, Phase::retiring_evict, before.owner());
        expect(given, "page held by a client that does not exist");
    }
    TEST_CASE("an object without a slot") {
        Damaged given;
        given.slot().store(0, shm::seq_cst);
        expect(given, "object has no slot in the index");
    }
    TEST_CASE("a page in use that belongs to no region") {
        Damaged given;
        const std::uint32_t last = given.control().record_count() - 1;
        given.control().record(last).state.store(state_word(Phase::free, 1), shm::seq_cst);
        expect(given, "page in use belongs to no region");
    }
    TEST_CASE("record 0 in use") {
        Damaged given;
        given.control().record(0).state.store(state_word(Phase::published, 1), shm::seq_cst);
        expect(given, "record that is never used");
    }
    TEST_CASE("a record that names another page than its region does") {
        Damaged given;
        SUBCASE("index") {
            given.record().page_index.store(5, shm::relaxed);
        }
        SUBCASE("region") {
            given.record().region.store(given.other.regions[0], shm::relaxed);
        }
        expect(given, "record names another page");
    }
    TEST_CASE("a page outside every pool") {
        Damaged given;
        given.record().page_4k.store(0x7fffffff, shm::relaxed);
        expect(given, "page lies outside every pool");
    }
    TEST_CASE("a value that is longer than its page") {
        Damaged given;
        given.record().length.store(256 * KiB + 1, shm::relaxed);
        expect(given, "value is longer than its page");
    }
    TEST_CASE("a key of an impossible length") {
        Damaged given;
        SUBCASE("none") {
            given.record().key_length.store(0, shm::relaxed);
        }
        SUBCASE("too long") {
            given.record().key_length.store(4097, shm::relaxed);
        }
        expect(given, "key of an impossible length");
    }

    // -- index

    TEST_CASE("a slot that names no live record") {
        Damaged given;
        SUBCASE("an older generation") {
            given.empty_slot().store(slot::pack(false, slot::tag(given.slot().load(shm::relaxed)),
                                                given.page.generation - 1, given.page.record),
                                     shm::seq_cst);
        }
        SUBCASE("a reserved page") {
            given.empty_slot().store(slot::pack(false, 1, given.reserved.generation, given.reserved.record),
                                     shm::seq_cst);
        }
        expect(given, "slot names no live record");
    }
    TEST_CASE("a slot that names a record that does not exist") {
        Damaged given;
        SUBCASE("record 0") {
            given.empty_slot().store(slot::pack(false, 1, 1, 0), shm::seq_cst);
        }
        SUBCASE("beyond the table") {
            given.empty_slot().store(slot::pack(false, 1, 1, given.control().record_count()), shm::seq_cst);
        }
        expect(given, "slot names a record that does not exist");
    }
    TEST_CASE("two slots for one record") {
        Damaged given;
        given.empty_slot().store(given.slot().load(shm::relaxed), shm::seq_cst);
        expect(given, "two slots name one record");
    }
    TEST_CASE("a tentative slot that nobody will finish") {
        Damaged given;
        SUBCASE("of a published record") {
            given.slot().fetch_or(slot::Tentative::put(1), shm::seq_cst);
        }
        SUBCASE("of a dead writer") {
            given.slot().fetch_or(slot::Tentative::put(1), shm::seq_cst);
            given.domain.set_phase(given.page.record, Phase::publishing, Owner::of(15, 3));
        }
        expect(given, "tentative slot that nobody will finish");
    }
    TEST_CASE("a slot with another tag than its key") {
        Damaged given;
        given.slot().store(given.slot().load(shm::relaxed) ^ slot::Tag::put(1), shm::seq_cst);
        expect(given, "slot has another tag than its key");
    }
    TEST_CASE("a slot in a chain that its key does not reach") {
        Damaged given;
        const std::uint64_t word = given.slot().load(shm::relaxed);
        const std::uint64_t home = given.control().home_of(given.engine.key("k").low);
        given.slot().store(0, shm::seq_cst);
        given.control()
            .bucket((home + 1) % given.control().bucket_count())
            .slots[6]
            .store(word, shm::seq_cst);
        expect(given, "slot lies in a chain that its key does not reach");
    }
    TEST_CASE("a key that stands twice") {
        Damaged given;
        // Given a second record made a copy of the first
        const View second = given.engine.hold("second");
        Word64* slot = given.domain.slots_of(second.record).at(0);
        PageRecord& copy = given.control().record(second.record);
        const PageRecord& original = given.record();
        copy.hash_low.store(original.hash_low.load(shm::relaxed), shm::relaxed);
        copy.hash_high.store(original.hash_high.load(shm::relaxed), shm::relaxed);
        copy.key_length.store(original.key_length.load(shm::relaxed), shm::relaxed);
        copy.key[0].store(original.key[0].load(shm::relaxed), shm::relaxed);
        slot->store(0, shm::seq_cst);
        given.empty_slot().store(
            slot::pack(false, slot::tag(given.slot().load(shm::relaxed)), second.generation, second.record),
            shm::seq_cst);
        expect(given, "key stands twice");
    }
    TEST_CASE("a link to an overflow bucket that does not exist") {
        Damaged given;
        given.control().bucket(7).link.store(given.control().overflow_count() + 1, shm::seq_cst);
        expect(given, "link to an overflow bucket that does not exist");
    }
    TEST_CASE("an overflow bucket that is linked twice") {
        Damaged given;
        given.control().overflow_claim(3).store(overflow_claim::linked, shm::seq_cst);
        given.control().bucket(7).link.store(4, shm::seq_cst);
        given.control().bucket(8).link.store(4, shm::seq_cst);
        expect(given, "overflow bucket linked twice");
    }
    TEST_CASE("an overflow bucket and its claim disagree") {
        Damaged given;
        SUBCASE("linked, no claim") {
            given.control().bucket(7).link.store(4, shm::seq_cst);
        }
        SUBCASE("claim, not linked") {
            given.control().overflow_claim(3).store(overflow_claim::linked, shm::seq_cst);
        }
        SUBCASE("a claim that is neither") {
            given.control().overflow_claim(3).store(12345, shm::seq_cst);
        }
        expect(given, "overflow bucket and its claim disagree");
    }
    TEST_CASE("an overflow bucket that a client claims who does not exist") {
        Damaged given;
        given.control().overflow_claim(3).store(overflow_claim::pack(Owner::of(15, 3), 7), shm::seq_cst);
        expect(given, "overflow bucket claimed by a client that does not exist");
    }

    // -- regions

    TEST_CASE("a region in a phase that does not exist") {
        Damaged given;
        given.region().state.store(RegionState{static_cast<RegionPhase>(9), {}, 1}.pack(), shm::seq_cst);
        expect(given, "region in a phase that does not exist");
    }
    TEST_CASE("a region outside its tables") {
        Damaged given;
        SUBCASE("first record") {
            given.region().first_record.store(0xfffffff0, shm::relaxed);
        }
        SUBCASE("pages") {
            given.region().page_count.store(0xffffffff, shm::relaxed);
        }
        SUBCASE("units") {
            given.region().unit_count.store(0xffffffff, shm::relaxed);
        }
        expect(given, "region lies outside its tables");
    }
    TEST_CASE("a region that a client holds who does not exist") {
        Damaged given;
        given.region().holder.store(holder::pack(15, 3), shm::relaxed);
        expect(given, "region held by a client that does not exist");
    }
    TEST_CASE("a region whose pages do not fit into it") {
        Damaged given;
        SUBCASE("too large") {
            given.region().page_4k.store(65, shm::relaxed);
        }
        SUBCASE("none") {
            given.region().page_count.store(0, shm::relaxed);
        }
        SUBCASE("of nothing") {
            given.region().page_4k.store(0, shm::relaxed);
        }
        expect(given, "pages of a region do not fit into it");
    }
    TEST_CASE("a record that belongs to two regions") {
        Damaged given;
        given.control()
            .region(given.other.regions[0])
            .first_record.store(given.region().first_record.load(shm::relaxed), shm::relaxed);
        expect(given, "record belongs to two regions");
    }
    TEST_CASE("a region between two phases whose owner is gone") {
        for (const RegionPhase phase :
             {RegionPhase::formatting, RegionPhase::draining, RegionPhase::sealing}) {
            Damaged given;
            const RegionState before = RegionState::unpack(given.region().state.load(shm::relaxed));
            given.region().state.store(RegionState{phase, Owner::of(15, 3), before.epoch + 1}.pack(),
                                       shm::seq_cst);
            expect(given, "region between two phases");
        }
    }
    TEST_CASE("a unit that is part of no region") {
        Damaged given;
        const std::uint32_t last = given.control().region_count() - 1;
        given.control().region(last).state.store(RegionState{RegionPhase::part, {}, 1}.pack(), shm::seq_cst);
        SUBCASE("its head is free") {
            given.control().region(last).head.store(last - 1, shm::relaxed);
        }
        SUBCASE("its head does not reach it") {
            given.control().region(last).head.store(given.engine.regions[0], shm::relaxed);
        }
        SUBCASE("it is its own head") {
            given.control().region(last).head.store(last, shm::relaxed);
        }
        SUBCASE("its head is beyond the table") {
            given.control().region(last).head.store(0xffffffff, shm::relaxed);
        }
        expect(given, "unit is part of no region");
    }
    TEST_CASE("records of a region without a claim") {
        Damaged given;
        given.control().granule_claim(given.page.record / records_per_granule).store(0, shm::seq_cst);
        expect(given, "records of a region without a claim");
    }
    TEST_CASE("records claimed for a region that does not have them") {
        Damaged given;
        Word64& claim = given.control().granule_claim(given.control().granule_count() - 1);
        SUBCASE("a free region") {
            claim.store(granule_claim::pack(5, 1, {}), shm::seq_cst);
        }
        SUBCASE("another's records") {
            claim.store(granule_claim::pack(given.engine.regions[0], 1, {}), shm::seq_cst);
        }
        SUBCASE("no region") {
            claim.store(granule_claim::pack(0xffffffff, 1, {}), shm::seq_cst);
        }
        expect(given, "records claimed for a region that does not have them");
    }

    // -- clients and pins

    TEST_CASE("a client slot in a phase that does not exist") {
        Damaged given;
        given.control().client(9).state.store(client_state::pack(static_cast<ClientPhase>(11), 1),
                                              shm::seq_cst);
        expect(given, "client slot in a phase that does not exist");
    }
    TEST_CASE("a pin chunk of a client that does not exist") {
        Damaged given;
        given.control().chunk(40).owner.store(holder::pack(15, 3), shm::seq_cst);
        expect(given, "pin chunk of a client that does not exist");
    }
    TEST_CASE("a pin chunk in use above the high-water mark") {
        Damaged given;
        given.control().super().pin_high_water.store(0, shm::seq_cst);
        expect(given, "pin chunk in use above the high-water mark");
    }
    TEST_CASE("a pin of nobody") {
        Damaged given;
        given.control().chunk(40).pins[3].store(pin::pack(PinKind::lease, 1, 1, 1, given.page.record),
                                                shm::seq_cst);
        expect(given, "pin of nobody");
    }
    TEST_CASE("a pin of a record that does not exist") {
        Damaged given;
        PinChunk& chunk =
            given.control().chunk(static_cast<std::uint32_t>(PinToken::Chunk::get(given.page.token)));
        SUBCASE("beyond the table") {
            chunk.pins[60].store(pin::pack(PinKind::lease, 1, 1, 1, given.control().record_count()),
                                 shm::seq_cst);
        }
        SUBCASE("of no kind") {
            chunk.pins[60].store(pin::pack(PinKind::none, 1, 1, 1, given.page.record), shm::seq_cst);
        }
        expect(given, "pin names a record that does not exist");
    }
}
