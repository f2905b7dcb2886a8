#include "daemon/evictor.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/size.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds evictor_budget{1}, pause_between{1};
// So few that their victims' scans of all pins end within the slice's time.
constexpr std::uint32_t granules_a_step = 4;
constexpr int rounds_without_eviction = 2;  // the first takes the second chances

}  // namespace

Evictor::Evictor(Loop& loop, table::Worker& worker, const Hosts& hosts, const Config& config)
    : loop_(loop), worker_(worker), hosts_(hosts), config_(config) {}

Evictor::~Evictor() {
    loop_.cancel(timer_);
}

bool Evictor::is_wanted() const {
    return config_.eviction.policy != "none" && hosts_.leads();
}

std::uint64_t Evictor::part_of(const table::Room& room, double percent) const {
    return static_cast<std::uint64_t>(static_cast<double>(room.total) * percent / 100);
}

void Evictor::look() {
    if (timer_ != 0 || config_.eviction.low_free_percent <= 0 || !is_wanted()) return;
    if (MonotonicClock::now() < resting_until_) return;
    const table::Room room = table::room_of(worker_.control());
    if (room.free >= part_of(room, config_.eviction.low_free_percent)) return;
    done_ = round_ = {};
    rounds_ = 0;
    slice();
}

void Evictor::slice() {
    timer_ = 0;
    if (!is_wanted()) return ended();
    const Deadline deadline = deadline_after(evictor_budget);
    const std::uint32_t whole_round = worker_.control().granule_count();
    const table::Room room = table::room_of(worker_.control());
    const std::uint64_t wanted = part_of(room, config_.eviction.high_free_percent);
    if (room.free >= wanted) return ended();
    std::uint64_t missing = wanted - room.free;
    do {
        const table::Evicted step = worker_.evict_ahead(missing, granules_a_step);
        missing -= std::min(missing, step.bytes);
        done_.add(step);
        if (step.objects > 0) {
            warned_ = false;
            rounds_ = 0;
            round_ = {};
        } else {
            round_.add(step);
            if (round_.granules >= whole_round) {
                if (++rounds_ == rounds_without_eviction) return stuck(room);
                round_ = {};
            }
        }
    } while (missing > 0 && MonotonicClock::now() < deadline);
    timer_ = loop_.after(pause_between, [this] { slice(); });
}

void Evictor::ended() {
    if (done_.objects > 0)
        spdlog::debug("evicted {} objects, {}, ahead of demand", done_.objects, format_size(done_.bytes));
}

void Evictor::stuck(const table::Room& room) {
    ended();
    resting_until_ = MonotonicClock::now() + rest_when_stuck;
    if (std::exchange(warned_, true)) return;
    spdlog::warn(
        "{} of {} are free, less than eviction.high_free asks for, and nothing can be evicted: {} are pinned "
        "or "
        "being read, {} reserved by writers; release views and pins (maructl clients shows whose they are), "
        "or "
        "add a pool",
        format_size(room.free), format_size(room.total), format_size(round_.pinned_bytes),
        format_size(round_.reserved_bytes));
}

}  // namespace maru::daemon
