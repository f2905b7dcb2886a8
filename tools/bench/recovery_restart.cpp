// Rows of `maru-bench recovery` about a daemon that is killed and started again, while another process reads,
// stores and removes.
#include <time.h>

#include <cstdio>
#include <vector>

#include "counterpart/record_copy.hpp"
#include "recovery.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr std::chrono::milliseconds worker_limit{60'000};
constexpr std::uint64_t restart_limit_ns = 60'000'000'000;
constexpr long look_ns = 200'000;

/// Milliseconds from the kill until a new client is connected.
Result<double> restart_ms(const Recovery& recovery) {
    const std::uint64_t killed_ns = now_ns();
    if (auto restarted = recovery.domain.restart(); !restarted) return restarted.error();
    for (;;) {
        auto client = connect_reader(recovery.domain.socket());
        const std::uint64_t looked_ns = now_ns();
        if (client) return static_cast<double>(looked_ns - killed_ns) / 1e6;
        if (looked_ns - killed_ns > restart_limit_ns) return client.error();
        const timespec pause{0, look_ns};
        ::nanosleep(&pause, nullptr);
    }
}

/// The clients of before are served again.
Result<void> wait_for_old_clients(const Recovery& recovery) {
    maru_status status = MARU_ERR_UNAVAILABLE;
    const std::uint64_t began_ns = now_ns();
    while (status != MARU_OK && now_ns() - began_ns < restart_limit_ns)
        status = maru_ping(recovery.client);
    if (status != MARU_OK) return refused(recovery.client, "ping after a restart", status);
    return {};
}

struct Steady {
    std::uint64_t calls = 0, failed = 0;
    std::string first_error;
};

/// Lets the other process work while `during` runs; what came of its calls is added to `total`.
template <class During>
Result<void> meanwhile(Process& worker, Steady& total, During&& during) {
    if (auto told = worker.write_line("go"); !told) return told;
    if (auto begun = worker.read_line(worker_limit); !begun) return begun.error();
    const auto done = during();
    if (auto told = worker.write_line("stop"); !told) return told;
    const auto answer = worker.read_line(worker_limit);
    if (!answer) return answer.error();
    unsigned long long calls = 0, failed = 0;
    int rest = 0;
    if (std::sscanf(answer->c_str(), "%llu %llu %n", &calls, &failed, &rest) != 2)
        return Error{Code::invalid, "steady process: not an answer: " + *answer};
    total.calls += calls;
    total.failed += failed;
    if (total.first_error.empty()) total.first_error = answer->substr(static_cast<std::size_t>(rest));
    return done;
}

}  // namespace

Result<void> measure_daemon_restart(const Recovery& recovery) {
    auto worker = Process::start({own_program(), "steady", "--socket", recovery.domain.socket(), "--objects",
                                  std::to_string(recovery.sizes.objects)},
                                 Process::Streams::piped);
    if (!worker) return worker.error();
    if (const auto ready = worker->read_line(worker_limit); !ready) return ready.error();
    RecordCopy copy(recovery.control);
    std::vector<Sample> samples;
    std::vector<double> times_ms;
    Steady steady;
    for (int round = -1; round < recovery.sizes.rounds; ++round) {  // the first one is for the caches
        const double copy_ms = copy.pass_ms();
        double value_ms = 0;
        auto done = meanwhile(*worker, steady, [&]() -> Result<void> {
            const auto restarted = restart_ms(recovery);
            if (!restarted) return restarted.error();
            value_ms = *restarted;
            return wait_for_old_clients(recovery);
        });
        if (!done) return done;
        if (round < 0) continue;
        samples.push_back({value_ms, copy_ms});
        times_ms.push_back(value_ms);
    }
    recovery.report.add(compare(
        {"daemon_restart", "ms",
         "one pass of memcpy over the page records; value: SIGKILL of the daemon until the next one has "
         "served a connect",
         Goal::at_most, 10},
        samples));
    recovery.report.add(
        absolute({"daemon_restart_ms", "ms", "", Goal::at_most, 500}, times_ms, median(times_ms)));
    const std::vector<double> failed(samples.size(), static_cast<double>(steady.failed));
    Figure figure = absolute({"daemon_restart_failed_calls", "calls",
                              "(none) retrievals, stores and removals of another process that failed during "
                              "all restarts",
                              Goal::at_most, 0},
                             failed);
    figure.note = "of " + std::to_string(steady.calls) + " calls" +
                  (steady.first_error.empty() ? "" : "; the first: " + steady.first_error);
    recovery.report.add(std::move(figure));
    return {};
}

}  // namespace maru::bench
