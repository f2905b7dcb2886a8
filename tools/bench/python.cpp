// `maru-bench python`: the Python package beside the C calls under it.
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/size.hpp"
#include "commands.hpp"
#include "conditions.hpp"
#include "engine.hpp"
#include "private_domain.hpp"
#include "process.hpp"
#include "python_worker.hpp"
#include "report.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

struct PythonSizes {
    std::size_t objects, slice;  // in the domain, looked up in one round
    std::size_t hot_passes, put_passes;
    int rounds;
};
constexpr PythonSizes whole_python{1'000'000, 1u << 17, 100, 4, 11};
constexpr PythonSizes quick_python{50'000, 1u << 14, 10, 1, 5};

constexpr std::size_t hot_keys = 1'000, batch = 256, put_objects = 64;
constexpr std::uint64_t lookup_page_bytes = 4096, put_page_bytes = MiB;
constexpr std::chrono::milliseconds answer_limit{120'000};

// What the earlier Maru, written in Python, was measured to need, over fewer objects than the 1,000 hot ones
// here; its faster, synchronous mode.
constexpr double earlier_retrieve_ns = 204'000, earlier_batch_keys_per_s = 75'000;

/// One Python process with one handler.
class Python {
  public:
    static Result<Python> start(const Request& request, const Domain& domain, const KeySet& keys,
                                std::uint64_t page_bytes, std::uint64_t pool_bytes) {
        Python made;
        auto folder = TemporaryFolder::make();
        if (!folder) return folder.error();
        made.folder_ = std::move(*folder);
        const std::string key_file = made.folder_.path() + "/keys";
        std::ofstream(key_file, std::ios::binary)
            .write(keys.data(0), static_cast<std::streamsize>(keys.size() * key_bytes));
        const std::string program = find_program(request.python);
        if (program.empty())
            return Error{Code::unavailable,
                         "no program " + request.python + ": --python names the interpreter"};
        auto process = Process::start(
            {program, "-c", python_worker, modules(), domain.socket(), key_file, std::to_string(key_bytes),
             std::to_string(page_bytes), std::to_string(pool_bytes)},
            Process::Streams::piped);
        if (!process) return process.error();
        made.process_ = std::move(*process);
        if (auto line = made.process_.read_line(answer_limit); !line || *line != "ready")
            return Error{
                Code::unavailable,
                "the Python process did not get ready: is the package maru installed for " + program + "?"};
        return made;
    }

    /// Nanoseconds for one operation over keys [first, first + count).
    Result<double> measure(const char* what, std::size_t first, std::size_t count, std::size_t passes = 1) {
        std::ostringstream order;
        order << what << ' ' << first << ' ' << count << ' ' << passes;
        if (auto sent = process_.write_line(order.str()); !sent) return sent.error();
        const auto line = process_.read_line(answer_limit);
        if (!line) return line.error();
        double ns = 0;
        if (!(std::istringstream(*line) >> ns) || !(ns > 0))
            return Error{Code::invalid, "the Python process answered " + *line};
        return ns;
    }

  private:
    // The package of the build folder that this program stands in; an installed one needs no help.
    static std::string modules() {
        const std::string beside = own_folder() + "/../../src/python";
        return std::ifstream(beside + "/maru/__init__.py") ? beside : "";
    }

    TemporaryFolder folder_;
    Process process_;
};

maru_status c_batches(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count) {
    std::array<maru_view, batch> views;
    std::array<maru_status, batch> statuses;
    for (std::size_t i = first; i < first + count; i += batch) {
        maru_status status = maru_retrieve_batch(client, keys.batch(i), views.data(), statuses.data(), batch);
        if (status == MARU_OK) status = maru_release_batch(client, views.data(), batch);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

struct LookupSamples {
    std::vector<Sample> hot, random, batch;
    std::vector<double> absolute_ns, absolute_keys_per_s;
};

Result<void> lookup_round(maru_client* client, Python& python, const KeySet& keys, const PythonSizes& sizes,
                          std::size_t first, LookupSamples* samples) {
    maru_status status = MARU_OK;
    const double c_hot = time_each_ns(hot_keys * sizes.hot_passes, [&] {
        for (std::size_t pass = 0; pass < sizes.hot_passes && status == MARU_OK; ++pass)
            status = retrieve_all(client, keys, 0, hot_keys);
    });
    const auto hot = python.measure("retrieve", 0, hot_keys, sizes.hot_passes);
    const double c_random = time_each_ns(sizes.slice, [&] {
        if (status == MARU_OK) status = retrieve_all(client, keys, first, sizes.slice);
    });
    const auto random = python.measure("retrieve", first, sizes.slice);
    const double c_batch = time_each_ns(sizes.slice, [&] {
        if (status == MARU_OK) status = c_batches(client, keys, first, sizes.slice);
    });
    const auto batched = python.measure("batch", first, sizes.slice);
    const auto hot_batched = python.measure("batch", 0, hot_keys, sizes.hot_passes);
    if (status != MARU_OK) return refused(client, "retrieve", status);
    for (const auto* answer : {&hot, &random, &batched, &hot_batched})
        if (!*answer) return answer->error();
    samples->hot.push_back({*hot, c_hot});
    samples->random.push_back({*random, c_random});
    samples->batch.push_back({*batched, c_batch});
    samples->absolute_ns.push_back(*hot);
    samples->absolute_keys_per_s.push_back(1e9 / *hot_batched);
    return {};
}

Result<void> measure_lookups(const Request& request, const PythonSizes& sizes, Report* report) {
    auto domain = Domain::start(request, {sizes.objects + 4096, lookup_page_bytes});
    if (!domain) return domain.error();
    auto client = connect_writer((*domain)->socket(), lookup_page_bytes, sizes.objects * lookup_page_bytes);
    if (!client) return client.error();
    const KeySet keys(0, sizes.objects, 1);
    if (const auto status = store_all(client->get(), keys, 0, keys.size(), lookup_page_bytes);
        status != MARU_OK)
        return refused(client->get(), "store", status);
    auto python = Python::start(request, **domain, keys, lookup_page_bytes, lookup_page_bytes);
    if (!python) return python.error();
    // The first pass of a process meets every page of the tables for the first time.
    if (auto warm = python->measure("batch", 0, sizes.objects); !warm) return warm.error();
    if (const auto status = retrieve_all(client->get(), keys, 0, keys.size()); status != MARU_OK)
        return refused(client->get(), "retrieve", status);
    LookupSamples samples;
    const std::size_t slices = sizes.objects / sizes.slice;
    for (int round = -1; round < sizes.rounds; ++round) {
        if (round == 0) samples = {};
        const std::size_t first = static_cast<std::size_t>(round + 1) % slices * sizes.slice;
        if (auto done = lookup_round(client->get(), *python, keys, sizes, first, &samples); !done)
            return done;
    }
    if (!(*domain)->is_private()) (void)remove_all(client->get(), keys, 0, keys.size());
    report->add(compare(
        {"py_retrieve", "ns", "the C call; retrieve + drop, 1,000 hot keys", Goal::at_most, 5}, samples.hot));
    report->add(
        compare({"py_retrieve_random", "ns", "the C call; retrieve + drop, random keys", Goal::at_most, 5},
                samples.random));
    report->add(compare(
        {"py_batch_retrieve", "ns", "the C call; batch_retrieve(256), for each key", Goal::at_most, 3},
        samples.batch));
    report->add(
        absolute({"py_retrieve_absolute", "ns", "204 us of the earlier Maru, divided by 200; 1,000 hot keys",
                  Goal::at_most, earlier_retrieve_ns / 200},
                 samples.absolute_ns));
    report->add(absolute({"py_batch_retrieve_absolute", "keys/s",
                          "75,000 keys/s of the earlier Maru, times 100; batches of 256, 1,000 hot keys",
                          Goal::at_least, earlier_batch_keys_per_s * 100},
                         samples.absolute_keys_per_s));
    return {};
}

Result<double> c_puts(maru_client* client, const KeySet& keys, const std::vector<char>& data,
                      std::size_t passes) {
    Stopwatch watch;
    for (std::size_t pass = 0; pass < passes; ++pass) {
        for (std::size_t i = 0; i < keys.size(); ++i)
            (void)maru_remove(client, keys.data(i), key_bytes);
        watch.start();
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const auto status = maru_put(client, keys.data(i), key_bytes, data.data(), data.size());
            if (status != MARU_OK) return refused(client, "put", status);
        }
        watch.stop();
    }
    return watch.ns_each(keys.size() * passes);
}

Result<void> measure_puts(const Request& request, const PythonSizes& sizes, Report* report) {
    constexpr std::uint64_t pool_bytes = 2 * put_objects * put_page_bytes;
    auto domain = Domain::start(request, {6 * put_objects, put_page_bytes});
    if (!domain) return domain.error();
    auto client = connect_writer((*domain)->socket(), put_page_bytes, pool_bytes);
    if (!client) return client.error();
    const KeySet keys(0, put_objects, 0);
    auto python = Python::start(request, **domain, keys, put_page_bytes, pool_bytes);
    if (!python) return python.error();
    const std::vector<char> data(put_page_bytes, 42);
    std::vector<Sample> samples;
    for (int round = -2; round < sizes.rounds; ++round) {  // two for pages that nobody touched before
        const auto plain = c_puts(client->get(), keys, data, sizes.put_passes);
        if (!plain) return plain.error();
        const auto stored = python->measure("put", 0, put_objects, sizes.put_passes);
        if (!stored) return stored.error();
        if (round >= 0) samples.push_back({*stored / 1000, *plain / 1000});
    }
    if (!(*domain)->is_private()) (void)remove_all(client->get(), keys, 0, keys.size());
    report->add(
        compare({"py_store_data", "us", "the C put; store(key, data=1 MiB), warm pages", Goal::at_most, 1.1},
                samples));
    return {};
}

}  // namespace

Result<void> run_python(const Request& request) {
    const PythonSizes& sizes = request.quick ? quick_python : whole_python;
    Report report(machine_conditions() + "\n" + std::to_string(sizes.objects) + " objects, keys of " +
                      std::to_string(key_bytes) + " bytes as str, warm",
                  request.quick);
    if (auto writable = report.write_json(request.json); !writable) return writable;
    auto measured = measure_lookups(request, sizes, &report);
    if (measured) measured = measure_puts(request, sizes, &report);
    return report.finish(measured, request.json);
}

}  // namespace maru::bench
