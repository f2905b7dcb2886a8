// Rows of `maru-bench micro` that store and remove, and those that go on while the daemon is stopped.
#include <vector>

#include "micro.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

// Removes each key and takes a page again at once, as a store on a full domain does.
maru_status remove_and_reuse(maru_client* client, const KeySet& keys) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
        maru_status status = maru_remove(client, keys.data(i), key_bytes);
        if (status != MARU_OK) return status;
        maru_page page;
        status = maru_alloc(client, micro_page_bytes, &page);
        if (status != MARU_OK) return status;
        status = maru_free(client, &page);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

struct StoreTimes {
    double store_ns = 0, retrieve_ns = 0, remove_ns = 0;
};

// Stores all spare keys, retrieves as many of the others, removes the spare ones.
Result<StoreTimes> store_round(const Bench& bench, std::size_t first) {
    maru_status status = MARU_OK;
    StoreTimes times;
    const std::size_t count = bench.spare.size();
    const auto timed = [&](auto loop) {
        return time_each_ns(count, [&] {
            if (status == MARU_OK) status = loop();
        });
    };
    times.store_ns = timed([&] { return store_all(bench.client, bench.spare, 0, count, micro_page_bytes); });
    times.retrieve_ns = timed([&] { return retrieve_all(bench.client, bench.keys, first, count); });
    times.remove_ns = timed([&] { return remove_and_reuse(bench.client, bench.spare); });
    if (status != MARU_OK) return refused(bench.client, "store, retrieve or remove", status);
    return times;
}

// Millions of operations a second: of retrievals, and of stores whose objects then go again, untimed.
struct Rates {
    double retrieve = 0, store = 0;
};

Result<Rates> rates(const Bench& bench, std::size_t first) {
    Rates found;
    maru_status status = MARU_OK;
    const std::size_t lookups = bench.sizes.slice, stores = bench.spare.size();
    found.retrieve =
        1e3 / time_each_ns(lookups, [&] { status = retrieve_all(bench.client, bench.keys, first, lookups); });
    if (status != MARU_OK) return refused(bench.client, "retrieve", status);
    found.store = 1e3 / time_each_ns(stores, [&] {
                      status = store_all(bench.client, bench.spare, 0, stores, micro_page_bytes);
                  });
    if (status != MARU_OK) return refused(bench.client, "store", status);
    status = remove_all(bench.client, bench.spare, 0, stores);
    if (status != MARU_OK) return refused(bench.client, "remove", status);
    return found;
}

Result<Rates> stopped_rates(const Bench& bench, std::size_t first) {
    if (auto frozen = bench.domain.freeze(); !frozen) return frozen.error();
    auto found = rates(bench, first);
    bench.domain.thaw();
    return found;
}

}  // namespace

Result<void> measure_stores(const Bench& bench) {
    std::vector<Sample> stores, removes;
    const std::size_t slices = bench.keys.size() / bench.spare.size();
    for (int round = -1; round < bench.sizes.rounds; ++round) {
        const std::size_t slice = static_cast<std::size_t>(round + 1) % slices;
        const auto times = store_round(bench, slice * bench.spare.size());
        if (!times) return times.error();
        if (round < 0) continue;
        stores.push_back({times->store_ns, times->retrieve_ns});
        removes.push_back({times->remove_ns, times->store_ns});
    }
    bench.report.add(
        compare({"store_vs_retrieve", "ns",
                 "retrieve + release; value: alloc + store + free of the handle, new keys in random order",
                 Goal::at_most, 2.5},
                stores));
    bench.report.add(
        compare({"delete_vs_store", "ns",
                 "alloc + store + free of the handle; value: remove, then a page taken and given back",
                 Goal::at_most, 1.5},
                removes));
    return {};
}

Result<void> measure_stopped_daemon(const Bench& bench) {
    if (!bench.domain.is_private()) return {};  // another one's daemon is not ours to stop
    std::vector<Sample> retrieves, stores;
    const std::size_t slices = bench.keys.size() / bench.sizes.slice;
    for (int round = -1; round < bench.sizes.rounds; ++round) {
        const std::size_t first = static_cast<std::size_t>(round + 1) % slices * bench.sizes.slice;
        const bool stopped_first = round % 2 == 0;
        const auto one = stopped_first ? stopped_rates(bench, first) : rates(bench, first);
        if (!one) return one.error();
        const auto other = stopped_first ? rates(bench, first) : stopped_rates(bench, first);
        if (!other) return other.error();
        if (round < 0) continue;
        const Rates stopped = stopped_first ? *one : *other, running = stopped_first ? *other : *one;
        retrieves.push_back({stopped.retrieve, running.retrieve});
        stores.push_back({stopped.store, running.store});
    }
    bench.report.add(compare({"daemon_stopped_retrieve", "Mops/s",
                              "the same while the daemon runs; value: SIGSTOP", Goal::at_least, 0.95},
                             retrieves));
    bench.report.add(compare({"daemon_stopped_store", "Mops/s",
                              "the same while the daemon runs; value: SIGSTOP", Goal::at_least, 0.95},
                             stores));
    return {};
}

}  // namespace maru::bench
