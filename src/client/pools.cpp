// Pools that were added after this client connected.
#include <exception>

#include "client/client.hpp"
#include "table/pools.hpp"

namespace maru::client {
namespace {

constexpr std::int64_t ask_again_ms = 200;  // a daemon that is away costs one wait, not one for each key

std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(MonotonicClock::now().time_since_epoch())
        .count();
}

}  // namespace

Result<void> Client::take_in_pools(const wire::Frame& frame) {
    const auto list = wire::open<wire::PoolList>(frame);
    if (!list) return list.error();
    no_claim_until_ms_.store(0, std::memory_order_relaxed);  // a hint: there may be memory to claim again
    return memory_->take_in(*list, frame.descriptors, prefault_);
}

/// Under the mutex of pools. What went wrong is kept for the text of an error.
void Client::ask_pools() noexcept {
    try {
        auto answer =
            ask([](std::uint32_t number) { return wire::encode_frame(number, wire::Type::ask_pools); });
        const auto taken = answer ? take_in_pools(*answer) : Result<void>(answer.error());
        pools_problem_ = taken ? "the daemon does not pass it" : taken.error().text;
    } catch (const std::exception&) {
        pools_problem_ = "no memory is left to ask for it";
    }
}

std::byte* Client::find_address(const table::PageLocation& location, maru_status* status) noexcept {
    if (!memory->is_unknown(location.region)) {
        *status = fail(Code::damaged,
                       "the record of this key names a place outside its pool, or a length beyond its page");
        return memory->address(location);  // mapped meanwhile
    }
    const std::lock_guard lock(pools_mutex_);
    std::byte* data = memory->address(location);  // another thread may have asked
    if (data == nullptr && now_ms() >= no_pools_until_ms_) {
        ask_pools();
        data = memory->address(location);
        no_pools_until_ms_ = data == nullptr ? now_ms() + ask_again_ms : 0;
    }
    if (data == nullptr) {
        (void)fail_with(
            Code::unavailable,
            "region %u lies in a pool that was added after this client connected and is not mapped "
            "here: %s; it reads as absent until the daemon can be asked",
            location.region, pools_problem_.c_str());
        *status = MARU_MISS;
    }
    return data;
}

}  // namespace maru::client
