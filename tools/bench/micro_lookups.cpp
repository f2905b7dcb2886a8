// Rows of `maru-bench micro` that retrieve.
#include <array>
#include <memory>
#include <vector>

#include "counterpart/key_hash.hpp"
#include "counterpart/pointer_chase.hpp"
#include "counterpart/unordered_map.hpp"
#include "micro.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr std::size_t batch = 256, prefix = 512;
constexpr std::size_t hot_keys = 1'000;
constexpr std::size_t hot_passes = 500;

// Reference of a chase over 64 MiB to 1 GiB; lookups of a million objects walk through 200 to 400 MiB.
constexpr double chase_reference_ns = 310;

maru_status retrieve_batches(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count) {
    std::array<maru_view, batch> views;
    std::array<maru_status, batch> statuses;
    for (std::size_t i = first; i < first + count; i += batch) {
        maru_status status = maru_retrieve_batch(client, keys.batch(i), views.data(), statuses.data(), batch);
        if (status != MARU_OK) return status;
        for (const maru_status each : statuses)
            if (each != MARU_OK) return each;
        status = maru_release_batch(client, views.data(), batch);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

maru_status match_prefixes(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; i += prefix) {
        std::size_t matched = 0;
        const maru_status status = maru_match_prefix(client, keys.batch(i), prefix, nullptr, &matched);
        if (status != MARU_OK) return status;
        if (matched != prefix) return MARU_MISS;
    }
    return MARU_OK;
}

bool find_all(const LockedMap& map, const KeySet& keys, std::size_t first, std::size_t count) {
    bool all = true;
    for (std::size_t i = first; i < first + count; ++i) {
        LockedMap::Place place{};
        all = map.find(keys.text(i), &place) && all;
        keep(place);
    }
    return all;
}

std::unique_ptr<LockedMap> map_of(const KeySet& keys) {
    auto map = std::make_unique<LockedMap>(keys.size());
    std::vector<char> text(key_bytes);
    for (std::size_t number = 0; number < keys.size(); ++number) {
        write_key(number, text.data());
        map->insert({text.data(), key_bytes}, {text.data(), micro_page_bytes});
    }
    return map;
}

struct LookupSamples {
    std::vector<Sample> chase, map, batch, match;
};

// All kinds of lookup over the same slice of keys, one right after the other. Each is warmed by its own
// earlier rounds only: a slice is larger than the caches.
Result<void> lookup_round(const Bench& bench, PointerChase& chase, const LockedMap& map, std::size_t first,
                          LookupSamples* samples) {
    const std::size_t count = bench.sizes.slice;
    maru_status status = MARU_OK;
    const auto call = [&](auto loop) {
        return time_each_ns(count, [&] {
            if (status == MARU_OK) status = loop(bench.client, bench.keys, first, count);
        });
    };
    bool found = true;
    const double single_ns = call(retrieve_all);
    const double chase_ns = time_each_ns(count, [&] { chase.run(count); });
    const double map_ns = time_each_ns(count, [&] { found = find_all(map, bench.keys, first, count); });
    const double batch_ns = call(retrieve_batches);
    const double match_ns = call(match_prefixes);
    if (status != MARU_OK) return refused(bench.client, "lookup", status);
    if (!found) return Error{Code::miss, "the map of the counterpart lost a key"};
    samples->chase.push_back({single_ns, chase_ns});
    samples->map.push_back({single_ns, map_ns});
    samples->batch.push_back({batch_ns, single_ns});
    samples->match.push_back({match_ns, single_ns});
    return {};
}

}  // namespace

Result<void> measure_lookups(const Bench& bench) {
    const auto tables = bench.domain.lookup_tables(bench.client);
    if (!tables) return tables.error();
    PointerChase chase(*tables);
    const auto map = map_of(bench.keys);
    const std::size_t slices = bench.keys.size() / bench.sizes.slice;
    LookupSamples samples;
    for (int round = -1; round < bench.sizes.rounds; ++round) {
        if (round == 0) samples = {};  // the round before is for the caches
        const std::size_t slice = static_cast<std::size_t>(round + 1) % slices;
        if (auto done = lookup_round(bench, chase, *map, slice * bench.sizes.slice, &samples); !done)
            return done;
    }
    const bool whole = bench.sizes.objects == whole_micro.objects;
    bench.report.add(
        compare({"retrieve_vs_chase", "ns", "a dependent random load over the same index and page records",
                 Goal::at_most, 2.5, whole ? chase_reference_ns : 0},
                samples.chase));
    bench.report.add(
        compare({"retrieve_vs_unordered_map", "ns",
                 "std::unordered_map under std::shared_mutex, same keys, in-process", Goal::at_most, 1.0},
                samples.map));
    bench.report.add(compare({"batch_retrieve_vs_single", "ns",
                              "retrieve + release one by one; value: batches of 256", Goal::at_most, 0.5},
                             samples.batch));
    bench.report.add(compare(
        {"match_prefix_vs_single", "ns",
         "retrieve + release one by one; value: match_prefix of 512 keys without views", Goal::at_most, 0.4},
        samples.match));
    return {};
}

Result<void> measure_hot_lookups(const Bench& bench) {
    std::vector<Sample> samples;
    const KeySet hot(0, hot_keys, 4);
    for (int round = -1; round < bench.sizes.rounds; ++round) {
        maru_status status = MARU_OK;
        const double value_ns = time_each_ns(hot_keys * hot_passes, [&] {
            for (std::size_t pass = 0; pass < hot_passes && status == MARU_OK; ++pass)
                status = retrieve_all(bench.client, hot, 0, hot_keys);
        });
        if (status != MARU_OK) return refused(bench.client, "retrieve", status);
        const double hash_ns = time_each_ns(hot_keys * hot_passes, [&] {
            for (std::size_t pass = 0; pass < hot_passes; ++pass)
                for (std::size_t i = 0; i < hot_keys; ++i)
                    hash_key(hot.text(i));
        });
        if (round >= 0) samples.push_back({value_ns, hash_ns});
    }
    bench.report.add(compare(
        {"retrieve_hot_vs_hash", "ns", "XXH3-128 of the key; 1,000 hot keys", Goal::at_most, 5}, samples));
    return {};
}

}  // namespace maru::bench
