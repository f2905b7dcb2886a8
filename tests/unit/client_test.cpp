// The client library against a daemon that the test holds in its hand.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>

#include "fake_daemon.hpp"
#include "maru/maru.h"

using namespace maru;

namespace {

constexpr std::uint64_t page_bytes = 64 * KiB;  // 32 pages in a region

maru_options options_for(const FakeDaemon& daemon) {
    maru_options options = MARU_OPTIONS_INIT;
    options.server = daemon.socket().c_str();
    options.page_size = page_bytes;
    options.pool_size = 2 * MiB;
    options.timeout_ms = 5000;
    return options;
}

maru_client* connect(const FakeDaemon& daemon) {
    const maru_options options = options_for(daemon);
    maru_client* client = nullptr;
    const maru_status status = maru_connect(&options, &client);
    CAPTURE(maru_detail(nullptr));
    REQUIRE(status == MARU_OK);
    return client;
}

maru_status put(maru_client* client, const std::string& key, const std::string& value) {
    return maru_put(client, key.data(), key.size(), value.data(), value.size());
}
maru_status exists(maru_client* client, const std::string& key) {
    return maru_exists(client, key.data(), key.size());
}
maru_view hold(maru_client* client, const std::string& key) {
    maru_view view{};
    REQUIRE(maru_retrieve(client, key.data(), key.size(), &view) == MARU_OK);
    return view;
}
std::string text_of(const maru_view& view) {
    return {static_cast<const char*>(view.data), view.size};
}
std::string get(maru_client* client, const std::string& key) {
    maru_view view = hold(client, key);
    const std::string value = text_of(view);
    CHECK(maru_release(client, &view) == MARU_OK);
    return value;
}
maru_statistics stats_of(maru_client* client) {
    maru_statistics statistics{};
    statistics.size = sizeof statistics;
    REQUIRE(maru_stats(client, &statistics) == MARU_OK);
    return statistics;
}
bool says(const char* part) {
    return std::strstr(maru_detail(nullptr), part) != nullptr;
}

std::uint64_t records_in(const table::Control& control, table::Phase phase) {
    std::uint64_t count = 0;
    for (std::uint32_t r = 1; r < control.record_count(); ++r)
        count += table::phase_of(control.record(r).state.load(shm::acquire)) == phase;
    return count;
}
std::uint64_t chunks_of(const FakeDaemon& daemon) {
    std::uint64_t count = 0;
    for (std::uint32_t c = 0; c < daemon.control().chunk_count(); ++c)
        count += daemon.control().chunk(c).owner.load(shm::acquire) == daemon.identity().holder_word();
    return count;
}

}  // namespace

TEST_CASE("a value is stored once and read in place by every client") {
    FakeDaemon daemon;
    maru_client* writer = connect(daemon);
    maru_client* reader = connect(daemon);
    maru_page page{};
    REQUIRE(maru_alloc(writer, 5, &page) == MARU_OK);
    std::memcpy(page.data, "bytes", 5);
    CHECK(exists(reader, "key") == MARU_MISS);
    REQUIRE(maru_store(writer, "key", 3, &page, 5) == MARU_OK);
    maru_view view = hold(reader, "key");
    CHECK(text_of(view) == "bytes");
    CHECK(view.region == page.region);
    CHECK(view.page == page.page);
    CHECK(maru_release(reader, &view) == MARU_OK);
    CHECK(maru_release(reader, &view) == MARU_ERR_INVALID);
    CHECK(put(reader, "key", "others") == MARU_EXISTS);
    CHECK(get(reader, "key") == "bytes");
    CHECK(maru_free(writer, &page) == MARU_OK);
    CHECK(maru_free(writer, &page) == MARU_ERR_NOT_RESERVED);
    CHECK(maru_remove(reader, "key", 3) == MARU_OK);
    CHECK(maru_remove(writer, "key", 3) == MARU_MISS);
    CHECK(maru_close(writer) == MARU_OK);
    CHECK(maru_close(reader) == MARU_OK);
    CHECK(daemon.byes == 2);
}

TEST_CASE("sizes and keys at and beyond their limits") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    CHECK(maru_page_size(client) == page_bytes);
    maru_page page{};
    CHECK(maru_alloc(client, page_bytes + 1, &page) == MARU_ERR_TOO_LARGE);
    CHECK(says("65537 bytes"));
    CHECK(maru_alloc(client, UINT64_MAX, &page) == MARU_ERR_TOO_LARGE);
    REQUIRE(maru_alloc(client, 0, &page) == MARU_OK);
    CHECK(maru_store(client, "zero", 4, &page, 1) == MARU_ERR_TOO_LARGE);
    CHECK(maru_store(client, "zero", 4, &page, 0) == MARU_OK);
    CHECK(maru_free(client, &page) == MARU_OK);
    CHECK(get(client, "zero").empty());
    REQUIRE(put(client, "whole", std::string(page_bytes, 'w')) == MARU_OK);
    CHECK(get(client, "whole") == std::string(page_bytes, 'w'));
    CHECK(put(client, "", "v") == MARU_ERR_INVALID);
    CHECK(put(client, std::string(4097, 'k'), "v") == MARU_ERR_TOO_LARGE);
    CHECK(put(client, std::string(4096, 'k'), "v") == MARU_OK);
    CHECK(exists(client, std::string(4096, 'k')) == MARU_OK);
    CHECK(put(client, std::string("\0\xff\0", 3), "binary") == MARU_OK);
    CHECK(get(client, std::string("\0\xff\0", 3)) == "binary");
    CHECK(maru_put(client, "k", 1, nullptr, 5) == MARU_ERR_INVALID);
    CHECK(maru_put(client, nullptr, 1, "v", 1) == MARU_ERR_INVALID);
    char small[3];
    std::uint64_t size = 0;
    CHECK(maru_get(client, "whole", 5, small, sizeof small, &size) == MARU_ERR_TOO_LARGE);
    CHECK(size == page_bytes);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("handles that nobody gave out are refused") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    maru_page page{};
    CHECK(maru_free(client, nullptr) == MARU_ERR_INVALID);
    CHECK(maru_free(client, &page) == MARU_ERR_NOT_RESERVED);
    CHECK(maru_store(client, "k", 1, &page, 0) == MARU_ERR_NOT_RESERVED);
    for (const std::uint64_t token : {1ull, ~0ull, 0x0000000100000000ull, 0x7fffffff00000001ull}) {
        maru_page invented{&page, 16, 0, 0, token, 1};
        CHECK(maru_free(client, &invented) != MARU_OK);
        CHECK(maru_store(client, "k", 1, &invented, 1) != MARU_OK);
        invented.record = ~0ull;
        CHECK(maru_free(client, &invented) == MARU_ERR_NOT_RESERVED);
        maru_view view{&page, 1, 0, 0, token};
        CHECK(maru_release(client, &view) == MARU_ERR_INVALID);
    }
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("batches answer each entry by itself") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    std::vector<std::string> names;
    for (int i = 0; i < 300; ++i)
        names.push_back("key-" + std::to_string(i));
    for (int i = 0; i < 300; i += 2) {
        if (i >= 60) break;
        REQUIRE(put(client, names[static_cast<std::size_t>(i)], names[static_cast<std::size_t>(i)]) ==
                MARU_OK);
    }
    std::vector<maru_key> keys;
    for (const auto& name : names)
        keys.push_back({name.data(), name.size()});
    keys[7] = {nullptr, 3};
    keys[9] = {names[0].data(), 5000};
    std::vector<maru_view> views(300);
    std::vector<maru_status> statuses(300, MARU_ERR_DENIED);
    REQUIRE(maru_retrieve_batch(client, keys.data(), views.data(), statuses.data(), 300) == MARU_OK);
    for (std::size_t i = 0; i < 300; ++i) {
        CAPTURE(i);
        const maru_status wanted = i == 7   ? MARU_ERR_INVALID
                                   : i == 9 ? MARU_ERR_TOO_LARGE
                                            : (i % 2 == 0 && i < 60 ? MARU_OK : MARU_MISS);
        CHECK(statuses[i] == wanted);
        if (wanted != MARU_OK) continue;
        CHECK(text_of(views[i]) == names[i]);
        CHECK(maru_release(client, &views[i]) == MARU_OK);
    }
    REQUIRE(maru_exists_batch(client, keys.data(), statuses.data(), 300) == MARU_OK);
    CHECK(statuses[58] == MARU_OK);
    CHECK(statuses[59] == MARU_MISS);
    std::size_t matched = 99;
    CHECK(maru_match_prefix(client, keys.data(), 300, nullptr, &matched) == MARU_ERR_INVALID);
    CHECK(matched == 0);
    std::vector<maru_key> even;
    for (std::size_t i = 0; i < 300; i += 2)
        even.push_back({names[i].data(), names[i].size()});
    REQUIRE(maru_match_prefix(client, even.data(), even.size(), views.data(), &matched) == MARU_OK);
    CHECK(matched == 30);
    CHECK(maru_release_batch(client, views.data(), matched) == MARU_OK);
    CHECK(maru_release_batch(client, views.data(), matched) == MARU_ERR_INVALID);
    REQUIRE(maru_match_prefix(client, even.data(), 0, nullptr, &matched) == MARU_OK);
    CHECK(matched == 0);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("pins are counted by client and key") {
    FakeDaemon daemon;
    maru_client* one = connect(daemon);
    maru_client* other = connect(daemon);
    REQUIRE(put(one, "k", "v") == MARU_OK);
    CHECK(maru_unpin(one, "k", 1) == MARU_MISS);
    CHECK(maru_pin(one, "absent", 6) == MARU_MISS);
    CHECK(maru_pin(one, "k", 1) == MARU_OK);
    CHECK(maru_pin(one, "k", 1) == MARU_OK);
    CHECK(maru_unpin(other, "k", 1) == MARU_MISS);
    CHECK(maru_remove(other, "k", 1) == MARU_ERR_PINNED);
    CHECK(maru_unpin(one, "k", 1) == MARU_OK);
    CHECK(maru_remove(other, "k", 1) == MARU_ERR_PINNED);
    CHECK(maru_unpin(one, "k", 1) == MARU_OK);
    CHECK(maru_unpin(one, "k", 1) == MARU_MISS);
    CHECK(maru_pin(one, "k", 1) == MARU_OK);
    CHECK(maru_close(one) == MARU_OK);  // its pins end with it
    CHECK(maru_remove(other, "k", 1) == MARU_OK);
    CHECK(maru_close(other) == MARU_OK);
}

TEST_CASE("a pin that the daemon ended is not counted any more") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "v") == MARU_OK);
    REQUIRE(maru_pin(client, "k", 1) == MARU_OK);
    table::KeyPinExpiry expiry(daemon.control());
    std::vector<std::uint64_t> expired(daemon.control().client_count());
    expiry.pass(1, 10, &expired);
    REQUIRE(expiry.pass(100, 10, &expired) == 1);
    REQUIRE(maru_pin(client, "k", 1) == MARU_OK);
    CHECK(maru_unpin(client, "k", 1) == MARU_OK);
    CHECK(maru_unpin(client, "k", 1) == MARU_MISS);
    CHECK(maru_remove(client, "k", 1) == MARU_OK);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("a batch of pins stops at the first miss") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "a", "1") == MARU_OK);
    REQUIRE(put(client, "c", "3") == MARU_OK);
    const maru_key keys[] = {{"a", 1}, {"b", 1}, {"c", 1}};
    maru_status statuses[3];
    REQUIRE(maru_pin_batch(client, keys, statuses, 3) == MARU_OK);
    CHECK(statuses[0] == MARU_OK);
    CHECK(statuses[1] == MARU_MISS);
    CHECK(statuses[2] == MARU_MISS);
    CHECK(maru_remove(client, "c", 1) == MARU_OK);
    REQUIRE(maru_unpin_batch(client, keys, statuses, 3) == MARU_OK);
    CHECK(statuses[0] == MARU_OK);
    CHECK(statuses[2] == MARU_MISS);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("the client claims more when its regions are full, then evicts, then says what holds the pool") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    const auto first = stats_of(client);
    CHECK(first.held_regions == 1);
    std::vector<maru_page> pages;
    maru_page page{};
    maru_status status = MARU_OK;
    while ((status = maru_alloc(client, 1, &page)) == MARU_OK) {
        pages.push_back(page);
        REQUIRE(pages.size() < 1000);
    }
    CHECK(status == MARU_ERR_FULL);
    const auto full = stats_of(client);
    CHECK(full.held_regions > 1);
    CHECK(full.pages == pages.size());
    CHECK(full.free_pages == 0);
    CHECK(full.unclaimed_bytes == 0);
    CHECK(says(
        ("of " + std::to_string(pages.size()) + " pages " + std::to_string(pages.size()) + " are reserved")
            .c_str()));
    std::set<std::pair<std::uint32_t, std::uint32_t>> places;
    for (const auto& one : pages)
        places.insert({one.region, one.page});
    CHECK(places.size() == pages.size());
    for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::string key = "k" + std::to_string(i);
        REQUIRE(maru_store(client, key.data(), key.size(), &pages[i], 1) == MARU_OK);
        REQUIRE(maru_free(client, &pages[i]) == MARU_OK);
    }
    CHECK(put(client, "one more", "v") == MARU_OK);  // in place of another
    CHECK(stats_of(client).evictions > 0);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("values that changed under their checksum are a miss, and can be stored again") {
    FakeDaemon::Shape shape;
    shape.checksum = table::ChecksumMode::verify;
    FakeDaemon daemon(shape);
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "value") == MARU_OK);
    CHECK(get(client, "k") == "value");
    maru_view view = hold(client, "k");
    *static_cast<char*>(const_cast<void*>(view.data)) = 'X';
    CHECK(maru_release(client, &view) == MARU_OK);
    CHECK(maru_retrieve(client, "k", 1, &view) == MARU_MISS);
    CHECK(says("checksum"));
    CHECK(stats_of(client).damaged == 1);
    CHECK(exists(client, "k") == MARU_MISS);
    CHECK(put(client, "k", "again") == MARU_OK);
    CHECK(get(client, "k") == "again");
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("a damaged record is an error, not a stray pointer") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "value") == MARU_OK);
    for (std::uint32_t r = 1; r < daemon.control().record_count(); ++r) {
        auto& record = daemon.control().record(r);
        if (table::phase_of(record.state.load(shm::acquire)) == table::Phase::published)
            record.length.store(~0ull, shm::relaxed);
    }
    maru_view view{};
    CHECK(maru_retrieve(client, "k", 1, &view) == MARU_ERR_DAMAGED);
    CHECK(view.data == nullptr);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("views outlive their client, and everything goes with the last one") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "a", "first") == MARU_OK);
    REQUIRE(put(client, "b", "second") == MARU_OK);
    maru_view a = hold(client, "a"), b = hold(client, "b");
    maru_page reserved{}, published{};
    REQUIRE(maru_alloc(client, 1, &reserved) == MARU_OK);
    REQUIRE(maru_alloc(client, 1, &published) == MARU_OK);
    REQUIRE(maru_store(client, "c", 1, &published, 1) == MARU_OK);
    REQUIRE(maru_close(client) == MARU_OK);
    CHECK(daemon.byes == 0);
    CHECK(daemon.lock_is_open());
    CHECK(daemon.phase() == table::ClientPhase::active);
    CHECK(records_in(daemon.control(), table::Phase::reserved) == 0);
    CHECK(text_of(a) == "first");
    CHECK(exists(client, "a") == MARU_ERR_INVALID);
    CHECK(says("closed"));
    CHECK(maru_close(client) == MARU_ERR_INVALID);
    CHECK(maru_free(client, &published) == MARU_ERR_INVALID);
    CHECK(maru_release(client, &a) == MARU_OK);
    CHECK(maru_release(client, &a) == MARU_ERR_INVALID);
    CHECK(daemon.byes == 0);
    CHECK(text_of(b) == "second");
    CHECK(maru_release_batch(client, &b, 1) == MARU_OK);
    CHECK(daemon.byes == 1);
    CHECK_FALSE(daemon.lock_is_open());
    CHECK(chunks_of(daemon) == 0);
    CHECK(daemon.phase() == table::ClientPhase::free);
    CHECK(maru_release(client, &b) == MARU_ERR_INVALID);
    CHECK(maru_close(client) == MARU_ERR_INVALID);
    CHECK(maru_ping(client) == MARU_ERR_INVALID);
}

TEST_CASE("pins and pages of ended threads are found by the next") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "v") == MARU_OK);
    const std::uint64_t before = chunks_of(daemon);
    for (int i = 0; i < 50; ++i) {
        maru_view view{};
        std::thread([&] { view = hold(client, "k"); }).join();
        CHECK(maru_release(client, &view) == MARU_OK);
    }
    CHECK(chunks_of(daemon) <= before + 1);
    CHECK(maru_close(client) == MARU_OK);
    CHECK(chunks_of(daemon) == 0);
}

TEST_CASE("one thread may use two clients in turn, and threads may outlive a client") {
    FakeDaemon daemon;
    maru_client* a = connect(daemon);
    maru_client* b = connect(daemon);
    for (int i = 0; i < 20; ++i) {
        const std::string key = std::to_string(i);
        CHECK(put(a, key, "a") == MARU_OK);
        CHECK(put(b, key, "b") == MARU_EXISTS);
        CHECK(get(b, key) == "a");
    }
    CHECK(maru_close(a) == MARU_OK);
    CHECK(get(b, "3") == "a");
    CHECK(exists(a, "3") == MARU_ERR_INVALID);
    CHECK(maru_close(b) == MARU_OK);
}

TEST_CASE("closing waits for calls of other threads, and they learn of it") {
    FakeDaemon daemon;
    for (int round = 0; round < 20; ++round) {
        maru_client* client = connect(daemon);
        REQUIRE((put(client, "k", "v") | MARU_EXISTS) == MARU_EXISTS);
        std::atomic<int> ended{0}, began{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&] {
                maru_status status = MARU_OK;
                ++began;
                while (status == MARU_OK) {
                    maru_view view{};
                    status = maru_retrieve(client, "k", 1, &view);
                    if (status == MARU_OK) status = maru_release(client, &view);
                }
                ended += status == MARU_ERR_INVALID;
            });
        CHECK(eventually([&] { return began == 3; }));
        CHECK(maru_close(client) == MARU_OK);
        for (auto& thread : threads)
            thread.join();
        CHECK(ended == 3);
        CHECK(eventually([&] { return daemon.byes == round + 1; }));
    }
}

TEST_CASE("a daemon that dies stops nothing, and is found again") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "v") == MARU_OK);
    daemon.stop();
    pollfd event{maru_event_fd(client), POLLIN, 0};
    REQUIRE(::poll(&event, 1, 5000) == 1);
    std::uint64_t count = 0;
    REQUIRE(::read(event.fd, &count, sizeof count) == sizeof count);
    CHECK(stats_of(client).connected == 0);
    CHECK(maru_ping(client) == MARU_ERR_UNAVAILABLE);
    CHECK(says(daemon.socket().c_str()));
    CHECK(get(client, "k") == "v");
    CHECK(put(client, "k2", "v2") == MARU_OK);
    for (int restart = 1; restart <= 3; ++restart) {
        daemon.start();
        // The client may not have noticed yet that the last daemon ended: the count tells, `connected` alone
        // does not.
        CHECK(eventually([&] {
            const auto now = stats_of(client);
            return now.connected == 1 && now.reconnects == static_cast<std::uint64_t>(restart);
        }));
        CHECK(maru_ping(client) == MARU_OK);
        if (restart < 3) daemon.stop();
    }
    REQUIRE(::poll(&event, 1, 5000) == 1);
    CHECK(get(client, "k2") == "v2");
    CHECK(maru_close(client) == MARU_OK);
    CHECK(daemon.byes == 1);
}

TEST_CASE("a client that ends without a daemon leaves its slot to the next one's sweep") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "v") == MARU_OK);
    daemon.stop();
    CHECK(maru_close(client) == MARU_OK);
    CHECK(daemon.phase() == table::ClientPhase::dead);
    CHECK(chunks_of(daemon) == 0);
}

TEST_CASE("a client that is not taken back stays fenced") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "v") == MARU_OK);
    maru_view view = hold(client, "k");
    daemon.stop();
    REQUIRE(table::quarantine_client(daemon.control(), daemon.identity()));
    CHECK(exists(client, "k") == MARU_ERR_FENCED);
    CHECK(says("connect again"));
    daemon.refuse_resume = static_cast<int>(Code::fenced);
    daemon.start();
    CHECK(eventually([&] { return daemon.resumes == 1; }));
    maru_page page{};
    CHECK(maru_alloc(client, 1, &page) == MARU_ERR_FENCED);
    CHECK(maru_ping(client) == MARU_ERR_FENCED);
    CHECK(maru_release(client, &view) == MARU_OK);
    CHECK(maru_close(client) == MARU_OK);
    CHECK(daemon.resumes == 1);
}

TEST_CASE("a refused resume fences also when the slot still looks well") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    daemon.stop();
    daemon.refuse_resume = static_cast<int>(Code::fenced);
    daemon.start();
    CHECK(eventually([&] { return exists(client, "k") == MARU_ERR_FENCED; }));
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("a slow daemon costs the time limit once, and what it gives late is used") {
    FakeDaemon daemon;
    maru_options options = options_for(daemon);
    options.no_claim = 1;
    options.timeout_ms = 100;
    maru_client* client = nullptr;
    REQUIRE(maru_connect(&options, &client) == MARU_OK);
    daemon.swallow_claims = true;
    maru_page page{};
    CHECK(maru_alloc(client, 1, &page) == MARU_ERR_FULL);
    CHECK(maru_alloc(client, 1, &page) == MARU_ERR_FULL);
    CHECK(daemon.claims == 1);  // not again at once
    daemon.answer_swallowed();
    CHECK(eventually([&] { return stats_of(client).held_regions == 1; }));
    CHECK(maru_alloc(client, 1, &page) == MARU_OK);
    CHECK(daemon.connections == 1);
    CHECK(maru_close(client) == MARU_OK);
}

TEST_CASE("welcomes that make no sense are refused") {
    const auto refused = [](const std::function<void(wire::Welcome&)>& change, int extra = 0) {
        FakeDaemon daemon;
        daemon.change_welcome = change;
        daemon.extra_descriptors = extra;
        const maru_options options = options_for(daemon);
        maru_client* client = nullptr;
        const maru_status status = maru_connect(&options, &client);
        CAPTURE(maru_detail(nullptr));
        CHECK(client == nullptr);
        CHECK(maru_detail(nullptr)[0] != 0);
        CHECK(eventually([&] { return !daemon.lock_is_open(); }));
        return status;
    };
    CHECK(refused([](auto& welcome) { welcome.pools[0].bytes *= 2; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.pools[0].bytes = 0; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.pools[0].alignment = 3; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.pools[0].alignment = 0; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.control_bytes = 1ull << 50; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.control_bytes = 64; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.domain = Uuid::random(); }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.slot = 0; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.slot = 5000; }) == MARU_ERR_DAMAGED);
    CHECK(refused([](auto& welcome) { welcome.generation += 1; }) == MARU_ERR_FENCED);
    CHECK(refused([](auto& welcome) { welcome.pools.clear(); }) == MARU_ERR_INVALID);
    CHECK(refused([](auto&) {}, 1) == MARU_ERR_INVALID);
}

TEST_CASE("more clients than slots: the error says so") {
    FakeDaemon daemon;
    std::vector<maru_client*> clients;
    maru_options options = options_for(daemon);
    options.no_claim = 1;
    maru_client* client = nullptr;
    maru_status status = MARU_OK;
    while ((status = maru_connect(&options, &client)) == MARU_OK) {
        clients.push_back(client);
        REQUIRE(clients.size() < 100);
    }
    CHECK(status == MARU_ERR_FULL);
    CHECK(maru_close(clients.back()) == MARU_OK);
    clients.pop_back();
    CHECK(maru_connect(&options, &client) == MARU_OK);
    clients.push_back(client);
    for (maru_client* one : clients)
        CHECK(maru_close(one) == MARU_OK);
}

TEST_CASE("a forked child is told so, and does not hide its parent's death") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    REQUIRE(put(client, "k", "v") == MARU_OK);
    maru_view view = hold(client, "k");
    int gate[2];
    REQUIRE(::pipe(gate) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::close(gate[1]);
        maru_page page{};
        const bool right = exists(client, "k") == MARU_ERR_FORKED && maru_ping(client) == MARU_ERR_FORKED &&
                           maru_alloc(client, 1, &page) == MARU_ERR_FORKED &&
                           maru_release(client, &view) == MARU_ERR_FORKED &&
                           maru_close(client) == MARU_ERR_FORKED && says("forked");
        char byte = 0;
        (void)!::read(gate[0], &byte, 1);  // lives on until the parent has closed
        ::_exit(right ? 0 : 1);
    }
    ::close(gate[0]);
    CHECK(maru_release(client, &view) == MARU_OK);
    CHECK(maru_close(client) == MARU_OK);
    CHECK(eventually([&] { return !daemon.lock_is_open(); }));
    ::close(gate[1]);
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("regions and pools are described") {
    FakeDaemon daemon;
    maru_client* client = connect(daemon);
    std::uint32_t region = 0;
    std::size_t count = 0;
    REQUIRE(maru_held_regions(client, &region, 1, &count) == MARU_OK);
    REQUIRE(count == 1);
    maru_region_description description{};
    CHECK(maru_region_info(client, region, &description) == MARU_ERR_INVALID);  // no size
    description.size = sizeof description;
    REQUIRE(maru_region_info(client, region, &description) == MARU_OK);
    CHECK(description.held == 1);
    CHECK(description.page_size == page_bytes);
    CHECK(description.page_count == 32);
    maru_page page{};
    REQUIRE(maru_alloc(client, 1, &page) == MARU_OK);
    CHECK(static_cast<std::byte*>(page.data) ==
          static_cast<std::byte*>(description.base) + page.page * description.page_size);
    CHECK(maru_region_info(client, 100'000, &description) == MARU_MISS);
    maru_pool_description pool{};
    pool.size = sizeof pool;
    REQUIRE(maru_pool_info(client, 0, &pool) == MARU_OK);
    CHECK(std::string(pool.kind) == "shm");
    CHECK(static_cast<std::byte*>(description.base) ==
          static_cast<std::byte*>(pool.base) + description.offset);
    CHECK(maru_pool_info(client, 1, &pool) == MARU_MISS);
    struct {
        std::size_t size;
        std::uint64_t lookups;
        std::uint64_t canary;
    } older{2 * sizeof(std::uint64_t), 77, 0x1234};  // a structure from before most fields were there
    REQUIRE(maru_stats(client, reinterpret_cast<maru_statistics*>(&older)) == MARU_OK);
    CHECK(older.lookups == 0);
    CHECK(older.canary == 0x1234);
    CHECK(std::strlen(maru_instance_id(client)) == 36);
    CHECK(maru_close(client) == MARU_OK);
}
