// Pools that are added, drained and removed while a domain is in use, and what a death at each step leaves.
#include "domain_fixture.hpp"
#include "table/pools.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr std::chrono::milliseconds enough{1000};

NewPool small_pool(const Domain& domain, const std::string& name, std::uint32_t units = 4) {
    return {Uuid::random(), 3, name, "shm:" + name + ":1MiB", units * domain.control().region_unit()};
}

std::uint32_t joined(Domain& domain, const std::string& name, std::uint32_t units = 4) {
    const auto number = join_pool(domain.control(), small_pool(domain, name, units));
    INFO((number ? std::string() : number.error().text));
    REQUIRE(number);
    REQUIRE(activate_pool(domain.control(), *number));
    return *number;
}

PoolState state_of(const Domain& domain, std::uint32_t number) {
    const auto pool = read_pool(domain.control(), number);
    return pool ? pool->state : PoolState::none;
}

/// A region in this pool, HELD by nobody.
RegionView region_in(Domain& domain, std::uint32_t pool) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const auto region = claim_region(domain.daemon(), {page_of_256k, 0},
                                         domain.daemon().identity().holder_word(), false, nullptr);
        REQUIRE(region);
        if (region->pool == pool) return *region;
    }
    FAIL("no region came from the pool");
    return {};
}

void drain(Domain& domain, std::uint32_t pool, bool evict) {
    CHECK_FALSE(drain_pass(domain.daemon(), pool, 0, evict, deadline_after(enough)));
}

/// An object whose bytes nobody looks at: the fixture has memory for its first pool only.
Code store(Client& engine, const std::string& key) {
    Page page;
    const Code found = engine.worker.alloc_from(engine.regions, {page_of_256k, 0}, &page);
    if (found != Code::ok) return found;
    const Code code = engine.worker.publish(engine.key(key), page, 1);
    CHECK(engine.worker.free(page) == Code::ok);
    return code;
}

/// A client that allocates in this region, with one object there.
Client& keeper(Domain& domain, const RegionView& region) {
    Client& engine = domain.reader();
    engine.regions = {region.number};
    REQUIRE(store(engine, "kept") == Code::ok);
    return engine;
}

/// Every client says that it let go of what left.
void all_see(Domain& domain) {
    for (std::uint32_t slot = 1; slot < domain.control().client_count(); ++slot)
        domain.control().client(slot).pools_seen.store(
            domain.control().super().pools_epoch.load(shm::acquire), shm::release);
}

}  // namespace

TEST_SUITE("table pools") {
    TEST_CASE("a pool that joins gives no memory before it is active") {
        Domain domain;
        const std::uint64_t before = free_unit_bytes(domain.control());
        const auto number = join_pool(domain.control(), small_pool(domain, "more"));
        REQUIRE(number);
        CHECK(state_of(domain, *number) == PoolState::joining);
        CHECK(free_unit_bytes(domain.control()) == before);
        CHECK(find_pool(domain.control(), read_pool(domain.control(), *number)->uuid)->number == *number);
        REQUIRE(activate_pool(domain.control(), *number));
        CHECK_FALSE(activate_pool(domain.control(), *number));
        CHECK(free_unit_bytes(domain.control()) == before + 4 * domain.control().region_unit());
        undo_join(domain.control(), *number);
        CHECK(state_of(domain, *number) == PoolState::active);
    }

    TEST_CASE("what does not fit is refused, and nothing changes") {
        Domain domain;
        const auto refused = [&](const NewPool& pool) {
            const auto number = join_pool(domain.control(), pool);
            REQUIRE_FALSE(number);
            return number.error();
        };
        const auto full = refused(small_pool(domain, "large", domain.control().region_count()));
        CHECK(full.code == Code::full);
        CHECK(full.text.find("control.max_pool_bytes") != std::string::npos);
        NewPool tiny = small_pool(domain, "tiny");
        tiny.bytes = 4096;
        CHECK(refused(tiny).text.find("one unit") != std::string::npos);
        NewPool wordy = small_pool(domain, "wordy");
        wordy.source = std::string(pool_source_max + 1, 'x');
        CHECK(refused(wordy).code == Code::too_large);
        for (std::uint32_t p = 1; p < domain.control().pool_count(); ++p)
            CHECK(state_of(domain, p) == PoolState::none);
    }

    TEST_CASE("a drain seals what is free, keeps what is there, and lets nothing in") {
        Domain domain;
        const std::uint32_t pool = joined(domain, "more");
        const RegionView region = region_in(domain, pool);
        Client& engine = keeper(domain, region);
        View view;
        REQUIRE(engine.worker.retrieve(engine.key("kept"), &view) == Code::ok);
        REQUIRE(begin_drain(domain.daemon(), pool));
        CHECK(state_of(domain, pool) == PoolState::draining);
        Page page;
        CHECK(engine.worker.alloc_from(engine.regions, {page_of_256k, 0}, &page) != Code::ok);
        drain(domain, pool, false);
        CHECK(content_of(domain.control(), pool).published == 1);
        CHECK(engine.exists("kept"));
        drain(domain, pool, true);
        CHECK(engine.exists("kept"));
        const auto holders = holders_of(domain.control(), pool);
        REQUIRE(holders.size() == 1);
        CHECK(holders[0].slot == engine.identity.slot);
        CHECK_FALSE(leave_pool(domain.control(), pool, ""));
        CHECK(engine.worker.release(view.token) == Code::ok);
        drain(domain, pool, true);
        CHECK_FALSE(engine.exists("kept"));
        CHECK(content_of(domain.control(), pool).regions == 0);
        CHECK(leave_pool(domain.control(), pool, "/a/file"));
        CHECK(read_pool(domain.control(), pool)->source == "/a/file");
        finish_leaving(domain.control(), pool);
        CHECK(state_of(domain, pool) == PoolState::removed);
        CHECK(look(domain.control()).findings.empty());
    }

    TEST_CASE("units of a removed pool are another's only when every client let go of them") {
        Domain domain;
        Client& engine = domain.reader();
        const std::uint32_t room =
            domain.control().region_count() - read_pool(domain.control(), 0)->unit_count;
        const std::uint32_t pool = joined(domain, "all", room);
        REQUIRE(begin_drain(domain.daemon(), pool));
        REQUIRE(leave_pool(domain.control(), pool, ""));
        finish_leaving(domain.control(), pool);
        const auto waiting = join_pool(domain.control(), small_pool(domain, "next", 1));
        REQUIRE_FALSE(waiting);
        CHECK(waiting.error().text.find("slot:" + std::to_string(engine.identity.slot)) != std::string::npos);
        all_see(domain);
        CHECK(join_pool(domain.control(), small_pool(domain, "next", 1)));
    }

    TEST_CASE("who connects after a pool was removed keeps none of its units") {
        Domain domain;
        const std::uint32_t room =
            domain.control().region_count() - read_pool(domain.control(), 0)->unit_count;
        const std::uint32_t pool = joined(domain, "all", room);
        REQUIRE(begin_drain(domain.daemon(), pool));
        REQUIRE(leave_pool(domain.control(), pool, ""));
        finish_leaving(domain.control(), pool);
        domain.reader();
        CHECK(slots_behind(domain.control(), 1).empty());
        CHECK(join_pool(domain.control(), small_pool(domain, "next", 1)));
    }

    TEST_CASE("a client lets go of what left before it says so") {
        Domain domain;
        Client& engine = domain.reader();
        const std::uint32_t leaves = joined(domain, "leaves"), stays = joined(domain, "stays");
        std::vector<std::optional<Uuid>> mapped(stays + 1);
        for (const std::uint32_t p : {leaves, stays})
            mapped[p] = read_pool(domain.control(), p)->uuid;
        REQUIRE(begin_drain(domain.daemon(), leaves));
        REQUIRE(leave_pool(domain.control(), leaves, ""));
        std::vector<std::uint32_t> forgotten;
        const std::uint32_t slot = engine.identity.slot;
        const auto let_go = [&](bool may_say) {
            let_go_of_left(
                domain.control(), slot, mapped,
                [&](std::uint32_t number) {
                    CHECK(slots_behind(domain.control(), 1) == std::vector{slot});
                    forgotten.push_back(number);
                    return true;
                },
                [=] { return may_say; });
        };
        let_go(false);
        CHECK(forgotten == std::vector{leaves});
        CHECK(slots_behind(domain.control(), 1) == std::vector{slot});
        let_go(true);
        CHECK(slots_behind(domain.control(), 1).empty());
    }

    TEST_CASE("a pool that clients were told of is undone like one that leaves") {
        Domain domain;
        Client& engine = domain.reader();
        const auto number = join_pool(domain.control(), small_pool(domain, "more"));
        REQUIRE(number);
        const Uuid told = read_pool(domain.control(), *number)->uuid;
        std::vector<PoolView> deleted;
        const auto begun =
            take_over_pools(domain.daemon(), [&](const PoolView& pool) { deleted.push_back(pool); });
        REQUIRE(begun.size() == 1);
        CHECK(begun[0].state == PoolState::joining);
        REQUIRE(deleted.size() == 1);
        CHECK(deleted[0].source == "shm:more:1MiB");
        CHECK(state_of(domain, *number) == PoolState::removed);
        CHECK_FALSE(find_pool(domain.control(), told));
        CHECK_FALSE(still_there(domain.control(), *number, told));
        CHECK(slots_behind(domain.control(), 1) == std::vector{engine.identity.slot});
        CHECK(look(domain.control()).findings.empty());
        const auto other = join_pool(domain.control(), small_pool(domain, "other"));
        REQUIRE(other);
        CHECK(*other != *number);
        CHECK(read_pool(domain.control(), *other)->first_unit >
              read_pool(domain.control(), *number)->first_unit);
    }

    TEST_CASE("a drain that is called back gives the pool's pages out again") {
        Domain domain;
        const std::uint32_t pool = joined(domain, "more");
        const RegionView region = region_in(domain, pool);
        Client& engine = keeper(domain, region);
        CHECK_FALSE(cancel_drain(domain.daemon(), pool));
        CHECK_FALSE(cancel_drain(domain.daemon(), 0));
        REQUIRE(begin_drain(domain.daemon(), pool));
        drain(domain, pool, false);
        CHECK(store(engine, "refused") != Code::ok);
        REQUIRE(cancel_drain(domain.daemon(), pool));
        CHECK(state_of(domain, pool) == PoolState::active);
        CHECK(engine.exists("kept"));
        for (int i = 0; i < 7; ++i)
            CHECK(store(engine, "new" + std::to_string(i)) == Code::ok);
        CHECK(store(engine, "one too many") == Code::full);
        CHECK(count_pages(domain.control(), region).of[static_cast<int>(Phase::published)] == 8);
        CHECK_FALSE(leave_pool(domain.control(), pool, ""));
        CHECK(look(domain.control()).findings.empty());
    }

    TEST_CASE("a death while a drain is called back leaves an active pool that is opened whole") {
        Domain domain;
        const std::uint32_t pool = joined(domain, "more");
        const RegionView region = region_in(domain, pool);
        Client& engine = domain.reader();
        engine.regions = {region.number};
        Client& dead = domain.reader();
        REQUIRE(begin_drain(dead.worker, pool));
        drain_pass(dead.worker, pool, 0, false, deadline_after(std::chrono::seconds(0)));
        domain.control().pool(pool).state.store(static_cast<std::uint32_t>(PoolState::active), shm::release);
        domain.bury(dead);
        recover_regions(domain.daemon(), owner_is_dead);
        CHECK(take_over_pools(domain.daemon(), [](const PoolView&) {}).empty());
        CHECK(read_region(domain.control(), region.number)->phase == RegionPhase::held);
        CHECK(store(engine, "new") == Code::ok);
    }

    TEST_CASE("a successor keeps the regions of a draining pool out of use") {
        Domain domain;
        const std::uint32_t pool = joined(domain, "more");
        const RegionView region = region_in(domain, pool);
        Client& engine = keeper(domain, region);
        Client& dead = domain.reader();
        {
            REQUIRE(begin_drain(dead.worker, pool));
            CHECK(
                RegionState::unpack(domain.control().region(region.number).state.load(shm::acquire)).phase ==
                RegionPhase::draining);
        }
        domain.bury(dead);
        recover_regions(domain.daemon(), owner_is_dead);
        const auto state =
            RegionState::unpack(domain.control().region(region.number).state.load(shm::acquire));
        CHECK(state.phase == RegionPhase::draining);
        CHECK(state.owner == domain.daemon().identity().owner());
        CHECK(engine.exists("kept"));
        REQUIRE(begin_drain(domain.daemon(), pool));
        drain(domain, pool, true);
        CHECK(content_of(domain.control(), pool).regions == 0);
    }

    TEST_CASE("a death between the state and its epoch is finished by doing it again") {
        Domain domain;
        const std::uint32_t pool = joined(domain, "more");
        REQUIRE(begin_drain(domain.daemon(), pool));
        auto& entry = domain.control().pool(pool);
        entry.state.store(static_cast<std::uint32_t>(PoolState::leaving), shm::release);
        CHECK(leave_pool(domain.control(), pool, ""));
        CHECK(entry.left_epoch.load(shm::relaxed) == 1);
        CHECK(domain.control().super().pools_epoch.load(shm::relaxed) == 1);
        CHECK(leave_pool(domain.control(), pool, ""));
        CHECK(domain.control().super().pools_epoch.load(shm::relaxed) == 1);
    }
}
