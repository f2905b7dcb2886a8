// The regions this client claimed, readable by any thread without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "client/zeroed.hpp"

namespace maru::client {

/// Grows only: a region that the daemon took back meanwhile costs an allocation a look, never a wrong page,
/// as the record is the truth.
///
/// Threads: any. Readers see a prefix of what was added.
class HeldRegions {
  public:
    /// `regions` is the number of regions of the domain; nothing beyond it is taken in.
    explicit HeldRegions(std::uint32_t regions) : capacity_(regions), known_(regions), list_(regions) {}

    /// False when it is there already or out of range.
    bool add(std::uint32_t region) {
        const std::lock_guard lock(mutex_);
        if (region >= capacity_ || known_[region] != 0) return false;
        known_[region] = 1;
        const std::uint32_t at = count_.load(std::memory_order_relaxed);  // only written under the mutex
        list_[at] = region;
        count_.store(at + 1, std::memory_order_release);  // pairs with the acquire in `all`
        return true;
    }

    std::span<const std::uint32_t> all() const {
        return {list_.data(), count_.load(std::memory_order_acquire)};  // pairs with the release in `add`
    }

  private:
    std::uint32_t capacity_;
    std::mutex mutex_;
    Zeroed<std::uint8_t> known_;
    Zeroed<std::uint32_t> list_;
    std::atomic<std::uint32_t> count_{0};
};

}  // namespace maru::client
