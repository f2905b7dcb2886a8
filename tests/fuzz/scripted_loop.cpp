#include "scripted_loop.hpp"

#include <poll.h>

#include <algorithm>

namespace maru::fuzz {

using daemon::Operation;
using daemon::Received;

namespace {

/// Takes the first entry that fits out of a table of operations.
template <class Entry, class Fits>
std::optional<Entry> take(std::map<Operation, Entry>& from, Fits fits) {
    const auto found =
        std::find_if(from.begin(), from.end(), [&](const auto& entry) { return fits(entry.second); });
    if (found == from.end()) return std::nullopt;
    std::optional<Entry> taken(std::move(found->second));
    from.erase(found);
    return taken;
}

}  // namespace

Operation ScriptedLoop::accept(int, std::function<void(int)> then) {
    accepts_.emplace(++last_, std::move(then));
    return last_;
}

Operation ScriptedLoop::receive(int socket, std::function<void(Received)> then) {
    receives_.emplace(++last_, Receiving{socket, std::move(then)});
    return last_;
}

Operation ScriptedLoop::send(int socket, std::vector<std::byte> bytes, std::vector<int> descriptors,
                             std::function<void(int)> then) {
    sends_.emplace(++last_, Sending{socket, std::move(bytes), descriptors.size(), std::move(then)});
    return last_;
}

Operation ScriptedLoop::when_readable(int descriptor, std::function<void()> then) {
    waits_.emplace(++last_, Waiting{descriptor, std::move(then)});
    return last_;
}

Operation ScriptedLoop::after(std::chrono::milliseconds span, std::function<void()> then) {
    timers_.emplace(++last_, Timer{now_ + span, std::move(then)});
    return last_;
}

void ScriptedLoop::cancel(Operation operation) {
    accepts_.erase(operation);
    receives_.erase(operation);
    sends_.erase(operation);
    timers_.erase(operation);
    waits_.erase(operation);
}

Result<void> ScriptedLoop::run() {
    script();
    return {};
}

bool ScriptedLoop::connect(int socket) {
    auto then = take(accepts_, [](const auto&) { return true; });
    if (!then) return false;
    (*then)(socket);
    return true;
}

bool ScriptedLoop::deliver(int socket, Received piece) {
    auto receiving = take(receives_, [&](const auto& one) { return one.socket == socket; });
    if (!receiving) return false;
    receiving->then(std::move(piece));
    return true;
}

void ScriptedLoop::complete_sends(int failure) {
    const auto goes = [&](const Sending& one) {
        return failure != 0 || sent(one.socket, one.bytes, one.descriptors);
    };
    while (auto sending = take(sends_, goes))
        sending->then(failure);
}

void ScriptedLoop::advance(std::chrono::milliseconds span) {
    const auto end = now_ + span;
    while (true) {
        const auto next = std::min_element(
            timers_.begin(), timers_.end(),
            [](const auto& left, const auto& right) { return left.second.due < right.second.due; });
        if (next == timers_.end() || next->second.due > end) break;
        now_ = std::max(now_, next->second.due);
        const auto then = std::move(next->second.then);
        timers_.erase(next);
        then();
    }
    now_ = end;
}

void ScriptedLoop::poll(std::chrono::milliseconds patience) {
    std::vector<pollfd> looks;
    for (const auto& [operation, waiting] : waits_)
        looks.push_back({waiting.descriptor, POLLIN, 0});
    (void)::poll(looks.data(), looks.size(), static_cast<int>(patience.count()));
    for (const auto& look : looks) {
        if ((look.revents & POLLIN) == 0) continue;
        if (auto waiting = take(waits_, [&](const Waiting& one) { return one.descriptor == look.fd; }))
            waiting->then();
    }
}

}  // namespace maru::fuzz
