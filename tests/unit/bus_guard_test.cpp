// A bad page of mapped memory is an answer for who asked, and nothing else changes.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "shm/bus_guard.hpp"

using maru::shm::survives_bus_error;
using maru::shm::ZeroedWhenLost;

namespace {

constexpr std::size_t page = 4096, pages = 8;

/// A mapped file that was truncated: its second half has no memory any more.
class Torn {
  public:
    Torn() {
        file_ = ::memfd_create("torn", MFD_CLOEXEC);
        REQUIRE(::ftruncate(file_, pages * page) == 0);
        base_ =
            static_cast<char*>(::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
        REQUIRE(base_ != MAP_FAILED);
        std::memset(base_, 7, pages * page);
        REQUIRE(::ftruncate(file_, pages / 2 * page) == 0);
    }
    ~Torn() {
        ::munmap(base_, pages * page);
        ::close(file_);
    }
    Torn(const Torn&) = delete;
    Torn& operator=(const Torn&) = delete;
    char* good() const { return base_; }
    char* bad() const { return base_ + pages / 2 * page; }
    std::span<std::byte> all() const { return {reinterpret_cast<std::byte*>(base_), pages * page}; }

  private:
    int file_ = -1;
    char* base_ = nullptr;
};

bool copies(char* to, const char* from, std::size_t size) {
    return survives_bus_error(from, size, [&] { std::memcpy(to, from, size); });
}

/// How a child ends: its exit status, or minus the signal.
template <class Story>
int end_of_child(Story story) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::signal(SIGBUS, SIG_DFL);
        story();
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void exit_7(int, siginfo_t*, void*) {
    ::_exit(7);
}

}  // namespace

// First, while no handler of ours stands: each child installs its own.
TEST_CASE("a bus error outside of every guard goes to the handler that was there before") {
    const Torn torn;
    const int status = end_of_child([&] {
        struct sigaction action {};
        action.sa_sigaction = exit_7;
        action.sa_flags = SA_SIGINFO;
        ::sigaction(SIGBUS, &action, nullptr);
        char buffer[page];
        if (copies(buffer, torn.bad(), page)) ::_exit(1);  // guarded: an answer
        (void)*static_cast<volatile char*>(torn.bad());    // not guarded
        ::_exit(2);
    });
    CHECK(status == 7);
}

TEST_CASE("without such a handler it ends the process, as ever") {
    const Torn torn;
    char buffer[page];
    CHECK(end_of_child([&] {
              if (copies(buffer, torn.bad(), page)) ::_exit(1);
              (void)*static_cast<volatile char*>(torn.bad());
          }) == -SIGBUS);
    CHECK(end_of_child([&] {
              (void)copies(buffer, torn.good(), page);
              ::raise(SIGBUS);
          }) == -SIGBUS);
    // A guard speaks for its own range only.
    CHECK(end_of_child([&] {
              (void)survives_bus_error(torn.good(), page,
                                       [&] { (void)*static_cast<volatile char*>(torn.bad()); });
          }) == -SIGBUS);
    // So does watched memory, and only while it is watched.
    CHECK(end_of_child([&] {
              { const ZeroedWhenLost watched(torn.all()); }
              (void)*static_cast<volatile char*>(torn.bad());
          }) == -SIGBUS);
    const Torn other;
    CHECK(end_of_child([&] {
              const ZeroedWhenLost watched(torn.all());
              (void)*static_cast<volatile char*>(other.bad());
          }) == -SIGBUS);
}

TEST_CASE("a copy from or into memory that has gone is an answer, again and again") {
    const Torn torn;
    char buffer[2 * page];
    for (int round = 0; round < 1000; ++round) {
        CHECK(copies(buffer, torn.good(), page));
        CHECK_FALSE(copies(buffer, torn.bad(), 1));
        CHECK_FALSE(copies(buffer, torn.bad() - page / 2, page));
        CHECK_FALSE(survives_bus_error(torn.bad(), page, [&] { std::memset(torn.bad(), 1, page); }));
    }
    CHECK(survives_bus_error(torn.bad(), 0, [] {}));
}

TEST_CASE("guards nest: the one whose range is bad ends") {
    const Torn torn;
    char buffer[page];
    bool inner = true, after = false;
    CHECK(survives_bus_error(torn.good(), page, [&] {
        inner = copies(buffer, torn.bad(), page);
        after = true;
    }));
    CHECK_FALSE(inner);
    CHECK(after);
    after = false;
    CHECK_FALSE(survives_bus_error(torn.bad(), page, [&] {
        (void)survives_bus_error(torn.good(), page, [&] { (void)*static_cast<volatile char*>(torn.bad()); });
        after = true;
    }));
    CHECK_FALSE(after);
    CHECK(copies(buffer, torn.good(), page));
}

TEST_CASE("threads have guards of their own") {
    const Torn torn;
    std::vector<int> wrong(4);
    {
        std::vector<std::jthread> threads;
        for (auto& count : wrong)
            threads.emplace_back([&] {
                char buffer[page];
                for (int round = 0; round < 500; ++round) {
                    count += copies(buffer, torn.bad(), page);
                    count += !copies(buffer, torn.good(), page);
                }
            });
    }
    for (const int count : wrong)
        CHECK(count == 0);
}

TEST_CASE("memory that is watched reads as zeroes, all of it, once some of it has gone") {
    const Torn torn, other;
    ZeroedWhenLost watched(torn.all());
    const ZeroedWhenLost others(other.all().first(pages / 2 * page));
    CHECK(*static_cast<volatile char*>(torn.good()) == 7);
    CHECK_FALSE(watched.lost());
    CHECK(*static_cast<volatile char*>(torn.bad() + page) == 0);
    CHECK(watched.lost());
    CHECK(*static_cast<volatile char*>(torn.good()) == 0);
    *torn.bad() = 3;  // and can be written, for nobody else
    CHECK(*torn.bad() == 3);
    CHECK_FALSE(others.lost());
    CHECK(*other.good() == 7);

    // The place of one that went is used again; guards and other memory are as ever.
    {
        const Torn next;
        watched = ZeroedWhenLost(next.all());
        CHECK_FALSE(watched.lost());
        char buffer[page];
        CHECK_FALSE(copies(buffer, next.bad(), page));  // an answer: whoever asks for one gets it
        CHECK_FALSE(watched.lost());
        *next.bad() = 1;
        CHECK(watched.lost());
    }
}

TEST_CASE("every thread goes on when watched memory goes under it, and is told") {
    for (int round = 0; round < 50; ++round) {
        const Torn torn;
        const ZeroedWhenLost watched(torn.all());
        std::vector<int> untold(4);
        {
            std::vector<std::jthread> threads;
            for (auto& count : untold)
                threads.emplace_back([&, at = threads.size()] {
                    const volatile char* const seen = at % 2 == 0 ? torn.bad() : torn.good();
                    while (*seen != 0) {
                    }
                    count += !watched.lost();
                });
        }
        for (const int count : untold)
            CHECK(count == 0);
    }
}
