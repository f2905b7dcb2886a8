// A control region that others scribbled over: every call answers with a code, in bounded time, inside the
// tables.
#include <chrono>
#include <random>

#include "domain_fixture.hpp"
#include "scribble.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_256k{page_of_256k, 0};

/// A view must lie inside the pool or be refused; nobody may be led outside.
void use(const Domain& domain, const PageLocation& location, std::uint64_t length) {
    std::uint32_t pool = 0;
    std::uint64_t offset = 0;
    if (!domain.control().place(location, &pool, &offset)) return;
    CHECK(length <= location.page_bytes());
}

/// Every operation there is, once or a few times, by a client and by a daemon.
void everything(Domain& domain, Client& client, std::mt19937_64& random) {
    Worker& worker = client.worker;
    std::vector<std::uint64_t> tokens;
    std::vector<std::string> names;
    std::vector<Key> keys;
    for (int i = 0; i < 12; ++i)
        names.push_back("k" + std::to_string(random() % 14));
    for (const auto& name : names)
        keys.push_back(client.key(name));
    Page page;
    for (int i = 0; i < 3; ++i) {
        Code code = client.alloc_any(pages_of_256k, &page);
        if (code != Code::ok) continue;
        use(domain, page.location, 0);
        worker.publish(keys[random() % keys.size()], page, random() % (300 * KiB));
        worker.free(page);
    }
    View view;
    for (const Key& key : keys) {
        if (worker.retrieve(key, &view) != Code::ok) continue;
        use(domain, view.location, view.length);
        tokens.push_back(view.token);
    }
    std::vector<View> views(keys.size());
    std::vector<Code> codes(keys.size());
    worker.retrieve_batch(keys, views, codes);
    for (std::size_t i = 0; i < views.size(); ++i)
        if (codes[i] == Code::ok) tokens.push_back(views[i].token);
    const std::size_t matched = worker.match_prefix(keys, views.data());
    REQUIRE(matched <= keys.size());
    for (std::size_t i = 0; i < matched; ++i)
        tokens.push_back(views[i].token);
    bool present[12];
    worker.exists_batch(keys, present);
    std::uint64_t token = 0;
    std::uint32_t record = 0;
    if (worker.pin_key(keys[0], &token, &record) == Code::ok) worker.unpin(token);
    for (int i = 0; i < 3; ++i)
        worker.remove(keys[random() % keys.size()]);
    if (!tokens.empty()) worker.retire_damaged(view);
    worker.release_batch(tokens);
    worker.release(random());
    worker.unpin(random());
    worker.free(
        Page{static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random()), random(), {}});
    worker.find_reserved(static_cast<std::uint32_t>(random() % 16), static_cast<std::uint32_t>(random() % 16),
                         &page);
    worker.retry_retired();
    worker.evict(pages_of_256k, 2);
    worker.evict({0, 0}, 2);
    worker.occupancy(pages_of_256k);
    worker.fenced();

    advance_epoch(domain.control());
    count_all(domain.control());
    for (std::uint32_t slot = 0; slot < domain.control().client_count(); ++slot) {
        read_client(domain.control(), slot);
        count_client(domain.control(), {slot, 1});
    }
    for (std::uint32_t r = 0; r < domain.control().region_count(); ++r)
        if (const auto region = read_region(domain.control(), r)) count_pages(domain.control(), *region);
    look(domain.control());
}

void daemon_work(Domain& domain, Client& client, std::mt19937_64& random) {
    std::string warning;
    free_unit_bytes(domain.control());
    page_bytes_max(domain.control());
    const std::uint32_t sizes[] = {1, 64, 100, 512};
    const auto region = claim_region(domain.daemon(), {sizes[random() % 4], 0}, client.identity.holder_word(),
                                     random() % 2 == 0, &warning);
    if (region) release_region(domain.daemon(), region->number, client.identity.holder_word());
    dissolve_region(domain.daemon(), static_cast<std::uint32_t>(random() % 8), random() % 2 == 0);
    recover_regions(domain.daemon(), owner_is_dead);
    SweepReport report;
    std::uint32_t from = 0, slices = 0;
    do {
        from = sweep_records(domain.daemon(), from, 100, owner_is_dead, &report);
        REQUIRE(++slices < 1000);
    } while (from != 0);
    KeyPinExpiry expiry(domain.control());
    std::vector<std::uint64_t> expired(domain.control().client_count());
    expiry.pass(0, 1, &expired);
    expiry.pass(10, 1, &expired);
    sweep_gone(domain.daemon(), client.identity);
    declare_dead(domain.control(), client.identity);
    sweep_dead(domain.daemon(), client.identity);
    if (const auto identity = open_client(domain.control(), {})) activate_client(domain.control(), *identity);
    check(domain.control(), 0);
}

/// One domain, damaged in one table (all of them for nullptr), then used.
void round(std::uint64_t seed, const char* table_name, std::size_t words) {
    std::mt19937_64 random(seed);
    Domain domain({.records = 256, .pins = 8 * pins_per_chunk, .clients = 6});
    domain.expect_damage();
    Client& writer = domain.client();
    Client& client = domain.client(32);
    client.regions.push_back(writer.regions[0]);
    for (int i = 0; i < 6; ++i)
        REQUIRE(writer.put("k" + std::to_string(i), "value") == Code::ok);
    const auto pool = domain.control().pool(0).unit_count.load(shm::relaxed);
    REQUIRE(pool > 0);
    const View held = client.hold("k1");
    writer.alloc();

    const auto began = std::chrono::steady_clock::now();
    for (int burst = 0; burst < 3; ++burst) {
        for (const Table& table : tables_of(domain.control()))
            if (table_name == nullptr || std::strcmp(table.name, table_name) == 0)
                scribble(table, random, words);
        everything(domain, client, random);
        everything(domain, writer, random);
    }
    client.worker.release(held.token);
    daemon_work(domain, client, random);
    everything(domain, writer, random);
    const auto took = std::chrono::steady_clock::now() - began;
    CHECK(std::chrono::duration_cast<std::chrono::seconds>(took).count() < 10);
}

}  // namespace

TEST_SUITE("table damage") {
    TEST_CASE("random scribbles over one table at a time") {
        Domain sample;
        for (const Table& table : tables_of(sample.control()))
            for (std::uint64_t seed = 1; seed <= 12; ++seed) {
                CAPTURE(table.name);
                CAPTURE(seed);
                const bool small = seed % 2 == 0;
                round(seed, table.name, small ? 3 : table.bytes / 8 / 4 + 1);
            }
    }

    TEST_CASE("random scribbles over all tables") {
        for (std::uint64_t seed = 100; seed < 140; ++seed) {
            CAPTURE(seed);
            round(seed, nullptr, seed % 2 == 0 ? 5 : 200);
        }
    }

    TEST_CASE("a control region of all ones, and one of all zeros, behind an attached superblock") {
        for (const int byte : {0xff, 0x00, 0x55}) {
            CAPTURE(byte);
            std::mt19937_64 random(7);
            Domain domain({.records = 256, .pins = 8 * pins_per_chunk, .clients = 6});
            domain.expect_damage();
            Client& client = domain.client();
            REQUIRE(client.put("k1", "value") == Code::ok);
            const auto memory = domain.control_memory();
            std::memset(memory.data(), byte, memory.size());
            everything(domain, client, random);
            daemon_work(domain, client, random);
            everything(domain, client, random);
        }
    }

    TEST_CASE("a view whose record was damaged is refused, not followed outside") {
        Domain domain;
        domain.expect_damage();
        Client& engine = domain.client();
        const Page page = engine.put_and_hold("k", "value");
        PageRecord& record = domain.control().record(page.record);
        View view;
        SUBCASE("length") {
            record.length.store(~0ull, shm::relaxed);
        }
        SUBCASE("region") {
            record.region.store(0xffffffff, shm::relaxed);
        }
        SUBCASE("index") {
            record.page_index.store(0xffffffff, shm::relaxed);
        }
        SUBCASE("page size") {
            record.page_4k.store(0xffffffff, shm::relaxed);
        }
        SUBCASE("no page size") {
            record.page_4k.store(0, shm::relaxed);
        }
        const Code code = engine.worker.retrieve(engine.key("k"), &view);
        std::uint32_t pool = 0;
        std::uint64_t offset = 0;
        const bool refused = code != Code::ok || !domain.control().place(view.location, &pool, &offset);
        CHECK(refused);
        if (code != Code::ok) CHECK(domain.pins_of(engine.identity).size() == 1);  // the writer's own
    }
}
