// Rows of `maru-bench recovery` about a client that is killed. The end is seen in the domain's tables: every
// page it had reserved FREE, or its whole region given back; every pin word of its chunks empty; the chunks
// and the client slot nobody's.
#include <signal.h>
#include <time.h>

#include <vector>

#include "counterpart/record_copy.hpp"
#include "recovery.hpp"
#include "stopwatch.hpp"
#include "table/pins.hpp"

namespace maru::bench {
namespace {

using namespace table;

constexpr std::chrono::milliseconds worker_limit{60'000};
constexpr std::uint64_t death_limit_ns = 30'000'000'000;
constexpr long look_ns = 20'000;

/// What a client holds, found in the tables.
struct Holdings {
    Identity who;
    std::vector<std::uint32_t> pages;   // records that it has reserved
    std::vector<std::uint32_t> chunks;  // of pin words
    std::size_t pins = 0;               // leases and key pins
};

Result<Identity> client_of(const Control& control, pid_t process) {
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const ClientEntry& entry = control.client(slot);
        const std::uint64_t state = entry.state.load(shm::acquire);
        if (client_state::phase(state) == ClientPhase::active &&
            entry.pid.load(shm::relaxed) == static_cast<std::uint32_t>(process))
            return Identity{slot, client_state::generation(state)};
    }
    return Error{Code::miss, "the process that is to be killed has no client slot"};
}

Holdings holdings_of(const Control& control, Identity who) {
    Holdings found{who, {}, {}, 0};
    for (std::uint32_t number = 1; number < control.record_count(); ++number) {
        const State state = State::unpack(control.record(number).state.load(shm::acquire));
        if (state.phase == Phase::reserved && state.owner == who.owner()) found.pages.push_back(number);
    }
    for (std::uint32_t number = 0; number < control.chunk_count(); ++number) {
        const PinChunk& chunk = control.chunk(number);
        if (chunk.owner.load(shm::acquire) != who.holder_word()) continue;
        found.chunks.push_back(number);
        for (const auto& place : chunk.pins) {
            const PinKind kind = pin::kind(place.load(shm::acquire));
            found.pins += kind == PinKind::lease || kind == PinKind::key;
        }
    }
    return found;
}

bool all_is_back(const Control& control, const Holdings& held) {
    const std::uint64_t slot = control.client(held.who.slot).state.load(shm::acquire);
    if (slot != client_state::pack(ClientPhase::free, held.who.generation + 1)) return false;
    for (const std::uint32_t number : held.pages) {
        // SEALED: with its last page free the whole region went back.
        const Phase phase = phase_of(control.record(number).state.load(shm::acquire));
        if (phase != Phase::free && phase != Phase::sealed) return false;
    }
    for (const std::uint32_t number : held.chunks) {
        const PinChunk& chunk = control.chunk(number);
        if (chunk.owner.load(shm::acquire) != 0) return false;
        for (const auto& place : chunk.pins)
            if (place.load(shm::acquire) != 0) return false;
    }
    return true;
}

/// Kills a client that holds much; milliseconds until all of it is back.
Result<double> death_ms(const Recovery& recovery) {
    const RecoverySizes& sizes = recovery.sizes;
    auto victim = Process::start({own_program(), "holder", "--socket", recovery.domain.socket(), "--pages",
                                  std::to_string(sizes.pages), "--pins", std::to_string(sizes.pins)},
                                 Process::Streams::piped);
    if (!victim) return victim.error();
    if (const auto ready = victim->read_line(worker_limit); !ready) return ready.error();
    const auto who = client_of(recovery.control, victim->pid());
    if (!who) return who.error();
    const Holdings held = holdings_of(recovery.control, *who);
    if (held.pages.size() < sizes.pages || held.pins < sizes.pins)
        return Error{Code::damaged, "the client that is to be killed holds " +
                                        std::to_string(held.pages.size()) + " pages and " +
                                        std::to_string(held.pins) + " pins, fewer than were asked for"};
    const std::uint64_t killed_ns = now_ns();
    victim->signal(SIGKILL);
    for (;;) {
        const std::uint64_t looked_ns = now_ns();
        if (all_is_back(recovery.control, held)) return static_cast<double>(looked_ns - killed_ns) / 1e6;
        if (looked_ns - killed_ns > death_limit_ns)
            return Error{Code::timeout, "30 s after its end what a client held is not back"};
        const timespec pause{0, look_ns};  // the daemon needs the processor
        ::nanosleep(&pause, nullptr);
    }
}

}  // namespace

Result<void> measure_client_death(const Recovery& recovery) {
    RecordCopy copy(recovery.control);
    std::vector<Sample> samples;
    std::vector<double> times_ms;
    for (int round = -1; round < recovery.sizes.rounds; ++round) {  // the first one is for the caches
        const double copy_ms = copy.pass_ms();
        const auto value_ms = death_ms(recovery);
        if (!value_ms) return value_ms.error();
        if (round < 0) continue;
        samples.push_back({*value_ms, copy_ms});
        times_ms.push_back(*value_ms);
    }
    const std::string held = std::to_string(recovery.sizes.pages) + " unpublished pages and " +
                             std::to_string(recovery.sizes.pins) + " pins (half leases, half key pins)";
    recovery.report.add(
        compare({"client_death", "ms",
                 "one pass of memcpy over the page records; value: SIGKILL of a client with " + held +
                     " until all is back",
                 Goal::at_most, 5},
                samples));
    recovery.report.add(
        absolute({"client_death_ms", "ms", "", Goal::at_most, 250}, times_ms, median(times_ms)));
    return {};
}

}  // namespace maru::bench
