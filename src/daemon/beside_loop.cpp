#include "daemon/beside_loop.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace maru::daemon {

BesideLoop::BesideLoop(Loop& loop) : loop_(loop), signal_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void BesideLoop::run(std::function<void()> work, std::function<void(const std::string&)> then) {
    then_ = std::move(then);
    why_not_.clear();
    waiting_ = loop_.when_readable(signal_.get(), [this] {
        waiting_ = 0;
        finished();
    });
    try {
        thread_ = std::thread([this, work = std::move(work)] {
            work();
            ring();
        });
    } catch (const std::system_error& error) {  // no memory for its stack, or no thread left
        why_not_ = error.what();
        ring();
    }
}

void BesideLoop::wait() {
    loop_.cancel(waiting_);
    waiting_ = 0;
    if (thread_.joinable()) thread_.join();
    then_ = nullptr;
}

void BesideLoop::ring() const {
    const std::uint64_t one = 1;
    while (::write(signal_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void BesideLoop::finished() {
    if (thread_.joinable()) thread_.join();
    std::uint64_t count = 0;
    if (::read(signal_.get(), &count, sizeof count) < 0) count = 0;
    std::exchange(then_, nullptr)(why_not_);
}

}  // namespace maru::daemon
