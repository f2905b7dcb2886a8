#include "client/fork_ward.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace maru::client {
namespace {

// One a process, as pthread_atfork takes no argument. Never destroyed: a fork may come while the process
// ends.
struct Wards {
    std::mutex gate;
    std::vector<ForkWard*> all;
    std::atomic<std::uint64_t> serials{0};
};

Wards& wards() {
    static auto* const made = new Wards;
    return *made;
}

void close_inherited(std::atomic<int>& number) {
    const int descriptor = number.exchange(-1, std::memory_order_relaxed);  // the child has one thread
    if (descriptor >= 0) ::close(descriptor);
}

void before_fork() {
    wards().gate.lock();
}
void in_parent() {
    wards().gate.unlock();
}

void in_child() {
    for (ForkWard* ward : wards().all) {
        ward->forked.store(true, std::memory_order_relaxed);  // the child has one thread
        ward->serial.store(ForkWard::not_open, std::memory_order_relaxed);
        close_inherited(ward->socket);
        close_inherited(ward->lock);
    }
    wards().all.clear();  // a grandchild has nothing more to close
    wards().gate.unlock();
}

}  // namespace

std::mutex& fork_gate() {
    return wards().gate;
}

void register_ward(ForkWard& ward) {
    static const int handlers = pthread_atfork(before_fork, in_parent, in_child);
    (void)
        handlers;  // fails for lack of memory only; forks then go unnoticed until the next use of the daemon
    const std::lock_guard lock(wards().gate);
    wards().all.push_back(&ward);
}

void unregister_ward(ForkWard& ward) {
    const std::lock_guard lock(wards().gate);
    std::erase(wards().all, &ward);
}

std::uint64_t next_serial() {
    return wards().serials.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace maru::client
