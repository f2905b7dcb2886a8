#include "client/prefault.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace maru::client {
namespace {

constexpr std::size_t piece_bytes = 2 << 20;

}  // namespace

void Prefault::add(std::span<std::byte> range) {
    const std::lock_guard lock(mutex_);
    if (!stopped_ && !range.empty()) ranges_.push_back(range);
}

bool Prefault::pending() const {
    const std::lock_guard lock(mutex_);
    return !ranges_.empty();
}

void Prefault::step() {
    const std::lock_guard at_work(working_);
    std::span<std::byte> piece;
    {
        const std::lock_guard lock(mutex_);
        if (ranges_.empty()) return;
        auto& range = ranges_.front();
        piece = range.first(std::min(range.size(), piece_bytes));
        range = range.subspan(piece.size());
        if (range.empty()) ranges_.pop_front();
    }
    if (::madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE) != 0 && errno != EINTR && errno != EAGAIN)
        stop();
}

void Prefault::forget(std::span<const std::byte> memory) {
    const std::lock_guard nobody_works(working_);
    const std::lock_guard lock(mutex_);
    std::erase_if(ranges_, [&](const auto& range) {
        return range.data() >= memory.data() && range.data() < memory.data() + memory.size();
    });
}

void Prefault::stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    ranges_.clear();
}

}  // namespace maru::client
