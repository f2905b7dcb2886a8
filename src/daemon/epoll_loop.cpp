#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "daemon/loop.hpp"
#include "daemon/socket_message.hpp"

namespace maru::daemon {
namespace {

constexpr int events_per_turn = 64;
// How soon a descriptor that the kernel had no memory to watch is tried again.
constexpr std::chrono::milliseconds short_of_memory_pause{100};

/// One operation on a descriptor, from its begin to its completion.
class Waiting {
  public:
    Waiting(int descriptor, std::uint32_t events) : descriptor_(descriptor), events_(events) {}
    virtual ~Waiting() = default;
    /// Does without blocking what can be done and calls back when that was all; false: not ready, or not all.
    virtual bool attempt() = 0;
    /// Calls back with a negative errno: the kernel does not watch this descriptor.
    virtual void fail(int error) = 0;

    int descriptor() const { return descriptor_; }
    std::uint32_t events() const { return events_; }  ///< EPOLLIN or EPOLLOUT

  private:
    int descriptor_;
    std::uint32_t events_;
};

bool not_ready(int error) {
    return error == EAGAIN || error == EWOULDBLOCK;
}

class WaitingAccept final : public Waiting {
  public:
    WaitingAccept(int listener, std::function<void(int)> then)
        : Waiting(listener, EPOLLIN), then_(std::move(then)) {
        // What made it readable may be gone when it is accepted: then accept must not wait for the next.
        const int flags = ::fcntl(listener, F_GETFL);
        if (flags >= 0 && (flags & O_NONBLOCK) == 0) ::fcntl(listener, F_SETFL, flags | O_NONBLOCK);
    }
    bool attempt() override {
        const int accepted = ::accept4(descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
        const int error = errno;
        if (accepted < 0 && (not_ready(error) || error == EINTR || error == ECONNABORTED)) return false;
        then_(accepted < 0 ? -error : accepted);
        return true;
    }
    void fail(int error) override { then_(error); }

  private:
    std::function<void(int)> then_;
};

class WaitingReceive final : public Waiting {
  public:
    WaitingReceive(int socket, IncomingMessage& room, std::function<void(Received)> then)
        : Waiting(socket, EPOLLIN), room_(room), then_(std::move(then)) {}
    bool attempt() override {
        const auto result = ::recvmsg(descriptor(), room_.prepare(), MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        const int error = errno;
        if (result < 0 && (not_ready(error) || error == EINTR)) return false;
        then_(room_.take(result < 0 ? -error : static_cast<int>(result)));
        return true;
    }
    void fail(int error) override { then_(room_.take(error)); }

  private:
    IncomingMessage& room_;  // the loop's: used by one attempt at a time
    std::function<void(Received)> then_;
};

class WaitingSend final : public Waiting {
  public:
    WaitingSend(int socket, std::vector<std::byte> bytes, const std::vector<int>& descriptors,
                std::function<void(int)> then)
        : Waiting(socket, EPOLLOUT), message_(std::move(bytes), descriptors), then_(std::move(then)) {}
    bool attempt() override {
        for (bool all = false; !all;) {
            const auto result = ::sendmsg(descriptor(), message_.prepare(), MSG_NOSIGNAL | MSG_DONTWAIT);
            const int error = errno;
            if (result < 0 && error == EINTR) continue;
            if (result < 0 && not_ready(error)) return false;
            if (result < 0) {
                fail(-error);
                return true;
            }
            all = message_.sent(static_cast<std::size_t>(result));
        }
        then_(0);
        return true;
    }
    void fail(int error) override { then_(error); }

  private:
    OutgoingMessage message_;
    std::function<void(int)> then_;
};

class WaitingReadable final : public Waiting {
  public:
    WaitingReadable(int descriptor, std::function<void()> then)
        : Waiting(descriptor, EPOLLIN), then_(std::move(then)) {}
    bool attempt() override {
        then_();
        return true;
    }
    void fail(int) override { then_(); }

  private:
    std::function<void()> then_;
};

/// A descriptor is registered one-shot: the kernel forgets what it watches for with the event that it tells,
/// so that a number which was closed and means another file now is never mixed up with its predecessor.
class EpollLoop final : public Loop {
  public:
    Result<void> open();

    const char* name() const override { return "epoll"; }
    Operation accept(int listener, std::function<void(int)> then) override {
        return begin(std::make_unique<WaitingAccept>(listener, std::move(then)));
    }
    Operation receive(int socket, std::function<void(Received)> then) override {
        return begin(std::make_unique<WaitingReceive>(socket, room_, std::move(then)));
    }
    Operation send(int socket, std::vector<std::byte> bytes, std::vector<int> descriptors,
                   std::function<void(int)> then) override;
    Operation when_readable(int descriptor, std::function<void()> then) override {
        return begin(std::make_unique<WaitingReadable>(descriptor, std::move(then)));
    }
    Operation after(std::chrono::milliseconds span, std::function<void()> then) override;
    void cancel(Operation operation) override;
    Result<void> run() override;
    void stop() override { stopped_ = true; }

  private:
    /// Who waits for a descriptor. It goes with the last of them.
    struct Watch {
        std::uint32_t serial = 0;  ///< tells it from an earlier one of the same number
        std::uint32_t armed = 0;   ///< the events that the kernel will tell of, once
        std::vector<Operation> operations;
    };

    Operation begin(std::unique_ptr<Waiting> waiting);
    void wait(Operation number, std::unique_ptr<Waiting> waiting);
    std::unique_ptr<Waiting> take(Operation number);
    void attempt(Operation number);
    void attempt_sends();
    void arm_all();
    void arm(int descriptor, Watch& watch);
    void not_watched(int descriptor, int error);
    void run_timers();
    void handle(const epoll_event& event);
    int wait_ms() const;

    Descriptor epoll_;
    bool stopped_ = false, said_short_ = false;
    Operation last_ = 0;
    std::uint32_t last_serial_ = 0;
    IncomingMessage room_;
    std::unordered_map<Operation, std::unique_ptr<Waiting>> waiting_;
    std::unordered_map<int, Watch> watches_;
    std::vector<int> to_arm_;         // descriptors that somebody began to wait for in this turn
    std::vector<Operation> to_send_;  // sends to try before anybody waits
    std::map<std::pair<Deadline, Operation>, std::function<void()>> timers_;
    std::unordered_map<Operation, Deadline> timer_ends_;
};

Result<void> EpollLoop::open() {
    epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    if (epoll_) return {};
    return Error{Code::unavailable, std::string("epoll is not to be had: ") + std::strerror(errno)};
}

// -- beginning and cancelling

Operation EpollLoop::begin(std::unique_ptr<Waiting> waiting) {
    const Operation number = ++last_;
    wait(number, std::move(waiting));
    return number;
}

/// A send mostly finds room at once: it is tried in the next turn and waits only when it does not.
Operation EpollLoop::send(int socket, std::vector<std::byte> bytes, std::vector<int> descriptors,
                          std::function<void(int)> then) {
    const Operation number = ++last_;
    waiting_.emplace(number,
                     std::make_unique<WaitingSend>(socket, std::move(bytes), descriptors, std::move(then)));
    to_send_.push_back(number);
    return number;
}

Operation EpollLoop::after(std::chrono::milliseconds span, std::function<void()> then) {
    const Operation number = ++last_;
    const Deadline end = deadline_after(span);
    timers_.emplace(std::pair(end, number), std::move(then));
    timer_ends_.emplace(number, end);
    return number;
}

void EpollLoop::cancel(Operation operation) {
    if (const auto timer = timer_ends_.find(operation); timer != timer_ends_.end()) {
        timers_.erase({timer->second, operation});
        timer_ends_.erase(timer);
        return;
    }
    (void)take(operation);
}

void EpollLoop::wait(Operation number, std::unique_ptr<Waiting> waiting) {
    const int descriptor = waiting->descriptor();
    waiting_.emplace(number, std::move(waiting));
    Watch& watch = watches_[descriptor];
    if (watch.operations.empty()) watch.serial = ++last_serial_;
    watch.operations.push_back(number);
    to_arm_.push_back(descriptor);
}

/// Out of all tables: its callback may then begin others on this descriptor, or close it.
std::unique_ptr<Waiting> EpollLoop::take(Operation number) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return nullptr;
    std::unique_ptr<Waiting> taken = std::move(found->second);
    waiting_.erase(found);
    const auto watch = watches_.find(taken->descriptor());
    if (watch == watches_.end()) return taken;
    std::erase(watch->second.operations, number);
    if (!watch->second.operations.empty()) return taken;
    // The caller may close it now; a copy elsewhere would keep an armed registration alive.
    if (watch->second.armed != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, taken->descriptor(), nullptr);
    watches_.erase(watch);
    return taken;
}

// -- a turn

void EpollLoop::attempt(Operation number) {
    std::unique_ptr<Waiting> taken = take(number);
    if (taken != nullptr && !taken->attempt()) wait(number, std::move(taken));
}

void EpollLoop::attempt_sends() {
    for (const Operation number : std::exchange(to_send_, {}))
        attempt(number);
}

void EpollLoop::arm_all() {
    for (const int descriptor : std::exchange(to_arm_, {}))
        if (const auto found = watches_.find(descriptor); found != watches_.end())
            arm(descriptor, found->second);
}

void EpollLoop::arm(int descriptor, Watch& watch) {
    epoll_event event{};
    event.events = EPOLLONESHOT;
    for (const Operation number : watch.operations)
        event.events |= waiting_.at(number)->events();
    if (event.events == watch.armed) return;
    event.data.u64 = std::uint64_t{watch.serial} << 32 | static_cast<std::uint32_t>(descriptor);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event) == 0 ||
        (errno == ENOENT && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0)) {
        watch.armed = event.events;
        return;
    }
    not_watched(descriptor, errno);
}

void EpollLoop::not_watched(int descriptor, int error) {
    if (error == ENOMEM || error == ENOSPC) {
        // It says nothing about the descriptor, which may be a pidfd of somebody who lives.
        if (!std::exchange(said_short_, true))
            spdlog::warn("epoll has no room for another descriptor: {}; raise fs.epoll.max_user_watches",
                         std::strerror(error));
        after(short_of_memory_pause, [this, descriptor] { to_arm_.push_back(descriptor); });
        return;
    }
    // A plain file, which is always ready, or no descriptor at all: trying it tells.
    const std::vector<Operation> operations = watches_.at(descriptor).operations;
    for (const Operation number : operations) {
        const std::unique_ptr<Waiting> taken = take(number);
        if (taken != nullptr && !taken->attempt()) taken->fail(-error);
    }
}

void EpollLoop::run_timers() {
    std::vector<Operation> due;
    const Deadline now = MonotonicClock::now();
    for (auto at = timers_.begin(); at != timers_.end() && at->first.first <= now; ++at)
        due.push_back(at->first.second);
    for (const Operation number : due) {
        const auto end = timer_ends_.find(number);
        if (end == timer_ends_.end()) continue;  // cancelled by one before it
        const auto timer = timers_.extract({end->second, number});
        timer_ends_.erase(end);
        timer.mapped()();
    }
}

void EpollLoop::handle(const epoll_event& event) {
    const int descriptor = static_cast<int>(event.data.u64 & 0xffffffff);
    const auto found = watches_.find(descriptor);
    // Closed by a callback of this turn, and the number may be in use again.
    if (found == watches_.end() || found->second.serial != event.data.u64 >> 32) return;
    found->second.armed = 0;
    const std::vector<Operation> operations = found->second.operations;
    to_arm_.push_back(descriptor);  // for those whose event this is not
    for (const Operation number : operations) {
        const auto waiting = waiting_.find(number);
        if (waiting != waiting_.end() &&
            (event.events & (waiting->second->events() | EPOLLERR | EPOLLHUP)) != 0)
            attempt(number);
    }
}

int EpollLoop::wait_ms() const {
    if (!to_send_.empty() || !to_arm_.empty() || stopped_) return 0;
    if (timers_.empty()) return -1;
    // Rounded up: woken a moment early it would only turn until the time has come.
    const int left = milliseconds_left(timers_.begin()->first.first);
    return timers_.begin()->first.first <= MonotonicClock::now() ? 0 : left + 1;
}

Result<void> EpollLoop::run() {
    stopped_ = false;
    while (!stopped_) {
        attempt_sends();
        arm_all();
        epoll_event events[events_per_turn];
        const int count = ::epoll_wait(epoll_.get(), events, events_per_turn, wait_ms());
        if (count < 0 && errno != EINTR)
            return Error{Code::unavailable, std::string("epoll: ") + std::strerror(errno)};
        run_timers();
        for (int i = 0; i < count; ++i)
            handle(events[i]);
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Loop>> make_epoll_loop() {
    auto loop = std::make_unique<EpollLoop>();
    if (auto opened = loop->open(); !opened) return opened.error();
    return std::unique_ptr<Loop>(std::move(loop));
}

}  // namespace maru::daemon
