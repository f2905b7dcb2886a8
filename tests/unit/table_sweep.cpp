// What a death leaves, and that a sweep brings all of it back: once, twice, by two sweepers, late.
#include <set>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_256k{page_of_256k, 0};

/// One client that will die, one that lives.
struct Death {
    Death() : engine(domain.client()), victim(domain.reader()) {}

    /// A page that the victim reserved and announced.
    Page reserved() {
        Page page;
        REQUIRE(victim.worker.alloc_anywhere(pages_of_256k, &page) == Code::ok);
        return page;
    }
    Page published(const std::string& key) {
        Page page = reserved();
        std::memcpy(domain.bytes_of(page.location), "value", 5);
        REQUIRE(victim.worker.publish(victim.key(key), page, 5) == Code::ok);
        return page;
    }
    /// Everything the victim had is back; its slot serves the next.
    void nothing_left() {
        const Control& control = domain.control();
        CHECK(domain.pins_of(victim.identity).empty());
        for (std::uint32_t c = 0; c < control.chunk_count(); ++c)
            CHECK(control.chunk(c).owner.load(shm::relaxed) != victim.identity.holder_word());
        for (std::uint32_t r = 1; r < control.record_count(); ++r)
            if (const State state = domain.state(r); state.phase != Phase::published)
                CHECK_FALSE(state.owner == victim.identity.owner());
        for (std::uint32_t o = 0; o < control.overflow_count(); ++o) {
            const auto claim = control.overflow_claim(o).load(shm::relaxed);
            if (overflow_claim::in_progress(claim))
                CHECK(overflow_claim::owner(claim) != victim.identity.owner());
        }
        for (std::uint32_t r = 0; r < control.region_count(); ++r)
            CHECK(control.region(r).holder.load(shm::relaxed) != victim.identity.holder_word());
        CHECK_FALSE(read_client(control, victim.identity.slot));
    }

    Domain domain;
    Client& engine;
    Client& victim;
};

/// Makes a published page look as if its writer had stopped before (tentative) or after (final) the commit.
void stop_in_publishing(Domain& domain, const Page& page, Owner owner, bool tentative) {
    Word64* slot = domain.slots_of(page.record).at(0);
    if (tentative) slot->store(slot->load(shm::relaxed) | slot::Tentative::put(1), shm::seq_cst);
    domain.set_phase(page.record, Phase::publishing, owner);
}

std::vector<std::uint64_t> snapshot(const Domain& domain) {
    const auto memory = domain.control_memory().first(domain.control().control_bytes());
    std::vector<std::uint64_t> words(memory.size() / 8);
    std::memcpy(words.data(), memory.data(), words.size() * 8);
    return words;
}

}  // namespace

TEST_SUITE("table sweep") {
    TEST_CASE("a client that did nothing leaves nothing") {
        Death given;
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.reserved == 0);
        CHECK(report.chunks == 0);
        given.nothing_left();
    }

    TEST_CASE("RESERVED pages come back in a new generation") {
        Death given;
        const Page one = given.reserved(), two = given.reserved();
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.reserved == 2);
        CHECK(report.chunks == 1);
        for (const Page& page : {one, two}) {
            CHECK(given.domain.phase(page.record) == Phase::free);
            CHECK(given.domain.state(page.record).generation > page.generation);
        }
        given.nothing_left();
        for (int i = 0; i < 8; ++i)
            given.engine.alloc();  // found by their hints
    }

    TEST_CASE("PUBLISHING without a final slot is thrown away, with its slot") {
        Death given;
        const Page page = given.published("k");
        stop_in_publishing(given.domain, page, given.victim.identity.owner(), true);
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.publishing_tentative == 1);
        CHECK(report.publishing_final == 0);
        CHECK(given.domain.phase(page.record) == Phase::free);
        CHECK(given.domain.slots_of(page.record).empty());
        CHECK_FALSE(given.engine.exists("k"));
        CHECK(given.engine.put("k", "other") == Code::ok);
        given.nothing_left();
    }

    TEST_CASE("PUBLISHING before any slot was placed") {
        Death given;
        const Page page = given.reserved();
        given.domain.set_phase(page.record, Phase::publishing, given.victim.identity.owner());
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.publishing_tentative == 1);
        CHECK(given.domain.phase(page.record) == Phase::free);
        given.nothing_left();
    }

    TEST_CASE("PUBLISHING with a final slot is completed: the object stays") {
        Death given;
        const Page page = given.published("k");
        stop_in_publishing(given.domain, page, given.victim.identity.owner(), false);
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.publishing_final == 1);
        CHECK(given.domain.phase(page.record) == Phase::published);
        CHECK(given.engine.get("k") == "value");
        given.nothing_left();
    }

    TEST_CASE("published objects outlive their writer") {
        Death given;
        const Page held = given.published("held");
        const Page dropped = given.published("dropped");
        REQUIRE(given.victim.worker.free(dropped) == Code::ok);
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.leases == 1);
        CHECK(given.engine.get("held") == "value");
        CHECK(given.engine.get("dropped") == "value");
        CHECK_FALSE(is_pinned(given.domain.control(), held.record, held.generation, false));
        CHECK(given.engine.worker.evict(pages_of_256k, 8) == 2);
        given.nothing_left();
    }

    TEST_CASE("RETIRING of a dead retirer goes back to PUBLISHED") {
        for (const Phase phase : {Phase::retiring_evict, Phase::retiring_delete}) {
            CAPTURE(name_of(phase));
            Death given;
            REQUIRE(given.engine.put("k", "value") == Code::ok);
            const View view = given.engine.hold("k");
            given.engine.worker.release(view.token);
            given.victim.announce_own(view.record);
            given.domain.set_phase(view.record, phase, given.victim.identity.owner());
            const SweepReport report = given.domain.bury(given.victim);
            CHECK(report.retiring == 1);
            CHECK(given.domain.phase(view.record) == Phase::published);
            CHECK(given.engine.get("k") == "value");
            given.nothing_left();
        }
    }

    TEST_CASE("RETIRED is finished; under a reader's lease it waits for that") {
        for (const bool read : {false, true}) {
            CAPTURE(read);
            Death given;
            REQUIRE(given.engine.put("k", "value") == Code::ok);
            const View view = given.engine.hold("k");
            if (!read) given.engine.worker.release(view.token);
            given.victim.announce_own(view.record);
            given.domain.set_phase(view.record, Phase::retired);
            const SweepReport report = given.domain.bury(given.victim);
            CHECK(report.retired == (read ? 0 : 1));
            CHECK(given.domain.phase(view.record) == (read ? Phase::retired : Phase::free));
            CHECK(given.domain.slots_of(view.record).empty());
            given.nothing_left();
            if (!read) continue;
            CHECK(given.domain.text_of(view) == "value");
            given.engine.worker.release(view.token);
            SweepReport full;
            for (std::uint32_t from = 0;;) {
                from = sweep_records(given.domain.daemon(), from, 100, owner_is_dead, &full);
                if (from == 0) break;
            }
            CHECK(full.retired == 1);
            CHECK(given.domain.phase(view.record) == Phase::free);
        }
    }

    TEST_CASE("a page that waited for the dead reader's lease comes back with it") {
        Death given;
        REQUIRE(given.engine.put("k", "value") == Code::ok);
        const View view = given.victim.hold("k");
        REQUIRE(given.engine.remove("k") == DeleteResult::deleted);
        CHECK(given.domain.phase(view.record) == Phase::retired);
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.leases == 1);
        CHECK(given.domain.phase(view.record) == Phase::free);
        given.nothing_left();
    }

    TEST_CASE("leases and key pins of the dead end, those of the living stay") {
        Death given;
        REQUIRE(given.engine.put("k", "value") == Code::ok);
        const View mine = given.engine.hold("k");
        given.victim.hold("k");
        std::uint64_t dead_pin = 0, my_pin = 0;
        std::uint32_t record = 0;
        REQUIRE(given.victim.worker.pin_key(given.victim.key("k"), &dead_pin, &record) == Code::ok);
        REQUIRE(given.engine.worker.pin_key(given.engine.key("k"), &my_pin, &record) == Code::ok);
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.leases == 1);
        CHECK(report.key_pins == 1);
        CHECK(is_pinned(given.domain.control(), mine.record, mine.generation, false));
        CHECK(given.engine.remove("k") == DeleteResult::pinned);
        CHECK(given.engine.worker.release(mine.token) == Code::ok);
        CHECK(given.engine.worker.unpin(my_pin));
        given.nothing_left();
    }

    TEST_CASE("a chunk that was claimed without any word goes back") {
        Death given;
        PinSlot slot;
        REQUIRE(given.victim.worker.pins().take(&slot));
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.chunks == 1);
        given.nothing_left();
    }

    TEST_CASE("several chunks of several threads go back") {
        Death given;
        REQUIRE(given.engine.put("k", "value") == Code::ok);
        for (int thread = 0; thread < 3; ++thread) {
            Client& one = given.domain.thread_of(given.victim);
            for (int i = 0; i < 70; ++i)
                one.hold("k");
        }
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.chunks == 6);
        CHECK(report.leases == 210);
        given.nothing_left();
    }

    TEST_CASE("its regions are let go: an empty one is free, one with objects is there to adopt") {
        Death given;
        given.domain.claim(given.victim);
        given.domain.claim(given.victim);
        const std::uint32_t with_object = given.victim.regions[1];
        Page page;
        REQUIRE(given.victim.worker.alloc_from({&with_object, 1}, pages_of_256k, &page) == Code::ok);
        REQUIRE(given.victim.worker.publish(given.victim.key("k"), page, 1) == Code::ok);
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.regions == 2);
        CHECK_FALSE(read_region(given.domain.control(), given.victim.regions[0]));
        REQUIRE(read_region(given.domain.control(), page.location.region));
        CHECK(read_region(given.domain.control(), page.location.region)->holder == 0);
        CHECK(given.engine.exists("k"));
        given.nothing_left();
    }

    TEST_CASE("overflow claims of the dead: what the parent's link says") {
        Death given;
        const Control& control = given.domain.control();
        control.overflow_claim(0).store(overflow_claim::pack(given.victim.identity.owner(), 1), shm::seq_cst);
        control.overflow_claim(1).store(overflow_claim::pack(given.victim.identity.owner(), 2), shm::seq_cst);
        control.bucket(2).link.store(2, shm::seq_cst);  // bucket 1 of the overflow buckets
        control.overflow_claim(2).store(overflow_claim::pack(given.engine.identity.owner(), 3), shm::seq_cst);
        const SweepReport report = given.domain.bury(given.victim);
        CHECK(report.overflow_claims == 2);
        CHECK(control.overflow_claim(0).load(shm::relaxed) == 0);
        CHECK(control.overflow_claim(1).load(shm::relaxed) == overflow_claim::linked);
        CHECK(overflow_claim::in_progress(control.overflow_claim(2).load(shm::relaxed)));  // of the living
        control.overflow_claim(2).store(0, shm::seq_cst);
        given.nothing_left();
    }

    TEST_CASE("the slot serves the next client only after the sweep") {
        Domain domain({.clients = 2});
        Client& victim = domain.reader();
        REQUIRE(declare_dead(domain.control(), victim.identity));
        CHECK_FALSE(bool(open_client(domain.control(), {})));
        sweep_dead(domain.daemon(), victim.identity);
        const auto next = open_client(domain.control(), {});
        REQUIRE(bool(next));
        CHECK(next->slot == victim.identity.slot);
        CHECK(next->generation > victim.identity.generation);
    }

    TEST_CASE("nobody is swept who is not declared dead") {
        Death given;
        const Page page = given.reserved();
        const SweepReport report = sweep_dead(given.domain.daemon(), given.victim.identity);
        CHECK(report.reserved == 0);
        CHECK(given.domain.phase(page.record) == Phase::reserved);
        CHECK(given.domain.pins_of(given.victim.identity).size() == 1);
        CHECK_FALSE(given.victim.worker.fenced());
        sweep_dead(given.domain.daemon(), Identity{});
        sweep_dead(given.domain.daemon(), Identity{0xffffffff, 1});
        sweep_gone(given.domain.daemon(), Identity{0xffffffff, 1});
    }

    TEST_CASE("a sweep that is repeated, or done by another, changes nothing more") {
        Death given;
        given.reserved();
        const Page half = given.published("half");
        stop_in_publishing(given.domain, half, given.victim.identity.owner(), true);
        const Page whole = given.published("whole");
        stop_in_publishing(given.domain, whole, given.victim.identity.owner(), false);
        given.victim.hold("whole");
        given.domain.claim(given.victim);
        Client& second = given.domain.reader();
        given.domain.bury(given.victim);
        given.nothing_left();

        const auto after = snapshot(given.domain);
        const SweepReport again = sweep_dead(given.domain.daemon(), given.victim.identity);
        const SweepReport other = sweep_dead(second.worker, given.victim.identity);
        const SweepReport gone = sweep_gone(second.worker, given.victim.identity);
        CHECK(again.reserved + again.chunks + again.leases + again.regions == 0);
        CHECK(other.reserved + other.chunks + other.leases + other.regions == 0);
        CHECK(gone.chunks + gone.key_pins + gone.regions == 0);
        CHECK(snapshot(given.domain) == after);
    }

    TEST_CASE("a sweeper that died half way: the next one goes on") {
        Death given;
        const Page one = given.reserved(), two = given.reserved();
        REQUIRE(declare_dead(given.domain.control(), given.victim.identity));
        // Given that the first sweeper gave one page back, without clearing its word
        State state = given.domain.state(one.record);
        given.domain.control()
            .record(one.record)
            .state.store(state_word(Phase::free, state.generation + 1), shm::seq_cst);
        Client& second = given.domain.reader();
        const SweepReport report = sweep_dead(second.worker, given.victim.identity);
        CHECK(report.reserved == 1);
        CHECK(given.domain.phase(two.record) == Phase::free);
        given.nothing_left();
    }

    TEST_CASE("a page that went to another client meanwhile is not touched") {
        Death given;
        const Page page = given.reserved();
        // Given that the page was freed and taken by another while the victim's own word still stands
        State state = given.domain.state(page.record);
        given.domain.control()
            .record(page.record)
            .state.store(state_word(Phase::reserved, state.generation + 1, given.engine.identity.owner()),
                         shm::seq_cst);
        given.domain.bury(given.victim);
        CHECK(given.domain.phase(page.record) == Phase::reserved);
        CHECK(given.domain.state(page.record).owner == given.engine.identity.owner());
        given.nothing_left();
    }

    TEST_CASE("a new client in the slot of a dead one is not swept with it") {
        Domain domain({.clients = 3});
        Client& engine = domain.client();
        Client& first = domain.reader();
        domain.bury(first);
        Client& second = domain.reader();
        REQUIRE(second.identity.slot == first.identity.slot);
        Page page;
        REQUIRE(second.worker.alloc_anywhere(pages_of_256k, &page) == Code::ok);
        sweep_dead(domain.daemon(), first.identity);
        sweep_gone(domain.daemon(), first.identity);
        CHECK(domain.phase(page.record) == Phase::reserved);
        CHECK_FALSE(second.worker.fenced());
        CHECK(second.worker.free(page) == Code::ok);
        CHECK(engine.put("k", "value") == Code::ok);
    }

    // -- gone, without proof

    TEST_CASE(
        "gone: RESERVED pages and leases stay, key pins end, regions are let go, the client is fenced") {
        Death given;
        REQUIRE(given.engine.put("k", "value") == Code::ok);
        const Page page = given.reserved();
        const View view = given.victim.hold("k");
        std::uint64_t token = 0;
        std::uint32_t record = 0;
        REQUIRE(given.victim.worker.pin_key(given.victim.key("k"), &token, &record) == Code::ok);
        given.domain.claim(given.victim);

        const SweepReport report = sweep_gone(given.domain.daemon(), given.victim.identity);
        CHECK(report.key_pins == 1);
        CHECK(report.reserved == 0);
        CHECK(report.leases == 0);
        CHECK(report.regions == 1);
        CHECK(given.victim.worker.fenced());
        CHECK(given.domain.phase(page.record) == Phase::reserved);
        CHECK(is_pinned(given.domain.control(), view.record, view.generation, false));
        CHECK(given.domain.text_of(view) == "value");
        CHECK_FALSE(given.victim.worker.unpin(token));
        CHECK(given.engine.remove("k") == DeleteResult::deleted);
        CHECK(given.domain.phase(view.record) == Phase::retired);  // still being read, perhaps
        CHECK(given.domain.state(page.record).owner == given.victim.identity.owner());

        // a second verdict of the same kind changes nothing
        const SweepReport again = sweep_gone(given.domain.daemon(), given.victim.identity);
        CHECK(again.key_pins == 0);
        CHECK(given.domain.phase(page.record) == Phase::reserved);

        // with proof everything comes back
        const SweepReport dead = given.domain.bury(given.victim);
        CHECK(dead.reserved == 1);
        CHECK(dead.leases == 1);
        CHECK(given.domain.phase(view.record) == Phase::free);
        given.nothing_left();
    }

    TEST_CASE("gone: committed publications are completed, open ones left to their owner") {
        Death given;
        const Page open = given.published("open");
        stop_in_publishing(given.domain, open, given.victim.identity.owner(), true);
        const Page whole = given.published("whole");
        stop_in_publishing(given.domain, whole, given.victim.identity.owner(), false);
        const SweepReport report = sweep_gone(given.domain.daemon(), given.victim.identity);
        CHECK(report.publishing_final == 1);
        CHECK(report.publishing_tentative == 0);
        CHECK(given.domain.phase(whole.record) == Phase::published);
        CHECK(given.domain.phase(open.record) == Phase::publishing);
        CHECK(given.domain.slots_of(open.record).size() == 1);
        CHECK(given.engine.get("whole") == "value");
        given.domain.bury(given.victim);
        given.nothing_left();
    }

    TEST_CASE("gone: undecided retirements are undone") {
        Death given;
        REQUIRE(given.engine.put("k", "value") == Code::ok);
        const View view = given.engine.hold("k");
        given.engine.worker.release(view.token);
        given.victim.announce_own(view.record);
        given.domain.set_phase(view.record, Phase::retiring_delete, given.victim.identity.owner());
        const SweepReport report = sweep_gone(given.domain.daemon(), given.victim.identity);
        CHECK(report.retiring == 1);
        CHECK(given.domain.phase(view.record) == Phase::published);
        CHECK(given.engine.get("k") == "value");
        given.domain.bury(given.victim);
    }

    // -- the full pass of a starting daemon

    TEST_CASE("the full pass finds pages of the dead that no word names, and leaves those of the living") {
        Death given;
        const Page lost = given.reserved();
        Page mine = given.engine.alloc();
        const Identity victim = given.victim.identity;
        given.domain.bury(given.victim);
        // Given a page whose owner is dead and has no pin words any more
        given.domain.control()
            .record(lost.record)
            .state.store(
                state_word(Phase::reserved, given.domain.state(lost.record).generation, victim.owner()),
                shm::seq_cst);
        SweepReport report;
        std::uint32_t from = 0, slices = 0;
        do {
            from = sweep_records(given.domain.daemon(), from, 64, owner_is_dead, &report);
            REQUIRE(++slices < 1000);
        } while (from != 0);
        CHECK(slices == given.domain.control().record_count() / 64);
        CHECK(report.reserved == 1);
        CHECK(given.domain.phase(lost.record) == Phase::free);
        CHECK(given.domain.phase(mine.record) == Phase::reserved);
        CHECK(given.engine.worker.free(mine) == Code::ok);
    }

    TEST_CASE("the full pass over every kind of record") {
        Death given;
        const Owner dead = Owner::of(given.victim.identity.slot, given.victim.identity.generation + 7);
        std::vector<Page> pages;
        for (int i = 0; i < 5; ++i)
            pages.push_back(given.engine.put_and_hold("k" + std::to_string(i), "value"));
        for (const Page& page : pages)
            given.engine.worker.free(page);
        given.domain.set_phase(pages[0].record, Phase::retiring_evict, dead);
        given.domain.set_phase(pages[1].record, Phase::retiring_delete, dead);
        stop_in_publishing(given.domain, pages[2], dead, false);
        stop_in_publishing(given.domain, pages[3], dead, true);
        given.domain.set_phase(pages[4].record, Phase::retired);
        SweepReport report;
        CHECK(sweep_records(given.domain.daemon(), 0, 0xffffffff, owner_is_dead, &report) == 0);
        CHECK(report.retiring == 2);
        CHECK(report.publishing_final == 1);
        CHECK(report.publishing_tentative == 1);
        CHECK(report.retired == 1);
        for (int i = 0; i < 3; ++i)
            CHECK(given.engine.get("k" + std::to_string(i)) == "value");
        CHECK_FALSE(given.engine.exists("k3"));
        CHECK_FALSE(given.engine.exists("k4"));
        CHECK(given.domain.pages_in(Phase::free) == 5);
    }

    TEST_CASE("reports add up") {
        SweepReport sum, one;
        one.reserved = 1;
        one.publishing_tentative = 2;
        one.publishing_final = 3;
        one.retiring = 4;
        one.retired = 5;
        one.leases = 6;
        one.key_pins = 7;
        one.chunks = 8;
        one.overflow_claims = 9;
        one.regions = 10;
        sum.add(one);
        sum.add(one);
        CHECK(sum.reserved == 2);
        CHECK(sum.publishing_tentative == 4);
        CHECK(sum.publishing_final == 6);
        CHECK(sum.retiring == 8);
        CHECK(sum.retired == 10);
        CHECK(sum.leases == 12);
        CHECK(sum.key_pins == 14);
        CHECK(sum.chunks == 16);
        CHECK(sum.overflow_claims == 18);
        CHECK(sum.regions == 20);
    }

    TEST_CASE("a daemon is swept by its successor like any client") {
        Death given;
        Client& successor = given.domain.reader();
        for (int i = 0; i < 3; ++i)
            REQUIRE(given.engine.put("k" + std::to_string(i), "value") == Code::ok);
        const View view = given.engine.hold("k1");
        given.engine.worker.release(view.token);
        given.victim.announce_own(view.record);
        given.domain.set_phase(view.record, Phase::retiring_evict, given.victim.identity.owner());
        REQUIRE(declare_dead(given.domain.control(), given.victim.identity));
        CHECK(sweep_dead(successor.worker, given.victim.identity).retiring == 1);
        for (int i = 0; i < 3; ++i)
            CHECK(given.engine.get("k" + std::to_string(i)) == "value");
        given.nothing_left();
    }
}
