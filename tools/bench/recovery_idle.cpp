// Rows of `maru-bench recovery` that are what the daemon takes for itself: processor time while nothing
// happens, and memory.
#include <time.h>

#include <numeric>
#include <vector>

#include "base/size.hpp"
#include "recovery.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr unsigned slices = 6;
constexpr std::uint64_t settling_ns = 3'000'000'000;  // to notice that nothing happens any more
constexpr std::chrono::milliseconds program_limit{10'000};
constexpr double overhead_bound_percent = 0.1;

void sleep_ns(std::uint64_t ns) {
    timespec pause{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    while (::nanosleep(&pause, &pause) != 0) {
    }
}

Result<double> processor_seconds(pid_t process) {
    clockid_t clock = 0;
    timespec used{};
    if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
        return Error{Code::unavailable, "the processor time of the daemon cannot be read"};
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

/// "832.3 MiB" behind "control region " in the line about a pool.
Result<double> control_bytes_in(const std::string& line) {
    const std::string before = ", control region ";
    const auto at = line.find(before);
    const auto end = line.find(" (", at);
    if (at == line.npos || end == line.npos)
        return Error{Code::invalid, "--check-config does not say how large the control region is"};
    const auto bytes = parse_size(line.substr(at + before.size(), end - at - before.size()));
    if (!bytes) return bytes.error();
    return static_cast<double>(*bytes);
}

Result<double> overhead_percent(const std::string& daemon) {
    auto explained = Process::start(
        {daemon, "--check-config", "--pool", "shm:bench:1TiB", "--socket", "/nowhere/maru.sock"},
        Process::Streams::piped);
    if (!explained) return explained.error();
    for (;;) {
        const auto line = explained->read_line(program_limit);
        if (!line) return line.error();
        if (!line->starts_with("# pool 'bench': ")) continue;
        const auto bytes = control_bytes_in(*line);
        if (!bytes) return bytes.error();
        return *bytes / static_cast<double>(TiB) * 100;
    }
}

}  // namespace

void measure_idle_processor(const Recovery& recovery, unsigned seconds) {
    const Row row{"idle_cpu", "s",
                  "(none) processor seconds of the daemon in a minute; a client is connected and idle",
                  Goal::at_most, 0.05};
    sleep_ns(settling_ns);
    std::vector<double> a_minute;
    for (unsigned slice = 0; slice < slices; ++slice) {
        const auto before = processor_seconds(recovery.domain.daemon_pid());
        const std::uint64_t began_ns = now_ns();
        sleep_ns(seconds * 1'000'000'000ull / slices);
        const auto after = processor_seconds(recovery.domain.daemon_pid());
        if (!before || !after)
            return recovery.report.add(not_measured(row, (before ? after : before).error().text));
        a_minute.push_back((*after - *before) * 60e9 / static_cast<double>(now_ns() - began_ns));
    }
    const double mean = std::accumulate(a_minute.begin(), a_minute.end(), 0.0) / slices;
    Figure figure = absolute(row, a_minute, mean);
    figure.note = "measured over " + std::to_string(seconds) + " s in " + std::to_string(slices) + " slices";
    recovery.report.add(std::move(figure));
}

void measure_control_overhead(const Recovery& recovery) {
    const Row row{"control_overhead", "%",
                  "(none) control region of a pool of 1 TiB, as --check-config says, in percent of the pool",
                  Goal::at_most, overhead_bound_percent};
    std::vector<double> percents;
    for (int round = 0; round < recovery.sizes.rounds; ++round) {
        const auto percent = overhead_percent(recovery.domain.program());
        if (!percent) return recovery.report.add(not_measured(row, percent.error().text));
        percents.push_back(*percent);
    }
    recovery.report.add(absolute(row, percents));
}

}  // namespace maru::bench
