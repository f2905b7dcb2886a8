// The index under load: many keys in one bucket, overflow chains, and their end.
#include <algorithm>
#include <set>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_4k{1, 0};

Code put(Client& engine, const std::string& key) {
    Page page;
    const Code found = engine.worker.alloc_from(engine.regions, pages_of_4k, &page);
    if (found != Code::ok) return found;
    std::memcpy(engine.domain.bytes_of(page.location), key.data(), key.size());
    const Code code = engine.worker.publish(engine.key(key), page, key.size());
    if (code != Code::ok) CHECK(engine.domain.phase(page.record) == Phase::reserved);
    CHECK(engine.worker.free(page) == Code::ok);
    return code;
}

std::uint32_t buckets_linked(const Control& control) {
    std::uint32_t linked = 0;
    for (std::uint32_t o = 0; o < control.overflow_count(); ++o)
        if (control.overflow_claim(o).load(shm::relaxed) == overflow_claim::linked) ++linked;
    return linked;
}

std::uint32_t claims_open(const Control& control) {
    std::uint32_t open = 0;
    for (std::uint32_t o = 0; o < control.overflow_count(); ++o)
        if (overflow_claim::in_progress(control.overflow_claim(o).load(shm::relaxed))) ++open;
    return open;
}

}  // namespace

namespace {
/// Without eviction a chain that cannot grow is an error; with it an object of the chain makes room.
void never_evict(Domain& domain) {
    domain.control().super().eviction.store(static_cast<std::uint64_t>(EvictionPolicy::none),
                                            maru::shm::relaxed);
}
}  // namespace

TEST_SUITE("table index") {
    TEST_CASE("keys that share a bucket grow a chain and are all found") {
        Domain domain({.records = 1024});
        Client& engine = domain.client(1);
        const auto keys = keys_of_bucket(domain.control(), 5, 100);
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);
        CHECK(buckets_linked(domain.control()) ==
              (100 - slots_per_bucket + slots_per_bucket - 1) / slots_per_bucket);
        CHECK(claims_open(domain.control()) == 0);
        for (const auto& key : keys) {
            CHECK(engine.get(key) == key);
            CHECK(put(engine, key) == Code::exists);
        }
        CHECK_FALSE(engine.exists(keys_of_bucket(domain.control(), 5, 101).back()));
    }

    TEST_CASE("deletions in the middle of a chain hide nothing, and their slots serve again") {
        Domain domain({.records = 1024});
        Client& engine = domain.client(1);
        const auto keys = keys_of_bucket(domain.control(), 5, 60);
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);
        const std::uint32_t linked = buckets_linked(domain.control());
        for (std::size_t i = 0; i < keys.size(); i += 2)
            CHECK(engine.remove(keys[i]) == DeleteResult::deleted);
        for (std::size_t i = 0; i < keys.size(); ++i)
            CHECK(engine.exists(keys[i]) == (i % 2 == 1));
        for (std::size_t i = 0; i < keys.size(); i += 2)
            REQUIRE(put(engine, keys[i]) == Code::ok);
        for (const auto& key : keys)
            CHECK(engine.get(key) == key);
        CHECK(buckets_linked(domain.control()) == linked);  // never unlinked, used again
    }

    TEST_CASE("a duplicate deep in a chain is found before a free slot in front is used") {
        Domain domain({.records = 1024});
        Client& engine = domain.client(1);
        const auto keys = keys_of_bucket(domain.control(), 9, 50);
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);
        REQUIRE(engine.remove(keys[0]) == DeleteResult::deleted);
        CHECK(put(engine, keys.back()) == Code::exists);
        REQUIRE(engine.remove(keys.back()) == DeleteResult::deleted);
        CHECK_FALSE(engine.exists(keys.back()));
    }

    TEST_CASE("eviction finds the slots of its victims in chains") {
        Domain domain({.records = 1024});
        Client& engine = domain.client(1);
        const auto keys = keys_of_bucket(domain.control(), 9, 50);
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);
        CHECK(engine.worker.evict(pages_of_4k, 50) == 50);
        for (const auto& key : keys)
            CHECK_FALSE(engine.exists(key));
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);
    }

    TEST_CASE("a chain at its end is 'index full': a code, and nothing is lost") {
        // Given one bucket that all keys want
        Domain domain({.records = 1024});
        never_evict(domain);
        Client& engine = domain.client(1);
        const auto keys = keys_of_bucket(domain.control(), 3, 505);
        std::size_t stored = 0;
        Code code = Code::ok;
        while (stored < keys.size() && (code = put(engine, keys[stored])) == Code::ok)
            ++stored;
        REQUIRE(code == Code::index_full);
        CHECK(stored >= 7 * slots_per_bucket);
        CHECK(claims_open(domain.control()) == 0);
        for (std::size_t i = 0; i < stored; ++i)
            REQUIRE(engine.get(keys[i]) == keys[i]);
        CHECK_FALSE(engine.exists(keys[stored]));
        CHECK(put(engine, keys[0]) == Code::exists);  // a duplicate needs no slot

        // When another bucket is asked, it still has room at home
        const auto elsewhere = keys_of_bucket(domain.control(), 4, slots_per_bucket);
        for (const auto& key : elsewhere)
            CHECK(put(engine, key) == Code::ok);
        // When one goes, the next fits
        CHECK(engine.remove(keys[stored / 2]) == DeleteResult::deleted);
        CHECK(put(engine, keys[stored]) == Code::ok);
        CHECK(engine.get(keys[stored]) == keys[stored]);
    }

    TEST_CASE("a chain at its end takes one more key by evicting one of its own") {
        Domain domain({.records = 1024});
        Client& engine = domain.client(1);
        const auto keys = keys_of_bucket(domain.control(), 3, 505);
        std::size_t present = 0;
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);
        for (const auto& key : keys)
            present += engine.exists(key);
        CHECK(engine.exists(keys.back()));
        CHECK(present < keys.size());
        CHECK(present >= 7 * slots_per_bucket);
    }

    TEST_CASE("a chain as long as it may be: index full, a miss stays a miss") {
        // Given more overflow buckets than one chain may have
        Domain domain({.records = 40'000});
        REQUIRE(domain.control().overflow_count() > chain_hops_max + 8);
        never_evict(domain);
        Client& engine = domain.client(1);
        const auto keys = keys_of_bucket(domain.control(), 3, 480);
        std::size_t stored = 0;
        Code code = Code::ok;
        while (stored < keys.size() && (code = put(engine, keys[stored])) == Code::ok)
            ++stored;
        REQUIRE(code == Code::index_full);
        View view;
        CHECK(engine.worker.retrieve(engine.key(keys[stored]), &view) == Code::miss);
        CHECK(engine.remove(keys[stored]) == DeleteResult::absent);
        CHECK(put(engine, keys[stored]) == Code::index_full);
        for (std::size_t i = 0; i < stored; ++i)
            REQUIRE(engine.get(keys[i]) == keys[i]);
        REQUIRE(engine.remove(keys[7]) == DeleteResult::deleted);
        CHECK(put(engine, keys[stored]) == Code::ok);
    }

    TEST_CASE("overflow buckets that are all taken by others: index full, nothing is lost") {
        Domain domain({.records = 1024});
        never_evict(domain);
        Client& engine = domain.client(1);
        const Control& control = domain.control();
        // Given others that are linking every overflow bucket just now
        const std::uint64_t claim = overflow_claim::pack(engine.worker.identity().owner(), 0);
        for (std::uint32_t o = 0; o < control.overflow_count(); ++o)
            REQUIRE(control.overflow_claim(o).compare_exchange(0, claim));
        // When a bucket is full
        const auto keys = keys_of_bucket(control, 5, slots_per_bucket + 1);
        for (std::uint32_t i = 0; i < slots_per_bucket; ++i)
            REQUIRE(put(engine, keys[i]) == Code::ok);
        CHECK(put(engine, keys.back()) == Code::index_full);
        for (std::uint32_t i = 0; i < slots_per_bucket; ++i)
            CHECK(engine.get(keys[i]) == keys[i]);
        // Then it grows as soon as one is free again
        for (std::uint32_t o = 0; o < control.overflow_count(); ++o)
            REQUIRE(control.overflow_claim(o).compare_exchange(claim, 0));
        CHECK(put(engine, keys.back()) == Code::ok);
        CHECK(buckets_linked(control) == 1);
    }

    TEST_CASE("filled up with any keys: 'full' or 'index full', everything stored is there") {
        Domain domain({.records = 128});
        never_evict(domain);
        Client& engine = domain.client(1);
        std::vector<std::string> stored;
        Code code = Code::ok;
        for (int i = 0; code == Code::ok && i < 1000; ++i) {
            const std::string key = "any " + std::to_string(i);
            if ((code = put(engine, key)) == Code::ok) stored.push_back(key);
        }
        CHECK((code == Code::full || code == Code::index_full));
        CHECK(stored.size() >= 128);
        for (const auto& key : stored)
            CHECK(engine.get(key) == key);
    }

    TEST_CASE("a claim that its owner left before linking is given back; one that is linked stays") {
        Domain domain({.records = 1024});
        Client& stopped = domain.reader();
        Client& engine = domain.client(1);
        const Control& control = domain.control();
        const auto keys = keys_of_bucket(control, 3, 20);
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);

        // Given one claim linked but not marked so, and one never linked
        std::uint32_t linked = 0;
        while (control.overflow_claim(linked).load(shm::relaxed) != overflow_claim::linked)
            ++linked;
        std::uint64_t parent = 3;
        for (std::uint64_t b = 0; b < std::uint64_t{control.bucket_count()} + control.overflow_count(); ++b)
            if (control.bucket(b).link.load(shm::relaxed) == linked + 1) parent = b;
        control.overflow_claim(linked).store(overflow_claim::pack(stopped.identity.owner(), parent),
                                             shm::seq_cst);
        std::uint32_t loose = 0;
        while (control.overflow_claim(loose).load(shm::relaxed) != 0)
            ++loose;
        control.overflow_claim(loose).store(overflow_claim::pack(stopped.identity.owner(), 8), shm::seq_cst);

        const SweepReport report = domain.bury(stopped);
        CHECK(report.overflow_claims == 2);
        CHECK(control.overflow_claim(linked).load(shm::relaxed) == overflow_claim::linked);
        CHECK(control.overflow_claim(loose).load(shm::relaxed) == 0);
        for (const auto& key : keys)
            CHECK(engine.get(key) == key);
    }

    TEST_CASE("a chain that loops or leads nowhere ends, with a code") {
        Domain domain({.records = 1024});
        domain.expect_damage();
        never_evict(domain);
        Client& engine = domain.client(1);
        const Control& control = domain.control();
        const auto keys = keys_of_bucket(control, 3, 20);
        for (const auto& key : keys)
            REQUIRE(put(engine, key) == Code::ok);
        std::uint64_t link = 0;
        SUBCASE("to itself") {
            link = control.bucket(3).link.load(shm::relaxed);
        }
        SUBCASE("far outside") {
            link = ~0ull;
        }
        SUBCASE("just outside") {
            link = std::uint64_t{control.overflow_count()} + 1;
        }
        REQUIRE(link != 0);
        const std::uint64_t first = control.bucket(3).link.load(shm::relaxed);
        control.bucket(control.bucket_count() + first - 1).link.store(link, shm::seq_cst);

        View view;
        const auto absent = keys_of_bucket(control, 3, 21).back();
        const Code missed = engine.worker.retrieve(engine.key(absent), &view);
        CHECK((missed == Code::miss || missed == Code::damaged));
        CHECK_FALSE(engine.exists(absent));
        CHECK(put(engine, absent) != Code::ok);
        const DeleteResult result = engine.remove(absent);
        CHECK((result == DeleteResult::absent || result == DeleteResult::damaged));
        CHECK(engine.get(keys[0]) == keys[0]);
        CHECK(look(control).findings_total > 0);
    }
}
