#include "client/connection.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace maru::client {
namespace {

constexpr int backoff_first_ms = 10, backoff_last_ms = 1000;
constexpr int idle_ms = 60'000;
constexpr std::size_t out_max = 64 * 1024;  // requests are small: more means that the daemon takes nothing
constexpr std::chrono::milliseconds attempt_max{200};

void raise(int descriptor) {
    const std::uint64_t one = 1;
    (void)!::write(descriptor, &one, sizeof one);  // full means raised already
}

}  // namespace

Result<wire::Stream> connect_warded(const std::string& path, ForkWard& ward, Deadline deadline) {
    Descriptor socket;
    {
        const std::lock_guard gate(fork_gate());
        auto made = wire::Stream::open_socket();
        if (!made) return made.error();
        socket = std::move(*made);
        ward.socket.store(socket.get(), std::memory_order_relaxed);  // read by a fork, which takes the gate
    }
    auto stream = wire::Stream::connect(socket, path, deadline);
    if (stream) return stream;
    const std::lock_guard gate(fork_gate());
    ward.socket.store(-1, std::memory_order_relaxed);
    socket.reset();
    return stream;
}

Connection::Connection(ForkWard& ward, Prefault& prefault)
    : ward_(ward), prefault_(prefault), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Connection::~Connection() {
    stop();
}

Result<void> Connection::start() {
    if (!wake_)
        return Error{Code::unavailable,
                     std::string("cannot make an event descriptor: ") + std::strerror(errno)};
    try {
        thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        return Error{Code::unavailable, std::string("cannot start the watching thread: ") + error.what()};
    }
    return {};
}

void Connection::begin(wire::Stream stream, std::string path, wire::Resume resume, Events events) {
    {
        const std::lock_guard lock(mutex_);
        path_ = std::move(path);
        resume_ = resume;
        events_ = std::move(events);
        stream_ = std::move(stream);
        phase_ = Phase::connected;
    }
    wake();
}

void Connection::wake() {
    raise(wake_.get());
}

void Connection::raise_event() const {
    raise(events_.descriptor);
}

bool Connection::connected() const {
    const std::lock_guard lock(mutex_);
    return phase_ == Phase::connected;
}

std::uint64_t Connection::reconnects() const {
    const std::lock_guard lock(mutex_);
    return reconnects_;
}

// -- asking

Result<void> Connection::wait_connected(Lock& lock, Deadline deadline) {
    const std::uint64_t failed_before = attempts_failed_;
    if (phase_ == Phase::disconnected) {
        next_attempt_ = MonotonicClock::now();
        wake();
    }
    const bool decided = changed_.wait_until(lock, deadline, [&] {
        return cancelled_ || phase_ == Phase::connected || phase_ == Phase::refused ||
               attempts_failed_ != failed_before;
    });
    if (cancelled_) return Error{Code::unavailable, "the client is being closed"};
    if (phase_ == Phase::connected) return {};
    if (phase_ == Phase::refused)
        return Error{Code::fenced,
                     "the daemon at " + path_ + " did not take this client back: close it and connect again"};
    if (!decided)
        return Error{Code::timeout, "the daemon at " + path_ + " did not answer within the time limit"};
    return Error{Code::unavailable, "the daemon at " + path_ +
                                        " cannot be reached; reads and writes of held memory go on, and the "
                                        "connection comes back by itself when it is started"};
}

Result<void> Connection::flush() {
    while (!out_.empty()) {
        auto sent = stream_.send_some(out_);
        if (!sent) return sent.error();
        if (*sent == 0) break;
        out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(*sent));
    }
    return {};
}

Result<wire::Frame> Connection::ask(const std::function<wire::Bytes(std::uint32_t)>& encode,
                                    Deadline deadline) {
    Lock lock(mutex_);
    if (auto ready = wait_connected(lock, deadline); !ready) return ready.error();
    Waiter waiter;
    waiter.request = ++last_request_;
    const wire::Bytes frame = encode(waiter.request);
    if (out_.size() + frame.size() > out_max)
        return Error{Code::unavailable, "the daemon at " + path_ + " takes no requests: is it stopped?"};
    waiters_.push_back(&waiter);
    out_.insert(out_.end(), frame.begin(), frame.end());
    (void)flush();  // the watching thread meets the same error and acts on it
    if (!out_.empty()) wake();
    receive_soon(lock, waiter);
    changed_.wait_until(lock, deadline, [&] { return waiter.done || waiter.lost || cancelled_; });
    std::erase(waiters_, &waiter);
    if (!waiter.done && cancelled_) return Error{Code::unavailable, "the client is being closed"};
    if (waiter.lost)
        return Error{Code::unavailable, "the daemon at " + path_ + " went away before it answered"};
    if (!waiter.done)
        return Error{Code::timeout, "the daemon at " + path_ + " did not answer within the time limit"};
    if (waiter.answer.type != wire::Type::failure) return std::move(waiter.answer);
    auto failure = wire::open<wire::Failure>(waiter.answer);
    return failure ? wire::to_error(*failure) : failure.error();
}

/// Saves the sleeps of two threads, the watching one and this one, when the answer comes at once.
void Connection::receive_soon(Lock& lock, const Waiter& waiter) {
    const Deadline soon = MonotonicClock::now() + wire::answer_soon;
    while (phase_ == Phase::connected && !waiter.done && !cancelled_ && MonotonicClock::now() < soon) {
        if (stream_.is_readable()) {
            receive(lock);
            if (phase_ != Phase::connected) wake();  // the watching thread waits for a stream that ended
            continue;
        }
        lock.unlock();
        ::sched_yield();
        lock.lock();
    }
}

void Connection::cancel_requests() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
}

bool Connection::say_bye(Deadline deadline) {
    {
        const std::lock_guard lock(mutex_);
        if (phase_ != Phase::connected || stopping_) return false;
        cancelled_ = false;  // this last one goes through
    }
    auto answer =
        ask([](std::uint32_t number) { return wire::encode_frame(number, wire::Type::bye); }, deadline);
    cancel_requests();
    return static_cast<bool>(answer);
}

void Connection::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        cancelled_ = true;
        changed_.notify_all();
    }
    if (wake_) wake();
    if (thread_.joinable()) thread_.join();
    close_stream();
}

// -- watching

void Connection::run() {
    Lock lock(mutex_);
    while (!stopping_) {
        if (phase_ == Phase::disconnected && MonotonicClock::now() >= next_attempt_) try_resume(lock);
        const bool listening = phase_ == Phase::connected || phase_ == Phase::resuming;
        pollfd waits[2] = {{wake_.get(), POLLIN, 0}, {listening ? stream_.descriptor() : -1, POLLIN, 0}};
        if (!out_.empty()) waits[1].events |= POLLOUT;
        const int timeout_ms = pause_ms(lock);
        lock.unlock();
        const bool prefaulting = prefault_.pending();
        const int ready = ::poll(waits, 2, prefaulting ? 0 : timeout_ms);
        if (ready == 0 && prefaulting) prefault_.step();
        if ((waits[0].revents & POLLIN) != 0) {
            std::uint64_t count = 0;
            (void)!::read(wake_.get(), &count, sizeof count);
        }
        lock.lock();
        if (ready <= 0 || !listening) continue;
        if ((waits[1].revents & POLLOUT) != 0) (void)flush();
        if ((waits[1].revents & ~POLLOUT) != 0) receive(lock);
    }
}

int Connection::pause_ms(Lock&) const {
    // One more than what is left, so that the attempt is due when poll returns.
    return phase_ == Phase::disconnected ? std::min(milliseconds_left(next_attempt_) + 1, idle_ms) : idle_ms;
}

void Connection::receive(Lock& lock) {
    while (phase_ == Phase::connected || phase_ == Phase::resuming) {
        auto frame = stream_.try_receive();
        if (!frame) return lose(lock);
        if (!*frame) return;
        handle(lock, std::move(**frame));
    }
}

void Connection::handle(Lock& lock, wire::Frame frame) {
    if (phase_ == Phase::resuming) return handle_resume(lock, frame);
    for (Waiter* waiter : waiters_) {
        if (waiter->request != frame.request || waiter->done) continue;
        waiter->answer = std::move(frame);
        waiter->done = true;
        changed_.notify_all();
        return;
    }
    lock.unlock();
    if (events_.unasked) events_.unasked(frame);
    lock.lock();
}

void Connection::handle_resume(Lock& lock, const wire::Frame& frame) {
    if (frame.type == wire::Type::done) {
        lock.unlock();
        if (events_.resumed) events_.resumed();  // before anybody sees the connection
        lock.lock();
        phase_ = Phase::connected;
        ++reconnects_;
        backoff_ms_ = 0;
        raise_event();
        changed_.notify_all();
        return;
    }
    Code code = Code::unavailable;
    if (frame.type == wire::Type::failure)
        if (auto failure = wire::open<wire::Failure>(frame)) code = wire::to_error(*failure).code;
    // Fenced: swept or quarantined. Invalid: not a client of this domain. Both are final.
    if (code == Code::fenced || code == Code::invalid) {
        close_stream();
        phase_ = Phase::refused;
        lock.unlock();
        if (events_.refused) events_.refused();
        lock.lock();
        raise_event();
        changed_.notify_all();
        return;
    }
    lose(lock);
}

void Connection::lose(Lock&) {
    const bool was_connected = phase_ == Phase::connected;
    close_stream();
    out_.clear();
    phase_ = Phase::disconnected;
    for (Waiter* waiter : waiters_)
        if (!waiter->done) waiter->lost = true;
    if (was_connected) {
        backoff_ms_ = 0;
        next_attempt_ = MonotonicClock::now() + std::chrono::milliseconds(backoff_first_ms);
        raise_event();
    } else {
        retry_later();
    }
    changed_.notify_all();
}

void Connection::retry_later() {
    ++attempts_failed_;
    backoff_ms_ = backoff_ms_ == 0 ? backoff_first_ms : std::min(2 * backoff_ms_, backoff_last_ms);
    next_attempt_ = MonotonicClock::now() + std::chrono::milliseconds(backoff_ms_);
    changed_.notify_all();
}

void Connection::try_resume(Lock& lock) {
    lock.unlock();
    auto connected = connect_warded(path_, ward_, deadline_after(attempt_max));
    lock.lock();
    if (!connected) return retry_later();
    stream_ = std::move(*connected);
    out_ = wire::encode_frame(1, resume_);
    phase_ = Phase::resuming;
    if (auto flushed = flush(); !flushed) lose(lock);
}

void Connection::close_stream() {
    const std::lock_guard gate(fork_gate());
    ward_.socket.store(-1, std::memory_order_relaxed);  // read by a fork, which takes the gate
    stream_.close();
}

}  // namespace maru::client
