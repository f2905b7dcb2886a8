#include "shm/bus_guard.hpp"

#include <setjmp.h>
#include <signal.h>

#include <cstdint>
#include <mutex>

namespace maru::shm {
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

void on_bus_error(int number, siginfo_t* info, void* context) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (LandingPad* pad = innermost; pad != nullptr && info->si_code > 0; pad = pad->outer) {
        if (at < (pad->begin & page_mask) || at >= pad->end) continue;
        innermost = pad->outer;
        siglongjmp(pad->jump, 1);
    }
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

}  // namespace

bool survives_bus_error(const void* at, std::size_t size, void (*work)(void*), void* context) {
    static std::once_flag installed;
    std::call_once(installed, install);
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
