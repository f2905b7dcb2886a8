// Memory made ready before its first use: what is touched, what is not, what the log says, and how soon it
// ends.
#include "daemon/prefault.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "base/size.hpp"
#include "daemon/memory_lock.hpp"
#include "shm/populate.hpp"

using namespace maru;
using namespace maru::daemon;
using namespace std::chrono_literals;

namespace {

/// What is logged while this stands.
class Log {
  public:
    Log() : before_(spdlog::default_logger()) {
        auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
    }
    ~Log() { spdlog::set_default_logger(before_); }
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;
    std::string text() const { return text_.str(); }
    std::size_t count(const std::string& what) const {
        std::size_t found = 0;
        const std::string all = text();
        for (auto at = all.find(what); at != std::string::npos; at = all.find(what, at + 1))
            ++found;
        return found;
    }

  private:
    std::shared_ptr<spdlog::logger> before_;
    std::ostringstream text_;
};

template <class Condition>
bool becomes_true(Condition condition) {
    const auto deadline = MonotonicClock::now() + 60s;
    while (!condition()) {
        if (MonotonicClock::now() > deadline) return false;
        ::usleep(10'000);
    }
    return true;
}

/// A pool on /dev/shm that nobody has touched, with a word of somebody's in the middle.
class Made {
  public:
    explicit Made(pool::Prefault prefault, std::uint64_t size = 32 * MiB) {
        char name[] = "/dev/shm/maru-unit-XXXXXX";
        REQUIRE(::mkdtemp(name) != nullptr);
        folder_ = name;
        pool::PoolConfig config;
        config.name = "kv";
        config.path = folder_ + "/kv";
        config.size = size;
        config.prefault = prefault;
        configs.push_back(config);
        auto opened = pool::open(config);
        REQUIRE(opened);
        pools.push_back(std::move(*opened));
        auto mapped = pools[0]->map(0, size, "test");
        REQUIRE(mapped);
        mapping = std::move(*mapped);
        std::memcpy(middle(), "somebody's", 10);
        REQUIRE_FALSE(shm::is_resident(mapping.bytes()));
    }
    ~Made() {
        CHECK(std::memcmp(middle(), "somebody's", 10) == 0);
        ::unlink((folder_ + "/kv").c_str());
        ::rmdir(folder_.c_str());
    }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
    std::byte* middle() const { return mapping.data() + mapping.size() / 2; }
    bool is_ready() const { return shm::is_resident(mapping.bytes()); }
    std::uint64_t ready_bytes() const {
        std::uint64_t bytes = 0;
        for (std::uint64_t at = 0; at < mapping.size(); at += 4096)
            if (shm::is_resident(mapping.bytes().subspan(at, 4096))) bytes += 4096;
        return bytes;
    }
    bool becomes_ready() const {
        return becomes_true([this] { return is_ready(); });
    }

    std::vector<std::unique_ptr<pool::Pool>> pools;
    std::vector<pool::PoolConfig> configs;
    shm::Mapping mapping;

  private:
    std::string folder_;
};

/// SIGTERM waits, as it does in the daemon before its loop runs.
class PendingEnd {
  public:
    PendingEnd() {
        ::sigemptyset(&set_);
        ::sigaddset(&set_, SIGTERM);
        REQUIRE(::pthread_sigmask(SIG_BLOCK, &set_, nullptr) == 0);
        REQUIRE(::raise(SIGTERM) == 0);
    }
    ~PendingEnd() {
        const timespec none{};
        CHECK(::sigtimedwait(&set_, nullptr, &none) == SIGTERM);
        ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    }
    PendingEnd(const PendingEnd&) = delete;
    PendingEnd& operator=(const PendingEnd&) = delete;

  private:
    sigset_t set_;
};

}  // namespace

TEST_CASE("progress is told each tenth, and not too often, and not too seldom") {
    const auto start = MonotonicClock::now();
    Progress progress(1000, {1s, 5s}, start);
    CHECK_FALSE(progress.is_due(50, start + 2s));  // not yet a tenth
    CHECK_FALSE(progress.is_due(100, start + 500ms));
    CHECK(progress.is_due(100, start + 1s));
    CHECK_FALSE(progress.is_due(199, start + 3s));
    CHECK(progress.is_due(350, start + 3s));  // several at once are one line
    CHECK_FALSE(progress.is_due(390, start + 7s));
    CHECK(progress.is_due(391, start + 8s));          // slow: five seconds are over
    CHECK_FALSE(progress.is_due(1000, start + 60s));  // that is the end, which has a line of its own
    Progress small(3, {0s, 5s}, start);
    CHECK(small.is_due(1, start));
    CHECK_FALSE(Progress(0, {}, start).is_due(0, start + 60s));
}

TEST_CASE("prefault none touches nothing") {
    const Log log;
    const Made made(pool::Prefault::none);
    { const Prefault prefault(made.pools, made.configs, false); }
    CHECK(made.ready_bytes() <= 4096);
    CHECK(log.text().empty());
}

TEST_CASE("prefault all is done when the constructor returns, with its progress in the log") {
    const Log log;
    const Made made(pool::Prefault::all);
    const Prefault prefault(made.pools, made.configs, false, {}, {0ms, 5s});
    CHECK(made.is_ready());
    CHECK(log.count("pool 'kv': prefault of 32.0 MiB begins, clients wait for it") == 1);
    CHECK(log.count("%") == 9);
    CHECK(log.count("12% (4.0 MiB of 32.0 MiB), ") == 1);
    CHECK(log.count("pool 'kv': prefault of 32.0 MiB is done in ") == 1);
    CHECK(log.count("GiB/s); ") == 1);
}

TEST_CASE("prefault all of a domain in use is done in the background, as are pools that are added") {
    const Log log;
    Made made(pool::Prefault::all), more(pool::Prefault::all), none(pool::Prefault::none);
    Prefault prefault(made.pools, made.configs, true);
    prefault.add(1, *more.pools[0], more.configs[0]);
    prefault.add(2, *none.pools[0], none.configs[0]);
    CHECK(made.becomes_ready());
    CHECK(more.becomes_ready());
    CHECK(none.ready_bytes() <= 4096);
    CHECK(log.count("begins, in the background") == 2);
}

TEST_CASE("prefault background is done in the background, and a second daemon finds it done") {
    const Log log;
    const Made made(pool::Prefault::background);
    {
        const Prefault prefault(made.pools, made.configs, false);
        CHECK(made.becomes_ready());
    }
    {
        const Prefault again(made.pools, made.configs, false);
        CHECK(becomes_true([&] { return log.count("is done in") == 2; }));
    }
    CHECK(log.count("; 32.0 MiB had been used before") == 1);
}

TEST_CASE("prefault ends early when the daemon does, or its pool leaves") {
    const Log log;
    {
        const Made made(pool::Prefault::background, 512 * MiB);
        const auto begin = MonotonicClock::now();
        { const Prefault prefault(made.pools, made.configs, false); }
        CHECK(MonotonicClock::now() - begin < 2s);
        CHECK_FALSE(made.is_ready());
    }
    {
        const Made made(pool::Prefault::all, 512 * MiB);
        const PendingEnd end;
        { const Prefault prefault(made.pools, made.configs, false); }
        CHECK_FALSE(made.is_ready());
        CHECK(log.count("pool 'kv': prefault ends early") >= 1);
    }
    {
        const Made made(pool::Prefault::background, 512 * MiB);
        const auto before = log.count("ends early");
        Prefault prefault(made.pools, made.configs, false);
        prefault.forget(0);
        CHECK(becomes_true([&] { return log.count("ends early") > before; }));
        CHECK_FALSE(made.is_ready());
    }
}

TEST_CASE("prefault of memory that is not there is a warning") {
    const Log log;
    const Made made(pool::Prefault::all);
    REQUIRE(::ftruncate(made.pools[0]->descriptor(), 20 * MiB) == 0);
    { const Prefault prefault(made.pools, made.configs, false); }
    CHECK(log.count("warning") == 1);
    CHECK(log.count("pool 'kv': prefault ends after 20.0 MiB of 32.0 MiB: Bad address") == 1);
}

TEST_CASE("populate: by the kernel's call or by reading, changes nothing and says what is missing") {
    const Made made(pool::Prefault::none);
    const auto bytes = made.mapping.bytes();
    CHECK(shm::populate(bytes.first(4 * MiB)) == 0);
    CHECK(shm::is_resident(bytes.first(4 * MiB)));
    CHECK_FALSE(shm::is_resident(bytes.first(4 * MiB + 4096)));
    CHECK(shm::populate_by_reading(bytes.subspan(4 * MiB, 4 * MiB)) == 0);
    CHECK(shm::is_resident(bytes.first(8 * MiB)));
    CHECK(made.ready_bytes() <= 8 * MiB + 4096);
    REQUIRE(::ftruncate(made.pools[0]->descriptor(), 30 * MiB) == 0);
    CHECK(shm::populate(bytes.subspan(28 * MiB)) == EFAULT);
    CHECK(shm::populate_by_reading(bytes.subspan(28 * MiB)) == EFAULT);
}

// -- the lock on the control region

namespace {

constexpr const char* with_swap = "MemTotal: 1 kB\nSwapTotal:       4 kB\nSwapFree: 4 kB\n";
constexpr const char* without_swap = "MemTotal: 1 kB\nSwapTotal:       0 kB\n";

/// A user without privileges whose limit of locked memory is `limit`; true when `story` is.
template <class Story>
bool as_user_with(rlim_t limit, Story story) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const rlimit both{limit, limit};
        if (::setrlimit(RLIMIT_MEMLOCK, &both) != 0) ::_exit(2);
        if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
        ::_exit(story() ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("the lock on memory holds within the limit, and a refusal names limit, need and remedy") {
    const Made made(pool::Prefault::none);
    const auto bytes = made.mapping.bytes().first(1 * MiB);
    CHECK(as_user_with(2 * MiB, [&] {
        const auto lock = lock_memory(bytes, with_swap);
        return lock.bytes == bytes.size() && lock.refusal.empty();
    }));
    CHECK(made.ready_bytes() <= 4096);  // nothing is touched for it
    const std::string reason =
        "the control region of 1.0 MiB is not locked in memory: the limit of locked memory "
        "(RLIMIT_MEMLOCK) is ";
    for (const auto& [limit, text] : {std::pair<rlim_t, const char*>{64 * KiB, "64.0 KiB"}, {0, "0 B"}})
        CHECK(as_user_with(limit, [&, limit_text = std::string(text)] {
            const Log log;
            const auto lock = lock_memory(bytes, with_swap);
            return lock.bytes == 0 && lock.refusal == reason + limit_text &&
                   log.count("[warning] " + lock.refusal) == 1 && log.count("LimitMEMLOCK=") == 1 &&
                   log.count("ulimit -l") == 1;
        }));
    CHECK(as_user_with(64 * KiB, [&] {
        const Log log;
        const auto lock = lock_memory(bytes, without_swap);
        return lock.bytes == 0 && lock.refusal.empty() && log.count("warning") == 0 &&
               log.count("[info] " + reason + "64.0 KiB; without swap") == 1;
    }));
}
