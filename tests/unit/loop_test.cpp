// What every back-end of the daemon's loop must do. A new back-end is one more line in `backends`.
#include "daemon/loop.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

using namespace maru;
using namespace maru::daemon;
using std::chrono::milliseconds;

namespace {

constexpr const char* backends[] = {"io_uring", "epoll"};
constexpr milliseconds patience{20'000};

/// A loop that a test drives until something has happened, never longer than its patience.
struct Driven {
    std::unique_ptr<Loop> loop;
    explicit Driven(const char* backend) {
        auto made = make_loop(backend);
        REQUIRE_MESSAGE(made, (made ? "" : made.error().text));
        loop = std::move(*made);
    }
    /// True when `stop` was called by a callback, false when the patience ran out.
    bool run() {
        bool late = false;
        const Operation limit = loop->after(patience, [&] {
            late = true;
            loop->stop();
        });
        REQUIRE(loop->run());
        loop->cancel(limit);
        return !late;
    }
};

struct Pair {
    Descriptor left, right;
    Pair() {
        int ends[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        left = Descriptor(ends[0]);
        right = Descriptor(ends[1]);
    }
};

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct ListeningSocket {
    Descriptor socket;
    sockaddr_un address{};
    socklen_t size = 0;
    ListeningSocket() : socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        address.sun_family = AF_UNIX;  // the kernel picks an abstract name
        REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) == 0);
        REQUIRE(::listen(socket.get(), 8) == 0);
        size = sizeof address;
        REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    }
    Descriptor connect() const {
        Descriptor end(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::connect(end.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
        return end;
    }
};

bool is_open(int descriptor) {
    return ::fcntl(descriptor, F_GETFD) >= 0;
}

}  // namespace

TEST_CASE("callbacks come from run alone, and a timer not before its time") {
    for (const char* backend : backends) {
        Driven driven(backend);
        const auto begin = std::chrono::steady_clock::now();
        bool called = false;
        driven.loop->after(milliseconds(30), [&] {
            called = true;
            driven.loop->stop();
        });
        CHECK_FALSE(called);
        CHECK(driven.run());
        CHECK(called);
        CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(30));
    }
}

TEST_CASE("timers fire in the order of their spans and a cancelled one never") {
    for (const char* backend : backends) {
        Driven driven(backend);
        std::string order;
        driven.loop->after(milliseconds(60), [&] {
            order += "c";
            driven.loop->stop();
        });
        driven.loop->after(milliseconds(5), [&] { order += "a"; });
        const Operation never = driven.loop->after(milliseconds(15), [&] { order += "x"; });
        driven.loop->after(milliseconds(30), [&] { order += "b"; });
        driven.loop->cancel(never);
        driven.loop->cancel(never);
        driven.loop->cancel(0);
        CHECK(driven.run());
        CHECK(order == "abc");
    }
}

TEST_CASE("a connection is accepted, and closes on exec") {
    for (const char* backend : backends) {
        Driven driven(backend);
        ListeningSocket listening;
        int accepted = -1;
        driven.loop->accept(listening.socket.get(), [&](int result) {
            accepted = result;
            driven.loop->stop();
        });
        const Descriptor other = listening.connect();
        CHECK(driven.run());
        REQUIRE(accepted >= 0);
        const Descriptor end(accepted);
        CHECK((::fcntl(accepted, F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(::write(other.get(), "hi", 2) == 2);
        char text[4] = {};
        CHECK(::read(accepted, text, sizeof text) == 2);
    }
}

TEST_CASE("accept says when no descriptor is left, and works again later") {
    for (const char* backend : backends) {
        Driven driven(backend);
        ListeningSocket listening;
        const Descriptor other = listening.connect();
        std::vector<Descriptor> all;
        for (int number = ::dup(0); number >= 0 && all.size() < 100'000; number = ::dup(0))
            all.emplace_back(number);
        REQUIRE(errno == EMFILE);
        int result = 0;
        driven.loop->accept(listening.socket.get(), [&](int number) {
            result = number;
            driven.loop->stop();
        });
        const bool in_time = driven.run();
        all.clear();
        CHECK(in_time);
        CHECK(result == -EMFILE);
        driven.loop->accept(listening.socket.get(), [&](int number) {
            result = number;
            driven.loop->stop();
        });
        CHECK(driven.run());
        REQUIRE(result >= 0);
        ::close(result);
    }
}

TEST_CASE("receive brings bytes, then the end of the stream") {
    for (const char* backend : backends) {
        Driven driven(backend);
        Pair pair;
        std::string seen;
        int last = -1;
        std::function<void()> next = [&] {
            driven.loop->receive(pair.left.get(), [&](Received received) {
                seen += text_of(received.bytes);
                last = received.result;
                if (received.result > 0) return next();
                driven.loop->stop();
            });
        };
        next();
        REQUIRE(::write(pair.right.get(), "hello", 5) == 5);
        pair.right.reset();
        CHECK(driven.run());
        CHECK(seen == "hello");
        CHECK(last == 0);
    }
}

TEST_CASE("descriptors travel with the first byte and are copies") {
    for (const char* backend : backends) {
        Driven driven(backend);
        Pair pair;
        const Descriptor event(::eventfd(7, EFD_CLOEXEC));
        int sent = -1;
        std::vector<Descriptor> got;
        std::string text;
        driven.loop->send(pair.left.get(), bytes_of("x"), {event.get(), event.get()},
                          [&](int result) { sent = result; });
        driven.loop->receive(pair.right.get(), [&](Received received) {
            text = text_of(received.bytes);
            got = std::move(received.descriptors);
            CHECK_FALSE(received.descriptors_lost);
            driven.loop->stop();
        });
        CHECK(driven.run());
        CHECK(sent == 0);
        CHECK(text == "x");
        REQUIRE(got.size() == 2);
        CHECK((::fcntl(got[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
        std::uint64_t value = 0;
        CHECK(::read(got[1].get(), &value, sizeof value) == sizeof value);
        CHECK(value == 7);
    }
}

TEST_CASE("a send larger than the socket's buffer arrives whole") {
    for (const char* backend : backends) {
        Driven driven(backend);
        Pair pair;
        std::string large(3'000'000, 'a');
        for (std::size_t i = 0; i < large.size(); ++i)
            large[i] = static_cast<char>('a' + i % 23);
        int sent = -1;
        std::string seen;
        driven.loop->send(pair.left.get(), bytes_of(large), {}, [&](int result) {
            sent = result;
            if (seen.size() == large.size()) driven.loop->stop();
        });
        std::function<void()> next = [&] {
            driven.loop->receive(pair.right.get(), [&](Received received) {
                REQUIRE(received.result > 0);
                seen += text_of(received.bytes);
                if (seen.size() < large.size()) return next();
                if (sent == 0) driven.loop->stop();
            });
        };
        next();
        CHECK(driven.run());
        CHECK(sent == 0);
        CHECK((seen == large));
    }
}

TEST_CASE("a send to an end that is closed is an error, not a signal") {
    for (const char* backend : backends) {
        Driven driven(backend);
        Pair pair;
        pair.right.reset();
        int sent = 1;
        driven.loop->send(pair.left.get(), bytes_of("x"), {}, [&](int result) {
            sent = result;
            driven.loop->stop();
        });
        CHECK(driven.run());
        CHECK(sent == -EPIPE);
    }
}

TEST_CASE("after a cancellation the descriptor may be closed and its number used for something else") {
    for (const char* backend : backends) {
        Driven driven(backend);
        Pair first;
        bool called = false;
        const Operation receiving = driven.loop->receive(first.left.get(), [&](Received) { called = true; });
        const Operation sending =
            driven.loop->send(first.left.get(), bytes_of("for the first"), {}, [&](int) { called = true; });
        driven.loop->cancel(receiving);
        driven.loop->cancel(sending);
        const int number = first.left.get();
        first.left.reset();
        Pair second;
        REQUIRE(second.left.get() == number);
        REQUIRE(::write(second.right.get(), "for the second", 14) == 14);
        driven.loop->after(milliseconds(20), [&] { driven.loop->stop(); });
        CHECK(driven.run());
        CHECK_FALSE(called);
        char text[32] = {};
        CHECK(::recv(second.left.get(), text, sizeof text, MSG_DONTWAIT) == 14);
        CHECK(::recv(second.right.get(), text, sizeof text, MSG_DONTWAIT) == -1);
    }
}

TEST_CASE("a number that was closed after its operation was complete may serve another file at once") {
    for (const char* backend : backends) {
        Driven driven(backend);
        Pair first, second;
        const int number = first.left.get();
        int last = -1;
        std::string seen;
        driven.loop->receive(number, [&](Received received) {
            last = received.result;
            first.left.reset();
            REQUIRE(::dup(second.left.get()) == number);
            driven.loop->receive(number, [&](Received later) {
                seen = text_of(later.bytes);
                driven.loop->stop();
            });
            REQUIRE(::write(second.right.get(), "second", 6) == 6);
        });
        first.right.reset();
        CHECK(driven.run());
        ::close(number);
        CHECK(last == 0);
        CHECK(seen == "second");
    }
}

TEST_CASE("what was ready for a number does not count for the file that has it now") {
    for (const char* backend : backends) {
        Driven driven(backend);
        const Descriptor quiet(::eventfd(0, EFD_CLOEXEC)), one(::eventfd(1, EFD_CLOEXEC));
        int two = ::eventfd(1, EFD_CLOEXEC), other = -1, told = 0;
        Operation waiting = 0;
        const auto change = [&](int number, Operation& cancelled) {
            driven.loop->cancel(cancelled);
            REQUIRE(::dup2(quiet.get(), number) == number);  // closes it and opens another under its number
            driven.loop->when_readable(number, [&] { ++told; });
        };
        other = ::dup(one.get());
        Operation of_other = 0;
        // Both are ready in one turn; whichever comes first changes what the other's number means.
        waiting = driven.loop->when_readable(two, [&] { change(other, of_other); });
        of_other = driven.loop->when_readable(other, [&] { change(two, waiting); });
        driven.loop->after(milliseconds(30), [&] { driven.loop->stop(); });
        CHECK(driven.run());
        CHECK(told == 0);
        ::close(two);
        ::close(other);
    }
}

TEST_CASE("a socket receives while a send on it waits for room") {
    for (const char* backend : backends) {
        Driven driven(backend);
        Pair pair;
        int sent = -1;
        std::string seen;
        std::size_t drained = 0;
        driven.loop->receive(pair.left.get(), [&](Received received) {
            CHECK(sent == -1);
            seen = text_of(received.bytes);
            std::string taken(1 << 20, ' ');
            while (sent == -1 && drained < 3'000'000) {
                const auto got = ::recv(pair.right.get(), taken.data(), taken.size(), MSG_DONTWAIT);
                if (got <= 0) break;
                drained += static_cast<std::size_t>(got);
            }
            CHECK(drained > 0);
        });
        driven.loop->send(pair.left.get(), std::vector<std::byte>(400'000), {}, [&](int result) {
            sent = result;
            driven.loop->stop();
        });
        driven.loop->after(milliseconds(20), [&] { REQUIRE(::write(pair.right.get(), "in", 2) == 2); });
        CHECK(driven.run());
        CHECK(seen == "in");
        CHECK(sent == 0);
    }
}

TEST_CASE("bad descriptors are an error in the callback, plain files are always readable") {
    for (const char* backend : backends) {
        Driven driven(backend);
        int received = 1, sent = 1, accepted = 1;
        bool told = false;
        std::FILE* file = std::tmpfile();
        REQUIRE(file != nullptr);
        const int number = ::dup(0);
        REQUIRE(number >= 0);
        ::close(number);
        driven.loop->receive(number, [&](Received result) { received = result.result; });
        driven.loop->send(number, bytes_of("x"), {}, [&](int result) { sent = result; });
        driven.loop->accept(number, [&](int result) { accepted = result; });
        driven.loop->when_readable(::fileno(file), [&] { told = true; });
        driven.loop->after(milliseconds(30), [&] { driven.loop->stop(); });
        CHECK(driven.run());
        CHECK(received == -EBADF);
        CHECK(sent == -EBADF);
        CHECK(accepted == -EBADF);
        CHECK(told);
        std::fclose(file);
    }
}

TEST_CASE("readability is told once for each time it is asked for") {
    for (const char* backend : backends) {
        Driven driven(backend);
        const Descriptor event(::eventfd(0, EFD_CLOEXEC));
        int told = 0;
        driven.loop->when_readable(event.get(), [&] { ++told; });
        driven.loop->after(milliseconds(10), [&] {
            CHECK(told == 0);
            const std::uint64_t one = 1;
            REQUIRE(::write(event.get(), &one, sizeof one) == sizeof one);
            driven.loop->after(milliseconds(20), [&] { driven.loop->stop(); });
        });
        CHECK(driven.run());
        CHECK(told == 1);
    }
}

TEST_CASE("a callback may cancel another operation that is ready in the same turn") {
    for (const char* backend : backends) {
        Driven driven(backend);
        const Descriptor event(::eventfd(1, EFD_CLOEXEC));
        Operation one = 0, two = 0;
        int told = 0;
        one = driven.loop->when_readable(event.get(), [&] {
            ++told;
            driven.loop->cancel(two);
        });
        two = driven.loop->when_readable(event.get(), [&] {
            ++told;
            driven.loop->cancel(one);
        });
        driven.loop->after(milliseconds(20), [&] { driven.loop->stop(); });
        CHECK(driven.run());
        CHECK(told == 1);
    }
}

TEST_CASE("more operations than the queue has room for all complete") {
    for (const char* backend : backends) {
        Driven driven(backend);
        constexpr int count = 5000;
        int done = 0;
        for (int i = 0; i < count; ++i)
            driven.loop->after(milliseconds(i % 7), [&] {
                if (++done == count) driven.loop->stop();
            });
        CHECK(driven.run());
        CHECK(done == count);
    }
}

TEST_CASE("a loop that goes with operations begun closes what they had received and calls nobody") {
    for (const char* backend : backends) {
        Pair pair;
        bool called = false;
        {
            Driven driven(backend);
            driven.loop->receive(pair.left.get(), [&](Received) { called = true; });
            driven.loop->after(std::chrono::hours(1), [&] { called = true; });
            driven.loop->after(milliseconds(1), [&] { driven.loop->stop(); });
            CHECK(driven.run());
        }
        CHECK_FALSE(called);
        CHECK(is_open(pair.left.get()));
    }
}

namespace {

/// For the calling thread from here on: these calls fail with this errno, as a container's seccomp profile
/// does it.
void forbid(const std::vector<long>& calls, int error) {
    std::vector<sock_filter> lines{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const long call : calls) {
        lines.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 1));
        lines.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<__u32>(error)));
    }
    lines.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog program{static_cast<unsigned short>(lines.size()), lines.data()};
    REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

}  // namespace

TEST_CASE("where io_uring is forbidden auto is epoll, and io_uring an error with the remedy") {
    const struct {
        std::vector<long> calls;
        int error;
        const char* remedy;
    } kinds[] = {{{SYS_io_uring_setup}, EPERM, "seccomp"},
                 {{SYS_io_uring_setup}, ENOSYS, "older than"},
                 {{SYS_io_uring_setup}, ENOMEM, "LimitMEMLOCK"},
                 {{SYS_io_uring_register}, EPERM, "seccomp"},
                 {{SYS_io_uring_enter}, EPERM, "seccomp"}};
    for (const auto& kind : kinds) {
        CAPTURE(kind.calls[0]);
        CAPTURE(kind.error);
        std::string chosen, refused;
        std::thread forbidden([&] {
            forbid(kind.calls, kind.error);
            if (const auto loop = make_loop("auto")) chosen = (*loop)->name();
            if (const auto loop = make_loop("io_uring"); !loop) refused = loop.error().text;
        });
        forbidden.join();
        CHECK(chosen == "epoll");
        CHECK(refused.find(kind.remedy) != std::string::npos);
    }
}

TEST_CASE("a back-end that is not built is refused by name") {
    const auto made = make_loop("kqueue");
    REQUIRE_FALSE(made);
    CHECK(made.error().text.find("kqueue") != std::string::npos);
}
