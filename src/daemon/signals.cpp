#include "daemon/signals.hpp"

#include <pthread.h>
#include <sys/signalfd.h>

#include <csignal>
#include <utility>

namespace maru::daemon {
namespace {

sigset_t handled() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1})
        sigaddset(&set, number);
    return set;
}

}  // namespace

Signals::Signals(Loop& loop, std::function<void(int)> then) : loop_(loop), then_(std::move(then)) {
    const sigset_t set = handled();
    descriptor_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Signals::~Signals() {
    loop_.cancel(waiting_);
}

void Signals::block() {
    const sigset_t set = handled();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
}

void Signals::start() {
    waiting_ = loop_.when_readable(descriptor_.get(), [this] { take(); });
}

void Signals::take() {
    waiting_ = 0;
    signalfd_siginfo info{};
    while (::read(descriptor_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
        then_(static_cast<int>(info.ssi_signo));
    start();
}

}  // namespace maru::daemon
