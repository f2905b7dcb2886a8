// `maru-bench put`: the fast path with payload.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/size.hpp"
#include "commands.hpp"
#include "conditions.hpp"
#include "counterpart/memory_copy.hpp"
#include "counterpart/redis.hpp"
#include "counterpart/tmpfs_file.hpp"
#include "engine.hpp"
#include "private_domain.hpp"
#include "report.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

struct PutSizes {
    int rounds;
    int passes;            // over all objects in one round
    std::size_t lookups;   // zero-copy retrievals in one round
    std::uint64_t volume;  // bytes of objects that take turns, more than the caches hold
};
constexpr PutSizes whole_put{11, 6, 1u << 17, 64 * MiB};
constexpr PutSizes quick_put{5, 1, 1u << 13, 16 * MiB};

// Against a file few objects take turns: the caches serve it best then, and its reference figures were taken
// so.
constexpr std::uint64_t file_objects = 4;
constexpr int file_passes = 16;  // for each pass of the others

// What the copies are known to reach here (the middle of the range), and what the others need for 1 MiB.
constexpr double streaming_reference_gb_s = 19.5, memcpy_reference_gb_s = 17.5;
constexpr double redis_get_reference_us = 218, redis_set_reference_us = 217;
constexpr double pread_reference_us = 108, pwrite_reference_us = 114;

/// Objects of one size, all of them present between two measurements.
struct Objects {
    maru_client* client;
    const KeySet& keys;
    std::uint64_t bytes;  // of one object
    const std::vector<char>& source;
    std::vector<char>& target;  // warm; where copies out go
};

maru_status put_all(const Objects& objects) {
    for (std::size_t i = 0; i < objects.keys.size(); ++i) {
        const maru_status status =
            maru_put(objects.client, objects.keys.data(i), key_bytes, objects.source.data(), objects.bytes);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

maru_status get_all(const Objects& objects) {
    for (std::size_t i = 0; i < objects.keys.size(); ++i) {
        std::uint64_t size = 0;
        const maru_status status = maru_get(objects.client, objects.keys.data(i), key_bytes,
                                            objects.target.data(), objects.bytes, &size);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

/// Time of putting every object anew. Their removal before is not timed: put is over existing, warm pages.
maru_status timed_puts(const Objects& objects, Stopwatch* watch) {
    maru_status status = remove_all(objects.client, objects.keys, 0, objects.keys.size());
    if (status != MARU_OK) return status;
    watch->start();
    status = put_all(objects);
    watch->stop();
    return status;
}

/// Time of copying as much into the same pages: all objects are removed, their pages reserved and filled.
maru_status timed_copies(const Objects& objects, Stopwatch* watch) {
    maru_status status = remove_all(objects.client, objects.keys, 0, objects.keys.size());
    if (status != MARU_OK) return status;
    std::vector<maru_page> pages(objects.keys.size());
    for (maru_page& page : pages)
        if (status = maru_alloc(objects.client, objects.bytes, &page); status != MARU_OK) return status;
    watch->start();
    for (const maru_page& page : pages)
        copy_non_temporal(page.data, objects.source.data(), objects.bytes);
    watch->stop();
    for (maru_page& page : pages)
        if (status = maru_free(objects.client, &page); status != MARU_OK) return status;
    return put_all(objects);
}

/// Time of memcpy from the pages that hold the objects.
maru_status timed_memcpy(const Objects& objects, Stopwatch* watch) {
    std::vector<maru_view> views(objects.keys.size());
    for (std::size_t i = 0; i < views.size(); ++i)
        if (const auto status = maru_retrieve(objects.client, objects.keys.data(i), key_bytes, &views[i]);
            status != MARU_OK)
            return status;
    watch->start();
    for (const maru_view& view : views)
        copy_plain(objects.target.data(), view.data, objects.bytes);
    watch->stop();
    return maru_release_batch(objects.client, views.data(), views.size());
}

Result<void> measure_put_vs_copy(const Objects& objects, const PutSizes& sizes, const char* name,
                                 Report* report) {
    std::vector<Sample> samples;
    for (int round = -1; round < sizes.rounds; ++round) {
        Stopwatch puts, copies;
        for (int pass = 0; pass < sizes.passes; ++pass) {
            maru_status status = timed_puts(objects, &puts);
            if (status == MARU_OK) status = timed_copies(objects, &copies);
            if (status != MARU_OK) return refused(objects.client, "put", status);
        }
        const double bytes = static_cast<double>(objects.bytes * objects.keys.size()) * sizes.passes;
        if (round >= 0) samples.push_back({bytes / puts.ns(), bytes / copies.ns()});
    }
    report->add(compare({name, "GB/s", "a loop of non-temporal stores into the same pages", Goal::at_least,
                         0.95, streaming_reference_gb_s},
                        samples));
    return {};
}

Result<void> measure_get_vs_memcpy(const Objects& objects, const PutSizes& sizes, Report* report) {
    std::vector<Sample> samples;
    for (int round = -1; round < sizes.rounds; ++round) {
        Stopwatch gets, copies;
        for (int pass = 0; pass < sizes.passes; ++pass) {
            gets.start();
            maru_status status = get_all(objects);
            gets.stop();
            if (status == MARU_OK) status = timed_memcpy(objects, &copies);
            if (status != MARU_OK) return refused(objects.client, "get", status);
        }
        const double bytes = static_cast<double>(objects.bytes * objects.keys.size()) * sizes.passes;
        if (round >= 0) samples.push_back({bytes / gets.ns(), bytes / copies.ns()});
    }
    report->add(compare({"get_vs_memcpy", "GB/s", "memcpy of 1 MiB from the same pages", Goal::at_least, 0.95,
                         memcpy_reference_gb_s},
                        samples));
    return {};
}

/// Sum of all 64-bit words, with enough accumulators that adding is not the limit.
std::uint64_t sum_words(const void* data, std::uint64_t bytes) {
    const auto* words = static_cast<const std::uint64_t*>(data);
    std::array<std::uint64_t, 32> sums{};
    for (std::uint64_t i = 0; i < bytes / 8; i += sums.size())
        for (std::size_t lane = 0; lane < sums.size(); ++lane)
            sums[lane] += words[i + lane];
    std::uint64_t sum = 0;
    for (const std::uint64_t each : sums)
        sum += each;
    return sum;
}

maru_status read_all(const Objects& objects, std::uint64_t* sum) {
    for (std::size_t i = 0; i < objects.keys.size(); ++i) {
        maru_view view;
        maru_status status = maru_retrieve(objects.client, objects.keys.data(i), key_bytes, &view);
        if (status != MARU_OK) return status;
        *sum += sum_words(view.data, view.size);
        status = maru_release(objects.client, &view);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

Result<void> measure_vs_tmpfs(const Objects& objects, const PutSizes& sizes, Report* report) {
    const std::uint64_t count = objects.keys.size();
    const int passes = sizes.passes * file_passes;
    auto file = TmpfsFile::make(objects.bytes, count);
    if (!file) return file.error();
    std::vector<Sample> reads, writes;
    std::uint64_t sum = 0;
    for (int round = -1; round < sizes.rounds; ++round) {
        Stopwatch our_reads, file_reads, our_writes, file_writes;
        bool whole = true;
        for (int pass = 0; pass < passes; ++pass) {
            sum = 0;
            our_reads.start();
            maru_status status = read_all(objects, &sum);
            our_reads.stop();
            file_reads.start();
            for (std::uint64_t i = 0; i < count; ++i)
                whole = file->read(i, objects.target.data()) && whole;
            file_reads.stop();
            if (status == MARU_OK) status = timed_puts(objects, &our_writes);
            file_writes.start();
            for (std::uint64_t i = 0; i < count; ++i)
                whole = file->write(i, objects.source.data()) && whole;
            file_writes.stop();
            if (status != MARU_OK) return refused(objects.client, "retrieve or put", status);
        }
        if (!whole) return Error{Code::unavailable, "a read or write of a file in /dev/shm failed"};
        const std::uint64_t calls = count * static_cast<std::uint64_t>(passes);
        if (round < 0) continue;
        reads.push_back({our_reads.per_second(calls), file_reads.per_second(calls)});
        writes.push_back({our_writes.per_second(calls), file_writes.per_second(calls)});
    }
    Figure figure = compare({"read_vs_tmpfs", "ops/s", "pread of 1 MiB from a tmpfs file into a warm buffer",
                             Goal::at_least, 1.8, 1e6 / pread_reference_us},
                            reads);
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "sum of all words %016" PRIx64, sum);
    figure.note += (figure.note.empty() ? "" : "; ") + std::string(text.data());
    report->add(std::move(figure));
    report->add(compare({"put_vs_tmpfs", "ops/s", "pwrite of 1 MiB over an existing tmpfs file",
                         Goal::at_least, 1.8, 1e6 / pwrite_reference_us},
                        writes));
    return {};
}

struct RedisSamples {
    std::vector<Sample> gets, sets;
};

Result<void> redis_round(const Objects& objects, const PutSizes& sizes, Redis* redis, RedisSamples* samples) {
    const std::size_t count = objects.keys.size();
    Stopwatch sets, gets, puts, retrieves;
    Result<void> done;
    sets.start();
    for (std::size_t i = 0; i < count && done; ++i)
        done = redis->set(objects.keys.text(i), objects.source.data(), objects.bytes);
    sets.stop();
    gets.start();
    for (std::size_t i = 0; i < count && done; ++i)
        done = redis->get(objects.keys.text(i), objects.target.data(), objects.bytes);
    gets.stop();
    if (!done) return done;
    maru_status status = timed_puts(objects, &puts);
    retrieves.start();
    for (std::size_t i = 0; i < sizes.lookups && status == MARU_OK; i += count)
        status = retrieve_all(objects.client, objects.keys, 0, count);
    retrieves.stop();
    if (status != MARU_OK) return refused(objects.client, "retrieve or put", status);
    samples->sets.push_back({puts.per_second(count), sets.per_second(count)});
    samples->gets.push_back(
        {retrieves.per_second((sizes.lookups + count - 1) / count * count), gets.per_second(count)});
    return {};
}

/// Fails only when maru does; a missing redis-server leaves its rows unmeasured.
Result<void> measure_vs_redis(const Objects& objects, const PutSizes& sizes, Report* report) {
    const Row get{"retrieve_vs_redis_get", "ops/s", "GET of 1 MiB from redis-server over a Unix socket",
                  Goal::at_least,          500,     1e6 / redis_get_reference_us};
    const Row set{"put_vs_redis_set", "ops/s", "SET of 1 MiB to the same redis-server",
                  Goal::at_least,     3,       1e6 / redis_set_reference_us};
    auto folder = TemporaryFolder::make();
    if (!folder) return folder.error();
    auto redis = Redis::start(folder->path());
    if (!redis) {
        report->add(not_measured(get, redis.error().text));
        report->add(not_measured(set, redis.error().text));
        return {};
    }
    RedisSamples samples;
    for (int round = -1; round < sizes.rounds; ++round) {
        if (round == 0) samples = {};  // the round before grew the server's memory
        if (auto done = redis_round(objects, sizes, redis->get(), &samples); !done) return done;
    }
    report->add(compare(get, samples.gets));
    report->add(compare(set, samples.sets));
    return {};
}

/// A client with pages of one size and its objects, everything touched once.
struct Side {
    Client client;
    std::unique_ptr<KeySet> keys;
    std::vector<char> source, target;

    static Result<std::unique_ptr<Side>> make(const Domain& domain, std::uint64_t object_bytes,
                                              std::uint64_t volume, std::uint64_t first_key) {
        auto side = std::make_unique<Side>();
        auto client = connect_writer(domain.socket(), object_bytes, volume + volume / 4);
        if (!client) return client.error();
        side->client = std::move(*client);
        side->keys = std::make_unique<KeySet>(first_key, volume / object_bytes, 5);
        side->source.resize(object_bytes);
        side->target.resize(object_bytes, 1);
        Random random(object_bytes);
        for (char& letter : side->source)
            letter = static_cast<char>(random.next());
        if (const auto status = put_all(side->objects()); status != MARU_OK)
            return refused(side->client.get(), "filling the domain: put", status);
        return side;
    }
    Objects objects() { return {client.get(), *keys, source.size(), source, target}; }
    void remove() {
        for (std::size_t i = 0; i < keys->size(); ++i)
            maru_remove(client.get(), keys->data(i), key_bytes);
    }
};

Result<void> measure_all(Side& small, Side& large, Side& few, const PutSizes& sizes, Report* report) {
    if (auto done = measure_put_vs_copy(small.objects(), sizes, "put_vs_copy_1m", report); !done) return done;
    if (auto done = measure_put_vs_copy(large.objects(), sizes, "put_vs_copy_4m", report); !done) return done;
    if (auto done = measure_get_vs_memcpy(small.objects(), sizes, report); !done) return done;
    if (auto done = measure_vs_redis(small.objects(), sizes, report); !done) return done;
    return measure_vs_tmpfs(few.objects(), sizes, report);
}

}  // namespace

Result<void> run_put(const Request& request) {
    const PutSizes& sizes = request.quick ? quick_put : whole_put;
    auto domain = Domain::start(request, {6 * sizes.volume / MiB, MiB});
    if (!domain) return domain.error();
    auto small = Side::make(**domain, MiB, sizes.volume, 0);
    if (!small) return small.error();
    auto large = Side::make(**domain, 4 * MiB, sizes.volume, 1'000'000);
    if (!large) return large.error();
    auto few = Side::make(**domain, MiB, file_objects * MiB, 2'000'000);
    if (!few) return few.error();
    maru_pool_description pool{};
    pool.size = sizeof pool;
    const bool known = maru_pool_info((*small)->client.get(), 0, &pool) == MARU_OK && pool.base != nullptr;
    Report report(machine_conditions() + "\n" + format_size(sizes.volume) +
                      " of objects take turns, one warm source, " +
                      (known ? pages_of(pool.base) : std::string("pages of unknown size")),
                  request.quick);
    if (auto writable = report.write_json(request.json); !writable) return writable;
    const auto measured = measure_all(**small, **large, **few, sizes, &report);
    if (!(*domain)->is_private())
        for (Side* side : {small->get(), large->get(), few->get()})
            side->remove();
    return report.finish(measured, request.json);
}

}  // namespace maru::bench
