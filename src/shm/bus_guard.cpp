#include "shm/bus_guard.hpp"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <utility>

#include "shm/word.hpp"

namespace maru::shm {

/// One piece of memory that is watched. Never freed, since a handler of another thread may look at it at any
/// time: used again for another piece.
struct Watched {
    std::atomic<std::uintptr_t> begin{0}, end{0};  // equal: of nobody
    std::atomic<bool> lost{false};
    Watched* next = nullptr;  // written before the handler can meet it
};

namespace {

constexpr std::uintptr_t page_mask = ~std::uintptr_t{4095};  // the kernel may name only the page

/// Where this thread goes on when a page turns out bad.
struct LandingPad {
    sigjmp_buf jump;
    std::uintptr_t begin, end;
    LandingPad* outer;
};

// Touched by the guarded call before anything can go wrong: the handler never is the first to use it.
thread_local LandingPad* innermost = nullptr;

struct sigaction before;  // written once, before the handler that reads it is there

void chain(int number, siginfo_t* info, void* context) {
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr)
        return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
    // Back to what the kernel does: the access is made again and ends the process.
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    ::sigaction(number, &plain, nullptr);
    if (info->si_code <= 0) ::raise(number);  // sent by somebody: nothing is made again
}

std::mutex watched_mutex;
std::atomic<Watched*> all_watched{nullptr};

/// Whether the access at `at` can be made again. Calls nothing but mmap.
bool replace_lost(std::uintptr_t at) {
    for (Watched* watched = all_watched.load(std::memory_order_acquire); watched != nullptr;
         watched = watched->next) {
        const std::uintptr_t begin = watched->begin.load(std::memory_order_relaxed),
                             end = watched->end.load(std::memory_order_acquire);
        if (at < begin || at >= end) continue;
        watched->lost.store(true, std::memory_order_release);  // before anybody can see a zero of it
        // Twice when two threads meet it at once: that costs the words the first one has written since.
        const int kept = errno;
        const void* placed = ::mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        errno = kept;
        return placed != MAP_FAILED;
    }
    return false;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (LandingPad* pad = innermost; pad != nullptr && info->si_code > 0; pad = pad->outer) {
        if (at < (pad->begin & page_mask) || at >= pad->end) continue;
        innermost = pad->outer;
        siglongjmp(pad->jump, 1);
    }
    const bool by_access = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;
    if (by_access && replace_lost(at)) return;
    chain(number, info, context);
}

void install() {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    // NODEFER: the jump out of the handler leaves the signal mask as it was.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, nullptr, &before);
    ::sigaction(SIGBUS, &action, nullptr);
}

void install_once() {
    static std::once_flag installed;
    std::call_once(installed, install);
}

}  // namespace

ZeroedWhenLost::ZeroedWhenLost(std::span<std::byte> memory) {
    install_once();
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    const std::lock_guard lock(watched_mutex);
    Watched* const first = all_watched.load(std::memory_order_relaxed);
    for (watched_ = first; watched_ != nullptr; watched_ = watched_->next)
        if (watched_->end.load(std::memory_order_relaxed) == 0) break;
    const bool fresh = watched_ == nullptr;
    if (fresh) watched_ = new Watched;
    watched_->lost.store(false, std::memory_order_relaxed);
    watched_->begin.store(begin, std::memory_order_relaxed);
    watched_->end.store(begin + memory.size(), std::memory_order_release);  // pairs with the handler
    if (!fresh) return;
    watched_->next = first;
    all_watched.store(watched_, std::memory_order_release);  // pairs with the handler
}

ZeroedWhenLost::~ZeroedWhenLost() {
    if (watched_ == nullptr) return;
    const std::lock_guard lock(watched_mutex);
    watched_->end.store(0, std::memory_order_release);
}

ZeroedWhenLost& ZeroedWhenLost::operator=(ZeroedWhenLost&& other) noexcept {
    std::swap(watched_, other.watched_);
    return *this;
}

bool ZeroedWhenLost::lost() const {
    fence(std::memory_order_acquire);  // after the words that the caller has read
    return watched_ != nullptr && watched_->lost.load(fenced_load);
}

bool survives_bus_error(const void* at, std::size_t size, void (*work)(void*), void* context) {
    install_once();
    LandingPad pad;
    pad.begin = reinterpret_cast<std::uintptr_t>(at);
    pad.end = pad.begin + size;
    pad.outer = innermost;
    if (sigsetjmp(pad.jump, 0) != 0) return false;
    innermost = &pad;
    work(context);
    innermost = pad.outer;
    return true;
}

}  // namespace maru::shm
