#include "daemon/huge_pages.hpp"

#include <errno.h>
#include <fcntl.h>
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

struct HugePages::Source {
    std::size_t number = 0;
    std::string what;
    Descriptor descriptor;
    std::uint64_t offset = 0, size = 0, alignment = 0;
    pool::Prefault prefault = pool::Prefault::none;

    static std::unique_ptr<Source> of(std::size_t number, const pool::Pool& pool,
                                      const pool::PoolConfig& wanted) {
        if (number >= table::max_pools || !may_gather(pool, wanted)) return nullptr;
        auto source = std::make_unique<Source>();
        source->number = number;
        source->what = "pool '" + pool.name() + "'";
        source->descriptor = Descriptor(::fcntl(pool.descriptor(), F_DUPFD_CLOEXEC, 0));
        source->offset = pool.offset();
        source->size = pool.size();
        source->alignment = pool.alignment();
        source->prefault = wanted.prefault;
        return source;
    }
};

HugePages::HugePages(const std::vector<std::unique_ptr<pool::Pool>>& pools,
                     const std::vector<pool::PoolConfig>& configs, bool in_use) {
    std::vector<std::unique_ptr<Source>> sources;
    for (std::size_t p = 0; p < pools.size() && p < configs.size(); ++p)
        if (auto source = pools[p] ? Source::of(p, *pools[p], configs[p]) : nullptr)
            sources.push_back(std::move(source));
    if (!in_use) run(sources, pool::Prefault::all);
    threads_.emplace_back([this, in_use, sources = std::move(sources)]() mutable {
        if (in_use) run(sources, pool::Prefault::all);
        run(sources, pool::Prefault::background);
    });
}

HugePages::~HugePages() {
    stop_.store(true, std::memory_order_relaxed);  // a hint to end early; the joins order everything else
    for (auto& thread : threads_)
        thread.join();
}

void HugePages::add(std::size_t number, const pool::Pool& pool, const pool::PoolConfig& wanted) {
    auto source = Source::of(number, pool, wanted);
    if (!source || source->prefault == pool::Prefault::none) return;
    gathered_[number].store(0, std::memory_order_relaxed);
    forgotten_[number].store(false, std::memory_order_relaxed);
    threads_.emplace_back([this, source = std::move(source)] { gather(*source); });
}

void HugePages::forget(std::size_t number) {
    if (number < forgotten_.size()) forgotten_[number].store(true, std::memory_order_relaxed);  // a hint
}

std::uint64_t HugePages::gathered(std::size_t pool) const {
    return pool < gathered_.size() ? gathered_[pool].load(std::memory_order_relaxed) : 0;
}

void HugePages::run(std::vector<std::unique_ptr<Source>>& sources, pool::Prefault when) {
    for (auto& source : sources)
        if (source && source->prefault == when) {
            gather(*source);
            source.reset();
        }
}

void HugePages::gather(const Source& source) {
    auto mapping = shm::Mapping::map(source.descriptor.get(), source.offset, source.size, source.what.c_str(),
                                     source.alignment);
    if (!mapping) {
        spdlog::warn("{}: no huge pages: {}", source.what, mapping.error().text);
        return;
    }
    int reason = 0;
    for (std::uint64_t at = 0; at + shm::large_page <= source.size; at += shm::large_page) {
        if (stop_.load(std::memory_order_relaxed) ||
            forgotten_[source.number].load(std::memory_order_relaxed))
            return;
        const int failed = gather_piece(mapping->data() + at);
        if (failed == 0)
            gathered_[source.number].fetch_add(shm::large_page, std::memory_order_relaxed);
        else
            reason = failed;
        if (failed == EINVAL) break;  // this kernel cannot
    }
    const std::string why = reason == 0 ? "" : std::string("; the rest is not: ") + strerror(reason);
    spdlog::info("{}: {} of {} lie in pages of 2 MiB{}", source.what, format_size(gathered(source.number)),
                 format_size(source.size), why);
}

}  // namespace maru::daemon
