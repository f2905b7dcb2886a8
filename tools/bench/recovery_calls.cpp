// Rows of `maru-bench recovery` about calls that need the daemon: connect, and the claim of a region.
#include <vector>

#include "base/size.hpp"
#include "counterpart/socket_echo.hpp"
#include "recovery.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr std::uint64_t trips_of_connect = 20, trips_of_claim = 4;
constexpr double trip_reference_us = 26;  // 22 to 30

Result<double> trips_us(SocketEcho& echo, std::uint64_t trips, std::size_t times) {
    Stopwatch watch;
    watch.start();
    auto done = echo.run(trips * times);
    watch.stop();
    if (!done) return done.error();
    return watch.ns_each(times) / 1e3;
}

Result<double> connect_us(const Recovery& recovery) {
    Stopwatch watch;
    for (std::size_t i = 0; i < recovery.sizes.connects; ++i) {
        watch.start();
        auto client = connect_reader(recovery.domain.socket());
        watch.stop();
        if (!client) return client.error();
    }
    return watch.ns_each(recovery.sizes.connects) / 1e3;
}

/// Allocates until the held regions are full; the pages stay.
maru_status use_up(maru_client* client, std::vector<maru_page>* pages) {
    for (;;) {
        maru_page page;
        const auto status = maru_alloc_held(client, claim_page_bytes, &page);
        if (status == MARU_ERR_FULL) return MARU_OK;
        if (status != MARU_OK) return status;
        pages->push_back(page);
    }
}

/// An alloc that finds no page in the regions its client holds, and therefore claims one.
Result<double> claim_us(const Recovery& recovery) {
    maru_options options = MARU_OPTIONS_INIT;
    const std::string& socket = recovery.domain.socket();
    options.server = socket.c_str();
    options.instance_id = "maru-bench claims";
    options.page_size = claim_page_bytes;
    options.expand_size = claim_page_bytes;  // rounded up to one region
    options.no_claim = 1;
    options.no_prefault = 1;
    auto client = connect(options);
    if (!client) return client.error();
    std::vector<maru_page> pages;
    Stopwatch watch;
    for (std::size_t i = 0; i <= recovery.sizes.claims; ++i) {
        if (const auto status = use_up(client->get(), &pages); status != MARU_OK)
            return refused(client->get(), "alloc_held", status);
        std::size_t before = 0, after = 0;
        (void)maru_held_regions(client->get(), nullptr, 0, &before);
        maru_page page;
        if (i > 0) watch.start();  // the first one takes what a thread takes once
        const auto status = maru_alloc(client->get(), claim_page_bytes, &page);
        if (i > 0) watch.stop();
        if (status != MARU_OK) return refused(client->get(), "alloc", status);
        pages.push_back(page);
        (void)maru_held_regions(client->get(), nullptr, 0, &after);
        if (after != before + 1)
            return Error{Code::full, "an alloc that was to claim one region claimed " +
                                         std::to_string(after - before) + ": the pool is too small"};
    }
    for (maru_page& page : pages)
        if (const auto status = maru_free(client->get(), &page); status != MARU_OK)
            return refused(client->get(), "free", status);
    return watch.ns_each(recovery.sizes.claims) / 1e3;
}

Result<std::vector<Sample>> rounds_of(const Recovery& recovery, Result<double> (*measure)(const Recovery&),
                                      std::uint64_t trips, std::size_t times) {
    auto echo = SocketEcho::start();
    if (!echo) return echo.error();
    std::vector<Sample> samples;
    for (int round = -1; round < recovery.sizes.rounds; ++round) {  // the first one is for the caches
        const auto value = measure(recovery);
        if (!value) return value.error();
        const auto counterpart = trips_us(**echo, trips, times);
        if (!counterpart) return counterpart.error();
        if (round >= 0) samples.push_back({*value, *counterpart});
    }
    return samples;
}

}  // namespace

Result<void> measure_connect(const Recovery& recovery) {
    const auto samples = rounds_of(recovery, connect_us, trips_of_connect, recovery.sizes.connects);
    if (!samples) return samples.error();
    recovery.report.add(compare({"connect", "us",
                                 "20 round trips of 64 bytes over a Unix socket; value: maru_connect without "
                                 "a claim and without prefault",
                                 Goal::at_most, 1, trips_of_connect * trip_reference_us},
                                *samples));
    return {};
}

Result<void> measure_region_claim(const Recovery& recovery) {
    const auto samples = rounds_of(recovery, claim_us, trips_of_claim, 50);
    if (!samples) return samples.error();
    recovery.report.add(compare({"region_claim", "us",
                                 "4 round trips of 64 bytes over a Unix socket; value: maru_alloc of 1 MiB "
                                 "that claims a region",
                                 Goal::at_most, 1, trips_of_claim * trip_reference_us},
                                *samples));
    return {};
}

}  // namespace maru::bench
