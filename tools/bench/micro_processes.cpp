// Rows of `maru-bench micro` that look at whole processes: two at once, and their system calls.
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "commands.hpp"
#include "micro.hpp"
#include "process.hpp"

namespace maru::bench {
namespace {

constexpr std::chrono::milliseconds ready_limit{120'000};
constexpr std::chrono::milliseconds trace_limit{120'000};
constexpr int trace_rounds = 5;
constexpr std::uint64_t few_hits = 1'000, many_hits = 1'000'000;

using Workers = std::array<Process, 2>;

Result<Workers> start_workers(const Bench& bench) {
    Workers workers;
    for (std::size_t i = 0; i < workers.size(); ++i) {
        auto worker =
            Process::start({own_program(), "worker", "--socket", bench.domain.socket(), "--objects",
                            std::to_string(bench.sizes.objects), "--order", std::to_string(100 + i)},
                           Process::Streams::piped);
        if (!worker) return worker.error();
        workers[i] = std::move(*worker);
    }
    for (Process& worker : workers) {
        const auto line = worker.read_line(ready_limit);
        if (!line) return line.error();
    }
    return workers;
}

/// Retrievals of the first `count` workers together, in millions a second. All wait at their pipes and get
/// the order within microseconds of each other; each counts over its own span.
Result<double> total_rate(Workers& workers, std::size_t count, const char* what, std::uint64_t span_ns) {
    const std::string order = std::string(what) + " " + std::to_string(span_ns);
    for (std::size_t i = 0; i < count; ++i)
        if (auto sent = workers[i].write_line(order); !sent) return sent.error();
    double rate = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto line = workers[i].read_line(ready_limit);
        if (!line) return line.error();
        double operations = 0, ns = 0;
        if (!(std::istringstream(*line) >> operations >> ns) || !(ns > 0))
            return Error{Code::invalid, "a worker answered " + *line};
        rate += operations * 1e3 / ns;
    }
    return rate;
}

Result<std::vector<Sample>> process_rounds(const Bench& bench, Workers& workers, const char* what) {
    std::vector<Sample> samples;
    for (int round = -1; round < bench.sizes.rounds; ++round) {
        const auto alone = total_rate(workers, 1, what, bench.sizes.span_ns);
        if (!alone) return alone.error();
        const auto both = total_rate(workers, 2, what, bench.sizes.span_ns);
        if (!both) return both.error();
        if (round >= 0) samples.push_back({*both, *alone});
    }
    return samples;
}

// Lines of an `strace -f` between the marks: calls of every thread of the client, begun while it retrieves.
// Connecting and closing are left out: how often two threads wait for each other there differs from run to
// run.
Result<std::uint64_t> calls_between_marks(const std::string& file) {
    std::ifstream in(file);
    bool inside = false;
    std::uint64_t calls = 0;
    for (std::string line; std::getline(in, line);) {
        if (line.find(hits_end) != line.npos && inside) return calls;
        if (inside && line.find(" resumed>") == line.npos && line.find('(') != line.npos) ++calls;
        if (line.find(hits_begin) != line.npos) inside = true;
    }
    return Error{Code::unavailable, "strace shows no retrievals in " + file + ": may this user trace?"};
}

Result<std::uint64_t> calls_of(const Bench& bench, const std::string& strace, const std::string& folder,
                               std::uint64_t hits) {
    const std::string file = folder + "/strace";
    auto traced = Process::start({strace, "-f", "-o", file, own_program(), "hits", "--socket",
                                  bench.domain.socket(), "--hits", std::to_string(hits)});
    if (!traced) return traced.error();
    const auto status = traced->wait(trace_limit);
    if (!status) return status.error();
    if (*status != 0)
        return Error{Code::unavailable, "a traced client ended with status " + std::to_string(*status)};
    return calls_between_marks(file);
}

}  // namespace

Result<void> measure_two_processes(const Bench& bench) {
    auto workers = start_workers(bench);
    if (!workers) return workers.error();
    const auto random = process_rounds(bench, *workers, "all");
    if (!random) return random.error();
    const auto hot = process_rounds(bench, *workers, "hot");
    if (!hot) return hot.error();
    bench.report.add(compare({"two_processes", "Mops/s",
                              "one process; value: two at once, total; random keys", Goal::at_least, 1.8},
                             *random));
    bench.report.add(compare({"two_processes_hot_key", "Mops/s",
                              "one process; value: two at once, total; one key", Goal::at_least, 1.8},
                             *hot));
    return {};
}

void measure_system_calls(const Bench& bench) {
    const Row row{"syscalls", "calls",
                  "(none) system calls during 1,000,000 hits minus those during 1,000 hits, strace -f",
                  Goal::at_most, 0};
    const std::string strace = find_program("strace");
    if (strace.empty())
        return bench.report.add(not_measured(row, "strace is missing: apt-get install strace"));
    const auto folder = TemporaryFolder::make();
    if (!folder) return bench.report.add(not_measured(row, folder.error().text));
    std::vector<double> differences;
    std::uint64_t few_calls = 0, many_calls = 0;
    for (int round = 0; round < trace_rounds; ++round) {
        const auto few = calls_of(bench, strace, folder->path(), few_hits);
        if (!few) return bench.report.add(not_measured(row, few.error().text));
        const auto many = calls_of(bench, strace, folder->path(), many_hits);
        if (!many) return bench.report.add(not_measured(row, many.error().text));
        differences.push_back(std::abs(static_cast<double>(*many) - static_cast<double>(*few)));
        few_calls = *few;
        many_calls = *many;
    }
    Figure figure = absolute(row, differences);
    figure.note = "last round: " + std::to_string(few_calls) + " calls during 1,000 hits, " +
                  std::to_string(many_calls) + " during 1,000,000";
    bench.report.add(std::move(figure));
}

}  // namespace maru::bench
