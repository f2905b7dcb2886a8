// `maru-bench reference`: the counterparts by themselves, beside what they are known to reach.
#include "commands.hpp"

#include <cstdio>
#include <vector>

#include "base/size.hpp"
#include "conditions.hpp"
#include "counterpart/key_hash.hpp"
#include "counterpart/memory_copy.hpp"
#include "counterpart/pointer_chase.hpp"
#include "counterpart/redis.hpp"
#include "counterpart/tmpfs_file.hpp"
#include "counterpart/unordered_map.hpp"
#include "keys.hpp"
#include "report.hpp"
#include "shared_file.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr int rounds = 5;
constexpr std::uint64_t object_bytes = MiB;
constexpr std::uint64_t objects = 64;

void print(const std::string& what, std::vector<double> values, const char* unit, const char* known) {
    std::printf("%-44s %10.4g %-6s known %s\n", what.c_str(), median(std::move(values)), unit, known);
    std::fflush(stdout);
}

Result<void> chase_sizes(bool quick) {
    struct Size {
        std::uint64_t bytes;
        const char* known;
    };
    for (const Size size : {Size{MiB, "9"}, Size{64 * MiB, "216"}, Size{GiB, "419"}}) {
        if (quick && size.bytes == GiB) continue;
        auto memory = SharedFile::make("chase", size.bytes);
        if (!memory) return memory.error();
        const PointerChase::Memory range = memory->bytes();
        PointerChase chase({&range, 1});
        const std::uint64_t steps = 500'000;
        chase.run(steps);
        std::vector<double> values;
        for (int round = 0; round < rounds; ++round)
            values.push_back(time_each_ns(steps, [&] { chase.run(steps); }));
        print("pointer chase over " + format_size(size.bytes), values, "ns", size.known);
    }
    return {};
}

Result<void> copies() {
    auto target = SharedFile::make("copy", objects * object_bytes);
    if (!target) return target.error();
    const std::vector<char> source(object_bytes, 'x');
    std::vector<double> plain, streaming;
    const auto rate = [&](auto copy) {
        const double each_ns = time_each_ns(objects, [&] {
            for (std::uint64_t i = 0; i < objects; ++i)
                copy(target->bytes().data() + i * object_bytes, source.data(), object_bytes);
        });
        return static_cast<double>(object_bytes) / each_ns;
    };
    for (int round = 0; round < rounds; ++round) {
        plain.push_back(rate(copy_plain));
        streaming.push_back(rate(copy_non_temporal));
    }
    print("memcpy of 1 MiB into shared memory", plain, "GB/s", "17-18");
    print("non-temporal copy of 1 MiB", streaming, "GB/s", "18-21");
    return {};
}

Result<void> lookups(bool quick) {
    const std::size_t count = quick ? 50'000 : 1'000'000, hot = 1'000;
    const KeySet keys(0, count, 1);
    LockedMap map(count);
    for (std::size_t i = 0; i < count; ++i)
        map.insert(keys.text(i), {keys.data(i), key_bytes});
    const KeySet shuffled(0, count, 2);
    std::vector<double> hashes, finds;
    for (int round = 0; round < rounds; ++round) {
        hashes.push_back(time_each_ns(hot * 200, [&] {
            for (int pass = 0; pass < 200; ++pass)
                for (std::size_t i = 0; i < hot; ++i)
                    hash_key(keys.text(i));
        }));
        finds.push_back(time_each_ns(count, [&] {
            LockedMap::Place place{};
            for (std::size_t i = 0; i < count; ++i)
                keep(map.find(shuffled.text(i), &place));
        }));
    }
    print("XXH3-128 of a key of 80 bytes", hashes, "ns", "-");
    print("unordered_map under shared_mutex, random", finds, "ns", "-");
    return {};
}

// Few objects take turns, so that the caches serve the file best.
Result<void> tmpfs() {
    const std::uint64_t places = 4;
    auto file = TmpfsFile::make(object_bytes, places);
    if (!file) return file.error();
    std::vector<char> buffer(object_bytes, 'x');
    std::vector<double> reads, writes;
    bool whole = true;
    for (int round = 0; round < rounds; ++round) {
        const auto each_us = [&](auto touch) {
            return time_each_ns(objects,
                                [&] {
                                    for (std::uint64_t i = 0; i < objects; ++i)
                                        whole = touch(i % places) && whole;
                                }) /
                   1e3;
        };
        reads.push_back(each_us([&](std::uint64_t i) { return file->read(i, buffer.data()); }));
        writes.push_back(each_us([&](std::uint64_t i) { return file->write(i, buffer.data()); }));
    }
    if (!whole) return Error{Code::unavailable, "a read or write of a file in /dev/shm failed"};
    print("tmpfs pread of 1 MiB", reads, "us", "108");
    print("tmpfs pwrite of 1 MiB over existing", writes, "us", "114");
    return {};
}

Result<void> redis() {
    auto folder = TemporaryFolder::make();
    if (!folder) return folder.error();
    auto server = Redis::start(folder->path());
    if (!server) return server.error();
    const KeySet keys(0, objects, 0);
    std::vector<char> buffer(object_bytes, 'x');
    std::vector<double> sets, gets;
    for (int round = 0; round < rounds + 1; ++round) {
        Result<void> done;
        const auto each_us = [&](auto call) {
            return time_each_ns(objects,
                                [&] {
                                    for (std::size_t i = 0; i < objects && done; ++i)
                                        done = call(keys.text(i));
                                }) /
                   1e3;
        };
        const double set_us =
            each_us([&](auto key) { return (*server)->set(key, buffer.data(), object_bytes); });
        const double get_us =
            each_us([&](auto key) { return (*server)->get(key, buffer.data(), object_bytes); });
        if (!done) return done;
        if (round == 0) continue;  // the first one grows the server's memory
        sets.push_back(set_us);
        gets.push_back(get_us);
    }
    print("redis-server SET of 1 MiB", sets, "us", "217");
    print("redis-server GET of 1 MiB", gets, "us", "218");
    return {};
}

}  // namespace

Result<void> run_reference(const Request& request) {
    std::printf("%s\n\n", machine_conditions().c_str());
    if (auto done = chase_sizes(request.quick); !done) return done;
    if (auto done = copies(); !done) return done;
    if (auto done = lookups(request.quick); !done) return done;
    if (auto done = tmpfs(); !done) return done;
    return redis();
}

}  // namespace maru::bench
