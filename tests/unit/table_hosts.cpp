// Host entries: taken once, taken over, fenced when silent; and what becomes of a silent host's clients.
#include "domain_fixture.hpp"
#include "table/hosts.hpp"

using namespace maru;
using namespace maru::table;

namespace {

HostFacts machine(std::uint64_t id, std::uint64_t boot = 7) {
    return {{id, ~id}, {boot, boot + 1}, "machine-" + std::to_string(id)};
}

HostView join(const Control& control, std::uint64_t id) {
    auto view = join_host(control, machine(id));
    REQUIRE(bool(view));
    return *view;
}

/// An ACTIVE client of a host.
Identity client_of(const Control& control, std::uint32_t host, const char* name = "engine") {
    ClientFacts facts;
    facts.host = host;
    facts.instance_id = name;
    const auto identity = open_client(control, facts);
    REQUIRE(bool(identity));
    REQUIRE(activate_client(control, *identity));
    return *identity;
}

ClientPhase phase_of_client(const Control& control, Identity identity) {
    return client_state::phase(control.client(identity.slot).state.load(shm::acquire));
}

/// Publishes under a client that has no region of its own.
void put(Domain& domain, Worker& worker, const char* name, Page* page) {
    const Key key = domain.control().key(0, name);
    REQUIRE(worker.alloc_anywhere({page_of_256k, 0}, page) == Code::ok);
    std::memcpy(domain.bytes_of(page->location), "value", 5);
    REQUIRE(worker.publish(key, *page, 5) == Code::ok);
}

}  // namespace

TEST_SUITE("table hosts") {
    TEST_CASE("a host reads back as it joined; another one gets another entry") {
        Domain domain;
        const Control& control = domain.control();
        CHECK_FALSE(find_host(control, machine(1)));
        const HostView first = join(control, 1);
        const HostView second = join(control, 2);
        CHECK(first.number != second.number);
        const auto read = read_host(control, first.number);
        REQUIRE(read);
        CHECK(read->phase == HostPhase::active);
        CHECK(read->generation == first.generation);
        CHECK(read->facts.name == "machine-1");
        CHECK(read->facts.same_id(machine(1)));
        CHECK(read->facts.same_boot(machine(1)));
        CHECK_FALSE(read->facts.same_boot(machine(1, 9)));
        CHECK(find_host(control, machine(2))->number == second.number);
        CHECK(is_active(control, first));
    }

    TEST_CASE("numbers that name no host read as nothing") {
        Domain domain;
        CHECK_FALSE(read_host(domain.control(), 0));
        CHECK_FALSE(read_host(domain.control(), domain.control().host_count()));
        CHECK_FALSE(read_host(domain.control(), 0xffffffff));
        HostView wrong;
        wrong.number = 0xffffffff;
        CHECK_FALSE(is_active(domain.control(), wrong));
        CHECK_FALSE(fence_host(domain.control(), wrong));
    }

    TEST_CASE("a full table names its size and the way out") {
        Domain domain;
        const Control& control = domain.control();
        for (std::uint32_t i = 0; i < control.host_count(); ++i)
            join(control, 100 + i);
        const auto refused = join_host(control, machine(999));
        REQUIRE_FALSE(bool(refused));
        CHECK(refused.error().code == Code::full);
        CHECK(refused.error().text.find(std::to_string(control.host_count())) != std::string::npos);
        CHECK(refused.error().text.find("maructl host release") != std::string::npos);
    }

    TEST_CASE("a beat counts, and entering restarts whoever watches") {
        Domain domain;
        const HostView host = join(domain.control(), 1);
        const auto before = read_host(domain.control(), host.number)->beat;
        beat(domain.control(), host);
        CHECK(read_host(domain.control(), host.number)->beat == before + 1);
        const auto again =
            take_over_host(domain.control(), *read_host(domain.control(), host.number), machine(1, 8));
        REQUIRE(bool(again));
        CHECK(read_host(domain.control(), host.number)->beat != before + 1);
        CHECK(again->generation == host.generation + 1);
        CHECK(read_host(domain.control(), host.number)->facts.same_boot(machine(1, 8)));
    }

    TEST_CASE(
        "of two that take an entry over one goes on, and the earlier daemon sees that it was replaced") {
        Domain domain;
        const Control& control = domain.control();
        const HostView host = join(control, 1);
        const auto seen = *read_host(control, host.number);
        CHECK(bool(take_over_host(control, seen, machine(1))));
        const auto late = take_over_host(control, seen, machine(1));
        REQUIRE_FALSE(bool(late));
        CHECK(late.error().code == Code::contended);
        CHECK_FALSE(is_active(control, host));
    }

    TEST_CASE("fencing needs the generation that was watched") {
        Domain domain;
        const Control& control = domain.control();
        const HostView host = join(control, 1);
        const auto back = take_over_host(control, host, machine(1));
        REQUIRE(bool(back));
        CHECK_FALSE(fence_host(control, host));
        CHECK(fence_host(control, *back));
        CHECK_FALSE(fence_host(control, *back));
        CHECK_FALSE(is_active(control, *back));
        CHECK(read_host(control, host.number)->phase == HostPhase::fenced);
    }

    TEST_CASE("a fenced host comes back under a new generation; a released one is gone") {
        Domain domain;
        const Control& control = domain.control();
        const HostView host = join(control, 1);
        CHECK_FALSE(free_host(control, host));  // it is ACTIVE
        CHECK(fence_host(control, host));
        const auto back = take_over_host(control, *read_host(control, host.number), machine(1));
        REQUIRE(bool(back));
        CHECK(is_active(control, *back));
        CHECK(leave_host(control, *back));
        CHECK(free_host(control, *back));
        CHECK_FALSE(read_host(control, host.number));
        CHECK(join(control, 5).generation > back->generation);  // never an old one again
    }

    TEST_CASE("an entry whose host died while it joined is found by nobody and freed by the watchers") {
        Domain domain;
        const Control& control = domain.control();
        const HostView host = join(control, 1);
        control.host(host.number).state.store(host_state::pack(HostPhase::joining, 9), shm::seq_cst);
        CHECK_FALSE(find_host(control, machine(1)));
        const auto joining = read_host(control, host.number);
        REQUIRE(joining);
        CHECK(joining->phase == HostPhase::joining);
        CHECK(fence_host(control, *joining));
        CHECK_FALSE(read_host(control, host.number));
    }

    TEST_CASE("a connecting client belongs to its host before its entry is filled") {
        Domain domain;
        const Control& control = domain.control();
        const Identity first = client_of(control, 2);
        REQUIRE(declare_dead(control, first));
        sweep_dead(domain.daemon(), first);
        // The next owner of the slot, stopped between the compare-and-swap and the first field.
        control.client(first.slot)
            .state.store(client_state::connecting(first.generation + 1, 5), shm::seq_cst);
        const auto view = read_client(control, first.slot);
        REQUIRE(view);
        CHECK(view->facts.host == 5);
        const Identity second{first.slot, first.generation + 1};
        quarantine_clients_of(domain.daemon(), 2);
        CHECK(phase_of_client(control, second) == ClientPhase::connecting);
        quarantine_clients_of(domain.daemon(), 5);
        CHECK_FALSE(read_client(control, first.slot));  // taken back: it held nothing
    }

    TEST_CASE("a silent host's clients are quarantined: objects stay, reservations and leases too") {
        Domain domain;
        domain.client();  // a region to take pages from
        const Control& control = domain.control();
        const Identity far = client_of(control, 3), near = client_of(control, 0);
        Worker worker(control, far);
        Page published, reserved;
        put(domain, worker, "kept", &published);
        REQUIRE(worker.alloc_anywhere({page_of_256k, 0}, &reserved) == Code::ok);

        const auto report = quarantine_clients_of(domain.daemon(), 3);
        CHECK(report.reserved == 0);
        CHECK(phase_of_client(control, far) == ClientPhase::quarantined);
        CHECK(phase_of_client(control, near) == ClientPhase::active);
        CHECK(worker.fenced());
        CHECK(domain.phase(reserved.record) == Phase::reserved);
        CHECK(domain.phase(published.record) == Phase::published);
        CHECK_FALSE(domain.pins_of(far).empty());
        CHECK(domain.reader().get("kept") == "value");
        quarantine_clients_of(domain.daemon(), 3);  // again changes nothing
        CHECK(phase_of_client(control, far) == ClientPhase::quarantined);
    }

    TEST_CASE("by an administrator's word everything of a silent host comes back") {
        Domain domain;
        domain.client();
        const Control& control = domain.control();
        const Identity far = client_of(control, 3), near = client_of(control, 0);
        Worker worker(control, far);
        Page published, reserved;
        put(domain, worker, "kept", &published);
        REQUIRE(worker.alloc_anywhere({page_of_256k, 0}, &reserved) == Code::ok);
        quarantine_clients_of(domain.daemon(), 3);

        SweepReport report;
        CHECK(sweep_clients_of(domain.daemon(), 3, &report) == 1);
        CHECK(report.reserved == 1);
        CHECK(report.leases >= 1);
        CHECK(domain.phase(reserved.record) == Phase::free);
        CHECK(domain.phase(published.record) == Phase::published);
        CHECK(domain.pins_of(far).empty());
        CHECK_FALSE(read_client(control, far.slot));
        CHECK(phase_of_client(control, near) == ClientPhase::active);
        CHECK(domain.reader().get("kept") == "value");
    }
}
