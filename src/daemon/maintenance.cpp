#include "daemon/maintenance.hpp"

#include <spdlog/spdlog.h>

#include <iterator>
#include <numeric>
#include <utility>

#include "base/clock.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds busy_beat{100}, idle_beat{1000};

std::uint64_t monotonic_seconds() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::seconds>(MonotonicClock::now().time_since_epoch()).count());
}

}  // namespace

Maintenance::Maintenance(Loop& loop, table::Worker& worker, Reaper& reaper, Hosts& hosts, Evictor& evictor,
                         const Config& config, DaemonFacts& facts)
    : loop_(loop),
      worker_(worker),
      reaper_(reaper),
      hosts_(hosts),
      evictor_(evictor),
      config_(config),
      facts_(facts),
      expiry_(worker.control()),
      expired_of_(worker.control().client_count()) {}

Maintenance::~Maintenance() {
    loop_.cancel(timer_);
}

void Maintenance::start() {
    last_second_ = monotonic_seconds();
    arm();
}

void Maintenance::arm() {
    is_idle_ = is_quiet_ || reaper_.watched() == 0;
    timer_ = loop_.after(is_idle_ ? idle_beat : busy_beat, [this] { beat(); });
}

void Maintenance::wake() {
    is_quiet_ = false;
    if (!is_idle_ || timer_ == 0) return;
    loop_.cancel(std::exchange(timer_, 0));
    arm();
}

void Maintenance::beat() {
    timer_ = 0;
    // First: a host that was fenced while it stood still must not do anything that only a living one may.
    if (const Standing standing = hosts_.beat(); standing != Standing::current) return on_lost(standing);
    table::advance_epoch(worker_.control());
    const std::uint64_t now_s = monotonic_seconds();
    const bool was_quiet = is_quiet_;  // whoever was woken looks once, also when nobody has worked since
    if (now_s != last_second_) each_second(now_s);
    if (!was_quiet || !is_quiet_) evictor_.look();
    arm();
}

void Maintenance::each_second(std::uint64_t now_s) {
    // Relaxed: ages are approximate, nothing is ordered by them. A stopped daemon's missing seconds are
    // caught up.
    if (hosts_.leads()) worker_.control().super().tick.fetch_add(now_s - last_second_, shm::relaxed);
    last_second_ = now_s;
    worker_.retry_retired();
    reaper_.look_at_locks();
    hosts_.look_at_others();
    expire_key_pins(now_s);
    look_for_work();
}

/// A slow epoch costs time, never correctness: until it moves, who evicts looks at the pins. Clients that go
/// on after a rest wait up to a second for the quick pace.
void Maintenance::look_for_work() {
    const table::Counts counts = table::count_all(worker_.control());
    const std::uint64_t work_done =
        std::accumulate(std::begin(counts.of), std::end(counts.of), std::uint64_t{0});
    is_quiet_ = work_done == work_done_;
    work_done_ = work_done;
}

void Maintenance::expire_key_pins(std::uint64_t now_s) {
    const auto ttl_ms = static_cast<std::uint64_t>(config_.control.key_pin_ttl.count());
    if (ttl_ms == 0) return;
    const std::uint64_t expired = expiry_.pass(now_s, (ttl_ms + 999) / 1000, &expired_of_);
    facts_.expired_key_pins += expired;
    for (std::uint32_t slot = 0; expired != 0 && slot < expired_of_.size(); ++slot)
        if (const auto count = std::exchange(expired_of_[slot], 0); count != 0 && facts_.key_pins_expired)
            facts_.key_pins_expired(slot, count);
    if (expired != 0) spdlog::info("{} key pins older than {} ms have ended", expired, ttl_ms);
}

}  // namespace maru::daemon
