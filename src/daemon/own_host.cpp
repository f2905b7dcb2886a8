#include "daemon/own_host.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "base/clock.hpp"
#include "daemon/process.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds look_pause{100};

/// 128 bits of a text, for the host entry.
void hash_text(const std::string& text, std::uint64_t (&halves)[2]) {
    halves[0] = 0xcbf29ce484222325u;  // FNV-1a, over two offsets
    halves[1] = 0x84222325cbf29ce4u;
    for (const char letter : text)
        for (auto& half : halves)
            half = (half ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
}

bool asked_to_end(std::chrono::milliseconds wait) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    const timespec span{wait.count() / 1000, (wait.count() % 1000) * 1'000'000};
    return ::sigtimedwait(&ends, nullptr, &span) > 0;  // they are blocked in every thread
}

}  // namespace

std::string host_id_of(const Config& config) {
    if (!config.daemon.host_id.empty()) return config.daemon.host_id;
    if (std::string id = first_line("/etc/machine-id"); !id.empty()) return id;
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? std::string(name)
                                                                     : std::string("localhost");
}

table::HostFacts own_host(const Config& config) {
    table::HostFacts facts;
    facts.name = host_id_of(config);
    hash_text(facts.name, facts.id);
    const BootId boot = own_boot_id();
    facts.boot[0] = boot.halves[0];
    facts.boot[1] = boot.halves[1];
    return facts;
}

std::string boot_text(const table::HostFacts& facts) {
    Uuid boot;
    std::memcpy(boot.bytes.data(), facts.boot, sizeof facts.boot);
    return boot.text();
}

Result<bool> beats_within(const table::Control& control, const table::HostView& host,
                          std::chrono::milliseconds grace) {
    const auto deadline = MonotonicClock::now() + grace;
    while (MonotonicClock::now() < deadline) {
        if (asked_to_end(look_pause)) return Error{Code::contended, "told to end while it waited for a host"};
        const auto now = table::read_host(control, host.number);
        if (!now || now->generation != host.generation || now->beat != host.beat) return true;
        if (now->phase != table::HostPhase::active) return false;  // fenced by a third host
    }
    return false;
}

}  // namespace maru::daemon
