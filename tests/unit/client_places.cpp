// What bindings of other languages need: pages that outlive a close, leases by place, the domain as a whole.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "fake_daemon.hpp"
#include "maru/maru.h"

using namespace maru;

namespace {

constexpr std::uint64_t page_bytes = 64 * KiB;  // 32 pages in a region

maru_client* connect(const FakeDaemon& daemon, const char* name) {
    maru_options options = MARU_OPTIONS_INIT;
    options.server = daemon.socket().c_str();
    options.instance_id = name;
    options.page_size = page_bytes;
    options.pool_size = 2 * MiB;
    options.timeout_ms = 5000;
    maru_client* client = nullptr;
    REQUIRE(maru_connect(&options, &client) == MARU_OK);
    return client;
}

maru_page reserve(maru_client* client) {
    maru_page page{};
    REQUIRE(maru_alloc(client, 100, &page) == MARU_OK);
    return page;
}

maru_domain_statistics count(maru_client* client) {
    maru_domain_statistics is{};
    is.size = sizeof is;
    REQUIRE(maru_domain_stats(client, &is) == MARU_OK);
    return is;
}

std::uint64_t reserved_in(const table::Control& control) {
    std::uint64_t count = 0;
    for (std::uint32_t r = 1; r < control.record_count(); ++r)
        count += table::phase_of(control.record(r).state.load(shm::acquire)) == table::Phase::reserved;
    return count;
}

}  // namespace

TEST_CASE("pages that a close keeps stay writable until they are freed") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon, "keeper");
    maru_page kept = reserve(client), dropped = reserve(client), stored = reserve(client);
    REQUIRE(maru_store(client, "k", 1, &stored, 100) == MARU_OK);
    const maru_page pages[] = {kept, stored};
    REQUIRE(maru_close_keeping(client, pages, 2) == MARU_OK);
    CHECK(reserved_in(daemon.control()) == 1);
    std::memset(kept.data, 7, 100);
    CHECK(maru_free(client, &dropped) == MARU_ERR_INVALID);
    CHECK(daemon.byes == 0);
    CHECK(maru_free(client, &kept) == MARU_OK);
    CHECK(maru_free(client, &kept) == MARU_ERR_INVALID);
    CHECK(reserved_in(daemon.control()) == 0);
    CHECK(daemon.byes == 0);
    CHECK(maru_free(client, &stored) == MARU_OK);
    CHECK(daemon.byes == 1);
}

TEST_CASE("memory that is held stays mapped past the close") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon, "holder");
    maru_page page = reserve(client);
    REQUIRE(maru_hold(client) == MARU_OK);
    REQUIRE(maru_hold(client) == MARU_OK);
    REQUIRE(maru_let_go(client) == MARU_OK);
    REQUIRE(maru_close(client) == MARU_OK);
    static_cast<char*>(page.data)[0] = 1;  // given back, but mapped
    CHECK(daemon.byes == 0);
    CHECK(maru_hold(client) == MARU_ERR_INVALID);
    CHECK(maru_let_go(client) == MARU_OK);
    CHECK(daemon.byes == 1);
    CHECK(maru_let_go(client) == MARU_ERR_INVALID);
}

TEST_CASE("a page is leased by its place") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon, "lessee");
    maru_page page = reserve(client);
    maru_view view{};
    CHECK(maru_lease(client, page.region, page.page, &view) == MARU_MISS);
    std::memset(page.data, 9, 100);
    REQUIRE(maru_store(client, "k", 1, &page, 100) == MARU_OK);
    const std::uint32_t region = page.region, index = page.page;
    REQUIRE(maru_free(client, &page) == MARU_OK);
    REQUIRE(maru_lease(client, region, index, &view) == MARU_OK);
    CHECK(view.size == 100);
    CHECK(static_cast<const char*>(view.data)[99] == 9);
    CHECK(count(client).pinned_pages == 1);
    REQUIRE(maru_remove(client, "k", 1) == MARU_OK);
    maru_view second{};
    CHECK(maru_lease(client, region, index, &second) == MARU_MISS);
    CHECK(count(client).retired_pages == 1);
    CHECK(maru_release(client, &view) == MARU_OK);
    CHECK(maru_lease(client, region, 1u << 20, &view) == MARU_MISS);
    CHECK(maru_lease(client, 1u << 20, 0, &view) == MARU_MISS);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("an allocation from held memory asks nobody") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon, "frugal");
    const int claims = daemon.claims;
    maru_page page{};
    std::uint64_t pages = 0;
    while (maru_alloc_held(client, 1, &page) == MARU_OK)
        ++pages;
    CHECK(pages == 32);
    CHECK(maru_alloc_held(client, 1, &page) == MARU_ERR_FULL);
    CHECK(maru_alloc_held(client, page_bytes + 1, &page) == MARU_ERR_TOO_LARGE);
    CHECK(daemon.claims == claims);
    CHECK(maru_alloc(client, 1, &page) == MARU_OK);
    CHECK(daemon.claims == claims + 1);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("the domain is counted and its clients are described") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon, "one");
    maru_page page = reserve(client);
    REQUIRE(maru_put(client, "a", 1, "12345", 5) == MARU_OK);
    REQUIRE(maru_put(client, "a", 1, "other", 5) == MARU_EXISTS);
    maru_view view{};
    REQUIRE(maru_retrieve(client, "a", 1, &view) == MARU_OK);
    REQUIRE(maru_release(client, &view) == MARU_OK);
    const auto is = count(client);
    CHECK(is.objects == 1);
    CHECK(is.object_bytes == 5);
    CHECK(is.reserved_pages == 1);
    CHECK(is.reserved_bytes == page_bytes);
    CHECK(is.free_pages == 30);
    CHECK(is.page_bytes == 32 * page_bytes);
    CHECK(is.regions == 1);
    CHECK(is.clients == 1);

    maru_client_description described{};
    described.size = sizeof described;
    int found = 0;
    for (std::uint32_t slot = 0;; ++slot) {
        const maru_status status = maru_client_info(client, slot, &described);
        if (status == MARU_ERR_INVALID) break;
        if (status == MARU_MISS) continue;
        ++found;
        CHECK(described.instance_id == std::string("one"));
        CHECK(described.self == 1);
        CHECK(described.lookups == 1);
        CHECK(described.hits == 1);
        CHECK(described.stores == 1);
        CHECK(described.duplicates == 1);
    }
    CHECK(found == 1);
    CHECK(std::strlen(maru_daemon_version(client)) > 0);
    CHECK(maru_domain_stats(client, nullptr) == MARU_ERR_INVALID);
    CHECK(maru_free(client, &page) == MARU_OK);
    CHECK(maru_close(client) == MARU_OK);
}
