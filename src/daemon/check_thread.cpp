#include "daemon/check_thread.hpp"

#include <new>
#include <utility>

#include "daemon/admin.hpp"

namespace maru::daemon {

void CheckThread::ask(std::function<void(const Result<std::string>&)> then) {
    asked_.push_back(std::move(then));
    if (running_.empty()) start();
}

void CheckThread::start() {
    running_ = std::exchange(asked_, {});
    beside_.run([this] { answer_ = check_or_error(); },
                [this](const std::string& why_not) { finished(why_not); });
}

Result<std::string> CheckThread::check_or_error() const {
    try {
        return check_domain(control_);
    } catch (const std::bad_alloc&) {
        return Error{Code::full, "the check of " + std::to_string(control_.record_count()) +
                                     " page records needs more memory than this "
                                     "daemon may take: raise its limit "
                                     "(ulimit -d, ulimit -v)"};
    }
}

void CheckThread::finished(const std::string& why_not) {
    const auto done = std::exchange(running_, {});
    Result<std::string> answer = std::exchange(answer_, std::string());
    if (!why_not.empty()) answer = Error{Code::full, "no thread for the check: " + why_not};
    if (!asked_.empty()) start();
    for (const auto& then : done)
        then(answer);
}

}  // namespace maru::daemon
