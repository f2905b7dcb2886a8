#include "daemon/huge_pages.hpp"

#include <errno.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/mman.h>

#include "base/size.hpp"
#include "shm/mapping.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace maru::daemon {
namespace {

constexpr int tries_max = 3;  // a piece that is busy just now may not be a moment later

/// One piece; 0, or the reason why it stays in small pages.
int gather_piece(std::byte* at) {
    // Linux 6.1 gathers a piece that this mapping has never touched, and then answers EINVAL all the same.
    static_cast<void>(*static_cast<volatile std::byte*>(at));
    int reason = 0;
    for (int attempt = 0; attempt < tries_max; ++attempt) {
        if (::madvise(at, shm::large_page, MADV_COLLAPSE) == 0) return 0;
        reason = errno;
        if (reason != EAGAIN && reason != EBUSY) break;
    }
    return reason;
}

bool may_gather(const pool::Pool& pool, const pool::PoolConfig& wanted) {
    const bool on_tmpfs = pool.kind() == pool::Kind::shm || pool.kind() == pool::Kind::numa;
    return on_tmpfs && wanted.reserve && wanted.huge_pages != pool::HugePages::never &&
           pool.size() >= shm::large_page;
}

}  // namespace

HugePages::HugePages(const std::vector<std::unique_ptr<pool::Pool>>& pools,
                     std::vector<pool::PoolConfig> wanted, bool in_use)
    : pools_(pools), wanted_(std::move(wanted)), gathered_(pools.size()) {
    if (!in_use) run(pool::Prefault::all);
    thread_ = std::thread([this, in_use] {
        if (in_use) run(pool::Prefault::all);
        run(pool::Prefault::background);
    });
}

HugePages::~HugePages() {
    stop_.store(true, std::memory_order_relaxed);  // a hint to end early; the join orders everything else
    thread_.join();
}

std::uint64_t HugePages::gathered(std::size_t pool) const {
    return pool < gathered_.size() ? gathered_[pool].load(std::memory_order_relaxed) : 0;
}

void HugePages::run(pool::Prefault when) {
    for (std::size_t p = 0; p < pools_.size() && p < wanted_.size(); ++p)
        if (wanted_[p].prefault == when && may_gather(*pools_[p], wanted_[p])) gather(p);
}

void HugePages::gather(std::size_t pool) {
    const auto& source = *pools_[pool];
    const std::string what = "pool '" + source.name() + "'";
    auto mapping = source.map(0, source.size(), what.c_str());
    if (!mapping) {
        spdlog::warn("{}: no huge pages: {}", what, mapping.error().text);
        return;
    }
    int reason = 0;
    for (std::uint64_t at = 0; at + shm::large_page <= source.size(); at += shm::large_page) {
        if (stop_.load(std::memory_order_relaxed)) return;
        const int failed = gather_piece(mapping->data() + at);
        if (failed == 0)
            gathered_[pool].fetch_add(shm::large_page, std::memory_order_relaxed);
        else
            reason = failed;
        if (failed == EINVAL) break;  // this kernel cannot
    }
    const std::string why = reason == 0 ? "" : std::string("; the rest is not: ") + strerror(reason);
    spdlog::info("{}: {} of {} lie in pages of 2 MiB{}", what, format_size(gathered(pool)),
                 format_size(source.size()), why);
}

}  // namespace maru::daemon
