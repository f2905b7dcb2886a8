// Client slots: given out once, fenced when doubted, reused only after a sweep.
#include <set>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {
ClientFacts facts_of(const std::string& name) {
    ClientFacts facts;
    facts.host = 1;
    facts.pid = 4711;
    facts.uid = 1000;
    facts.gid = 1001;
    facts.pid_namespace = 4026531836;
    facts.start_time = 987654321;
    facts.exec_stamp = 5;
    facts.random = 0xfeedface;
    facts.instance_id = name;
    return facts;
}
}  // namespace

TEST_SUITE("table clients") {
    TEST_CASE("a client reads back as it was told, through its phases") {
        Domain domain;
        const Control& control = domain.control();
        const auto identity = open_client(control, facts_of("decode-0"));
        REQUIRE(bool(identity));
        CHECK(identity->slot != 0);
        auto view = read_client(control, identity->slot);
        REQUIRE(view);
        CHECK(view->phase == ClientPhase::connecting);
        CHECK(view->identity.slot == identity->slot);
        CHECK(view->identity.generation == identity->generation);
        CHECK(view->facts.instance_id == "decode-0");
        CHECK(view->facts.pid == 4711);
        CHECK(view->facts.uid == 1000);
        CHECK(view->facts.gid == 1001);
        CHECK(view->facts.pid_namespace == 4026531836);
        CHECK(view->facts.start_time == 987654321);
        CHECK(view->facts.exec_stamp == 5);
        CHECK(view->facts.random == 0xfeedface);
        CHECK_FALSE(view->facts.is_daemon);

        CHECK(activate_client(control, *identity));
        CHECK(read_client(control, identity->slot)->phase == ClientPhase::active);
        CHECK_FALSE(activate_client(control, *identity));  // once
        CHECK(declare_dead(control, *identity));
        CHECK(read_client(control, identity->slot)->phase == ClientPhase::dead);
        sweep_dead(domain.daemon(), *identity);
        CHECK_FALSE(read_client(control, identity->slot));
    }

    TEST_CASE("slots that name nobody read as nothing") {
        Domain domain;
        CHECK_FALSE(read_client(domain.control(), 0));
        CHECK_FALSE(read_client(domain.control(), domain.control().client_count()));
        CHECK_FALSE(read_client(domain.control(), 0xffffffff));
        CHECK_FALSE(read_client(domain.control(), domain.control().client_count() - 1));
    }

    TEST_CASE("a name longer than its field is cut, not spilled") {
        Domain domain;
        const auto identity = open_client(domain.control(), facts_of(std::string(1000, 'n')));
        REQUIRE(bool(identity));
        const auto view = read_client(domain.control(), identity->slot);
        REQUIRE(view);
        CHECK(view->facts.instance_id.size() >= 127);
        CHECK(view->facts.instance_id.size() <= 128);
        CHECK(view->facts.pid == 4711);
    }

    TEST_CASE("slots run out: full, with both numbers; and come back after a sweep") {
        Domain domain({.clients = 5});
        const Control& control = domain.control();
        std::vector<Identity> open;
        std::set<std::uint32_t> slots = {domain.daemon().identity().slot};
        for (;;) {
            const auto identity = open_client(control, facts_of("many"));
            if (!identity) {
                CHECK(identity.error().code == Code::full);
                CHECK(identity.error().text.find('5') != std::string::npos);
                break;
            }
            REQUIRE(open.size() < 100);
            CHECK(slots.insert(identity->slot).second);
            open.push_back(*identity);
        }
        CHECK(open.size() == 4);  // and the daemon
        REQUIRE(declare_dead(control, open[1]));
        CHECK_FALSE(bool(open_client(control, facts_of("too early"))));  // dead, not yet swept
        sweep_dead(domain.daemon(), open[1]);
        const auto next = open_client(control, facts_of("next"));
        REQUIRE(bool(next));
        CHECK(next->slot == open[1].slot);
        CHECK(next->generation != open[1].generation);
    }

    TEST_CASE("an identity of an earlier generation can do nothing to the slot") {
        Domain domain({.clients = 2});
        const Control& control = domain.control();
        const auto first = open_client(control, facts_of("first"));
        REQUIRE(bool(first));
        REQUIRE(declare_dead(control, *first));
        sweep_dead(domain.daemon(), *first);
        const auto second = open_client(control, facts_of("second"));
        REQUIRE(bool(second));
        REQUIRE(second->slot == first->slot);
        CHECK_FALSE(activate_client(control, *first));
        CHECK(activate_client(control, *second));
        CHECK_FALSE(quarantine_client(control, *first));
        CHECK_FALSE(declare_dead(control, *first));
        sweep_dead(domain.daemon(), *first);  // a late sweeper
        sweep_gone(domain.daemon(), *first);
        CHECK(read_client(control, second->slot)->phase == ClientPhase::active);
        CHECK(read_client(control, second->slot)->facts.instance_id == "second");
    }

    TEST_CASE("a slot that was taken back before it was activated is refused") {
        Domain domain;
        const auto identity = open_client(domain.control(), facts_of("slow"));
        REQUIRE(bool(identity));
        REQUIRE(declare_dead(domain.control(), *identity));
        CHECK_FALSE(activate_client(domain.control(), *identity));
        sweep_dead(domain.daemon(), *identity);
        CHECK_FALSE(activate_client(domain.control(), *identity));
    }

    TEST_CASE("a quarantined client is fenced, an active one is not") {
        Domain domain;
        Client& engine = domain.client();
        CHECK_FALSE(engine.worker.fenced());
        CHECK(quarantine_client(domain.control(), engine.identity));
        CHECK(engine.worker.fenced());
        CHECK(read_client(domain.control(), engine.identity.slot)->phase == ClientPhase::quarantined);
        CHECK_FALSE(activate_client(domain.control(), engine.identity));
        CHECK_FALSE(quarantine_client(domain.control(), engine.identity));
        // its slot is not given to anybody
        for (int i = 0; i < 3; ++i)
            CHECK(domain.reader().identity.slot != engine.identity.slot);
        CHECK(declare_dead(domain.control(), engine.identity));
        CHECK(engine.worker.fenced());
    }

    TEST_CASE("a client that has connected but is not active yet, and one that is dead, are fenced") {
        Domain domain;
        const auto identity = open_client(domain.control(), facts_of("x"));
        REQUIRE(bool(identity));
        Worker worker(domain.control(), *identity);
        REQUIRE(activate_client(domain.control(), *identity));
        CHECK_FALSE(worker.fenced());
        REQUIRE(declare_dead(domain.control(), *identity));
        CHECK(worker.fenced());
        sweep_dead(domain.daemon(), *identity);
        CHECK(worker.fenced());
    }

    TEST_CASE("whether an owner is dead: by slot and generation") {
        Domain domain;
        Client& engine = domain.reader();
        const Control& control = domain.control();
        const Owner owner = engine.identity.owner();
        CHECK_FALSE(owner_is_dead(control, owner));
        CHECK(owner_is_dead(control, Owner::of(engine.identity.slot, engine.identity.generation + 1)));
        CHECK(owner_is_dead(control, Owner::of(control.client_count() - 1, 3)));
        quarantine_client(control, engine.identity);
        CHECK_FALSE(owner_is_dead(control, owner));  // gone is not dead
        declare_dead(control, engine.identity);
        CHECK(owner_is_dead(control, owner));
        sweep_dead(domain.daemon(), engine.identity);
        CHECK(owner_is_dead(control, owner));
    }

    TEST_CASE("what was counted stays counted when the client goes") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("k", "value") == Code::ok);
        engine.get("k");
        domain.bury(engine);
        const Counts all = count_all(domain.control());
        CHECK(all.of[static_cast<int>(Counter::stores)] == 1);
        CHECK(all.of[static_cast<int>(Counter::hits)] == 1);
    }

    TEST_CASE("the next client in a slot starts counting from nothing") {
        Domain domain({.clients = 2});
        Client& first = domain.client();
        REQUIRE(first.put("k", "value") == Code::ok);
        domain.bury(first);
        Client& second = domain.reader();
        REQUIRE(second.identity.slot == first.identity.slot);
        CHECK(count_client(domain.control(), second.identity).of[static_cast<int>(Counter::stores)] == 0);
        CHECK(count_all(domain.control()).of[static_cast<int>(Counter::stores)] == 1);
    }
}
