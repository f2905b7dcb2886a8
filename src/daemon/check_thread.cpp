#include "daemon/check_thread.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "daemon/admin.hpp"

namespace maru::daemon {

CheckThread::CheckThread(Loop& loop, const table::Control& control)
    : loop_(loop), control_(control), signal_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

CheckThread::~CheckThread() {
    loop_.cancel(waiting_);
    if (thread_.joinable()) thread_.join();
}

void CheckThread::ask(std::function<void(const Result<std::string>&)> then) {
    asked_.push_back(std::move(then));
    if (running_.empty()) start();
}

void CheckThread::start() {
    running_ = std::exchange(asked_, {});
    waiting_ = loop_.when_readable(signal_.get(), [this] {
        waiting_ = 0;
        finished();
    });
    try {
        thread_ = std::thread([this] {
            answer_ = check_or_error();
            ring();
        });
    } catch (const std::system_error& error) {  // no memory for its stack, or no thread left
        answer_ = Error{Code::full, std::string("no thread for the check: ") + error.what()};
        ring();
    }
}

Result<std::string> CheckThread::check_or_error() const {
    try {
        return check_domain(control_);
    } catch (const std::bad_alloc&) {
        return Error{Code::full,
                     "the check of " + std::to_string(control_.record_count()) +
                         " page records needs more memory than this daemon may take: raise its limit "
                         "(ulimit -d, ulimit -v)"};
    }
}

void CheckThread::ring() const {
    const std::uint64_t one = 1;
    while (::write(signal_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void CheckThread::finished() {
    if (thread_.joinable()) thread_.join();
    std::uint64_t count = 0;
    if (::read(signal_.get(), &count, sizeof count) < 0) count = 0;
    const auto done = std::exchange(running_, {});
    const Result<std::string> answer = std::exchange(answer_, std::string());
    if (!asked_.empty()) start();
    for (const auto& then : done)
        then(answer);
}

}  // namespace maru::daemon
