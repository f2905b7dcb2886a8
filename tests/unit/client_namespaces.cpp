// What a client keeps to in its namespace: the quota, and the word that lets it read only.
#include <doctest/doctest.h>

#include <cstring>

#include "fake_daemon.hpp"
#include "maru/maru.h"
#include "table/namespaces.hpp"

using namespace maru;

namespace {

constexpr std::uint64_t page_bytes = 64 * KiB;  // 32 pages in a region

struct Connected {
    FakeDaemon daemon;
    maru_client* client = nullptr;
    Connected() {
        maru_options options = MARU_OPTIONS_INIT;
        options.server = daemon.socket().c_str();
        options.page_size = page_bytes;
        options.pool_size = 2 * MiB;
        options.no_expand = 1;
        REQUIRE(maru_connect(&options, &client) == MARU_OK);
    }
    Connected(const Connected&) = delete;
    Connected& operator=(const Connected&) = delete;
    ~Connected() { CHECK(maru_close(client) == MARU_OK); }
    maru_status put(const std::string& key) { return maru_put(client, key.data(), key.size(), "v", 1); }
    std::size_t count_of(const std::string& prefix, int count) {
        std::size_t there = 0;
        for (int i = 0; i < count; ++i) {
            const std::string key = prefix + std::to_string(i);
            there += maru_exists(client, key.data(), key.size()) == MARU_OK;
        }
        return there;
    }
    void set_quota(std::uint64_t bytes) { table::set_policy(daemon.control(), 0, {bytes, {}, false}); }
    std::uint64_t used() const { return table::used_bytes(daemon.control(), 0); }
    bool says(const char* part) { return std::strstr(maru_detail(client), part) != nullptr; }
};

}  // namespace

TEST_CASE("pages beyond the quota are not taken: the client evicts its namespace's own") {
    Connected at;
    at.set_quota(10 * page_bytes);
    for (int i = 0; i < 30; ++i) {
        REQUIRE(at.put("k" + std::to_string(i)) == MARU_OK);
        CHECK(at.used() <= 10 * page_bytes);
    }
    CHECK(at.count_of("k", 30) == 10);
    at.set_quota(0);
    for (int i = 0; i < 20; ++i)
        REQUIRE(at.put("m" + std::to_string(i)) == MARU_OK);
    CHECK(at.count_of("k", 30) == 10);
}

TEST_CASE("a quota below what is used takes nothing away, and use sinks with each store") {
    Connected at;
    for (int i = 0; i < 30; ++i)
        REQUIRE(at.put("k" + std::to_string(i)) == MARU_OK);
    at.set_quota(4 * page_bytes);
    CHECK(at.count_of("k", 30) == 30);
    REQUIRE(at.put("one") == MARU_OK);
    CHECK(at.used() == (30 + 1 - 8) * page_bytes);
    for (int i = 0; i < 8; ++i)
        REQUIRE(at.put("m" + std::to_string(i)) == MARU_OK);
    CHECK(at.used() <= 4 * page_bytes);
}

TEST_CASE("a quota that is used up by what nobody may evict is full, and the detail has the numbers") {
    Connected at;
    at.set_quota(3 * page_bytes);
    maru_page pages[3];
    for (auto& page : pages)
        REQUIRE(maru_alloc(at.client, 1, &page) == MARU_OK);
    maru_page another;
    for (const auto alloc : {maru_alloc, maru_alloc_held}) {
        CHECK(alloc(at.client, 1, &another) == MARU_ERR_FULL);
        CHECK(at.says("quota of namespace 'default' is used up: 196608 of 196608 bytes"));
        CHECK(at.says("3 are reserved"));
    }
    REQUIRE(maru_free(at.client, &pages[0]) == MARU_OK);
    CHECK(maru_alloc(at.client, 1, &another) == MARU_OK);
    at.set_quota(page_bytes - 1);
    CHECK(at.put("k") == MARU_ERR_FULL);
    CHECK(at.says("a page of 65536 bytes is wanted"));
}

TEST_CASE("with eviction policy none a used quota refuses, and names the policy") {
    Connected at;
    at.daemon.control().super().eviction.store(static_cast<std::uint64_t>(table::EvictionPolicy::none),
                                               shm::relaxed);
    at.set_quota(2 * page_bytes);
    CHECK(at.put("a") == MARU_OK);
    CHECK(at.put("b") == MARU_OK);
    CHECK(at.put("c") == MARU_ERR_FULL);
    CHECK(at.says("eviction.policy is none"));
    CHECK(at.count_of("", 0) == 0);
    CHECK(maru_exists(at.client, "a", 1) == MARU_OK);
}

TEST_CASE("a client that may read only is refused by the library, from its next call on") {
    Connected at;
    REQUIRE(at.put("k") == MARU_OK);
    maru_page page;
    REQUIRE(maru_alloc(at.client, 1, &page) == MARU_OK);
    table::set_read_only(at.daemon.control(), at.daemon.identity(), true);
    const maru_key keys[1] = {{"x", 1}};
    const std::uint64_t sizes[1] = {1};
    maru_status statuses[1] = {MARU_OK};
    maru_page other;
    CHECK(at.put("n") == MARU_ERR_DENIED);
    CHECK(at.says("namespace 'default'"));
    CHECK(maru_alloc(at.client, 1, &other) == MARU_ERR_DENIED);
    CHECK(maru_alloc_held(at.client, 1, &other) == MARU_ERR_DENIED);
    CHECK(maru_store(at.client, "x", 1, &page, 1) == MARU_ERR_DENIED);
    CHECK(maru_store_batch(at.client, keys, &page, sizes, statuses, 1) == MARU_ERR_DENIED);
    CHECK(maru_remove(at.client, "k", 1) == MARU_ERR_DENIED);
    CHECK(maru_pin(at.client, "k", 1) == MARU_ERR_DENIED);
    CHECK(maru_pin_batch(at.client, keys, statuses, 1) == MARU_ERR_DENIED);
    CHECK(maru_exists(at.client, "k", 1) == MARU_OK);
    maru_view view{};
    CHECK(maru_retrieve(at.client, "k", 1, &view) == MARU_OK);
    CHECK(maru_release(at.client, &view) == MARU_OK);
    CHECK(maru_free(at.client, &page) == MARU_OK);  // what it had it gives back
    table::set_read_only(at.daemon.control(), at.daemon.identity(), false);
    CHECK(at.put("n") == MARU_OK);
}
