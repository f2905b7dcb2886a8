#include "daemon/prefault.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/mman.h>
#include <systemd/sd-daemon.h>

#include "base/size.hpp"
#include "shm/mapping.hpp"
#include "shm/populate.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace maru::daemon {
namespace {

constexpr int tries_max = 3;  // a piece that is busy just now may not be a moment later
constexpr std::uint64_t tenth = 10;

/// One piece; 0, or the reason why it stays in small pages.
int gather_piece(std::byte* at) {
    int reason = 0;
    for (int attempt = 0; attempt < tries_max; ++attempt) {
        if (::madvise(at, shm::large_page, MADV_COLLAPSE) == 0) return 0;
        reason = errno;
        if (reason != EAGAIN && reason != EBUSY) break;
    }
    return reason;
}

bool is_on_tmpfs(const pool::Pool& pool) {
    return pool.kind() == pool::Kind::shm || pool.kind() == pool::Kind::numa;
}

bool may_gather(const pool::Pool& pool, const pool::PoolConfig& wanted) {
    return is_on_tmpfs(pool) && wanted.huge_pages != pool::HugePages::never && pool.size() >= shm::large_page;
}

/// Somebody asked the daemon to end before its loop could hear it.
bool end_is_pending() {
    sigset_t pending;
    return ::sigpending(&pending) == 0 &&
           (::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1);
}

double gib_per_s(std::uint64_t bytes, std::chrono::duration<double> time) {
    return static_cast<double>(bytes) / static_cast<double>(GiB) / std::max(time.count(), 1e-9);
}

}  // namespace

bool Progress::is_due(std::uint64_t done, MonotonicClock::time_point now) {
    const std::uint64_t tenths = total_ == 0 ? 0 : done / (total_ / tenth + (total_ % tenth != 0));
    const bool due = now - said_ >= beat_.most || (tenths > tenths_ && now - said_ >= beat_.least);
    if (!due || done >= total_) return false;
    said_ = now;
    tenths_ = tenths;
    return true;
}

struct Prefault::Source {
    std::size_t number = 0;
    std::string what;
    Descriptor descriptor;
    std::uint64_t offset = 0, size = 0, alignment = 0;
    pool::Prefault prefault = pool::Prefault::none;
    bool gathers = false;
    bool writes = true;  // else the page cache of a file system would have to be written back

    static std::unique_ptr<Source> of(std::size_t number, const pool::Pool& pool,
                                      const pool::PoolConfig& wanted) {
        if (number >= table::max_pools || pool.kind() == pool::Kind::devdax || !wanted.reserve ||
            wanted.prefault == pool::Prefault::none)
            return nullptr;
        auto source = std::make_unique<Source>();
        source->number = number;
        source->what = "pool '" + pool.name() + "'";
        source->descriptor = Descriptor(::fcntl(pool.descriptor(), F_DUPFD_CLOEXEC, 0));
        source->offset = pool.offset();
        source->size = pool.size();
        source->alignment = pool.alignment();
        source->prefault = wanted.prefault;
        source->gathers = may_gather(pool, wanted);
        source->writes = !wanted.allow_page_cache;
        return source;
    }
};

/// What was done so far, and its end in words.
struct Prefault::Run {
    const Source& source;
    shm::Mapping mapping;
    bool gathers;
    std::uint64_t touched = 0;
    int not_touched = 0, not_gathered = 0;  // why some were not: errno

    /// The piece at `at`; false when going on makes no sense.
    bool make_ready(std::uint64_t at, std::atomic<std::uint64_t>* gathered) {
        const auto piece =
            mapping.bytes().subspan(at, std::min<std::uint64_t>(shm::large_page, source.size - at));
        if (!shm::is_resident(piece)) {
            not_touched = source.writes ? shm::populate(piece) : shm::populate_by_reading(piece);
            if (not_touched != 0) return false;
            touched += piece.size();
        } else if (gathers) {
            // Linux 6.1 gathers a piece that this mapping has never touched, and then answers EINVAL all the
            // same.
            not_touched = shm::populate_by_reading(piece.first(1));
            if (not_touched != 0) return false;
        }
        if (!gathers || piece.size() < shm::large_page) return true;
        const int failed = gather_piece(piece.data());
        if (failed == 0)
            gathered->fetch_add(shm::large_page, std::memory_order_relaxed);
        else
            not_gathered = failed;
        gathers = failed != EINVAL;  // this kernel cannot
        return true;
    }

    void say_end(std::chrono::duration<double> time, std::uint64_t gathered) const {
        if (source.gathers)
            spdlog::info(
                "{}: {} of {} lie in pages of 2 MiB{}", source.what, format_size(gathered),
                format_size(source.size),
                not_gathered == 0 ? "" : std::string("; the rest is not: ") + strerror(not_gathered));
        if (not_touched != 0)
            return spdlog::warn("{}: prefault ends after {} of {}: {}", source.what, format_size(touched),
                                format_size(source.size), strerror(not_touched));
        spdlog::info("{}: prefault of {} is done in {:.1f} s ({:.2f} GiB/s); {} had been used before",
                     source.what, format_size(source.size), time.count(), gib_per_s(source.size, time),
                     format_size(source.size - touched));
    }
};

Prefault::Prefault(const std::vector<std::unique_ptr<pool::Pool>>& pools,
                   const std::vector<pool::PoolConfig>& configs, bool in_use, std::span<std::byte> locked,
                   Progress::Beat beat)
    : beat_(beat) {
    std::vector<std::unique_ptr<Source>> sources;
    for (std::size_t p = 0; p < pools.size() && p < configs.size(); ++p)
        if (auto source = pools[p] ? Source::of(p, *pools[p], configs[p]) : nullptr)
            sources.push_back(std::move(source));
    if (!configs.empty() && configs.front().prefault == pool::Prefault::none) locked = {};
    if (!in_use) run(sources, pool::Prefault::all, false);
    threads_.emplace_back([this, in_use, locked, sources = std::move(sources)]() mutable {
        if (in_use) run(sources, pool::Prefault::all, true);
        run(sources, pool::Prefault::background, true);
        touch(locked);
    });
}

Prefault::~Prefault() {
    stop_.store(true, std::memory_order_relaxed);  // a hint to end early; the joins order everything else
    for (auto& thread : threads_)
        thread.join();
}

void Prefault::add(std::size_t number, const pool::Pool& pool, const pool::PoolConfig& wanted) {
    auto source = Source::of(number, pool, wanted);
    if (!source) return;
    gathered_[number].store(0, std::memory_order_relaxed);
    forgotten_[number].store(false, std::memory_order_relaxed);
    threads_.emplace_back([this, source = std::move(source)] { make_ready(*source, true); });
}

void Prefault::forget(std::size_t number) {
    if (number < forgotten_.size()) forgotten_[number].store(true, std::memory_order_relaxed);  // a hint
}

std::uint64_t Prefault::gathered(std::size_t pool) const {
    return pool < gathered_.size() ? gathered_[pool].load(std::memory_order_relaxed) : 0;
}

bool Prefault::is_stopped(const Source& source, bool serving) const {
    return stop_.load(std::memory_order_relaxed) ||
           forgotten_[source.number].load(std::memory_order_relaxed) || (!serving && end_is_pending());
}

void Prefault::run(std::vector<std::unique_ptr<Source>>& sources, pool::Prefault when, bool serving) {
    for (auto& source : sources)
        if (source && source->prefault == when) {
            make_ready(*source, serving);
            source.reset();
        }
}

void Prefault::touch(std::span<std::byte> locked) const {
    while (!locked.empty() && !stop_.load(std::memory_order_relaxed)) {
        const auto piece = locked.first(std::min<std::uint64_t>(locked.size(), shm::large_page));
        if (shm::populate(piece) != 0) return;  // it has gone, which others notice
        locked = locked.subspan(piece.size());
    }
}

void Prefault::make_ready(const Source& source, bool serving) {
    auto mapping = shm::Mapping::map(source.descriptor.get(), source.offset, source.size, source.what.c_str(),
                                     source.alignment);
    if (!mapping) return spdlog::warn("{}: no prefault: {}", source.what, mapping.error().text);
    spdlog::info("{}: prefault of {} begins, {}", source.what, format_size(source.size),
                 serving ? "in the background" : "clients wait for it");
    Run run{source, std::move(*mapping), source.gathers};
    const auto begin = MonotonicClock::now();
    Progress progress(source.size, beat_, begin);
    for (std::uint64_t at = 0; at < source.size; at += shm::large_page) {
        if (is_stopped(source, serving)) return spdlog::info("{}: prefault ends early", source.what);
        if (!run.make_ready(at, &gathered_[source.number])) break;
        const auto now = MonotonicClock::now();
        if (!progress.is_due(at + shm::large_page, now)) continue;
        const std::uint64_t percent = (at + shm::large_page) / (source.size / 100 + 1);
        spdlog::info("{}: prefault {}% ({} of {}), {:.2f} GiB/s", source.what, percent,
                     format_size(at + shm::large_page), format_size(source.size),
                     gib_per_s(at + shm::large_page, now - begin));
        if (!serving)  // systemd waits for READY, and is told that this takes longer
            ::sd_notifyf(0, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=%s: prefault %d%%", source.what.c_str(),
                         static_cast<int>(percent));
    }
    run.say_end(MonotonicClock::now() - begin, gathered(source.number));
}

}  // namespace maru::daemon
