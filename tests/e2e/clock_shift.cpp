// Preloaded into a program under test: its wall clock is off by as many seconds as the file CLOCK_SHIFT names
// says, from one reading to the next. The monotonic clocks are left as they are.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

long shift_s() {
    static const char* const path = std::getenv("CLOCK_SHIFT");
    const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    char text[32] = {};
    const ssize_t size = ::read(file, text, sizeof text - 1);
    ::close(file);
    return size > 0 ? std::strtol(text, nullptr, 10) : 0;
}

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
    const int result = real(clock, time);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += shift_s();
    return result;
}

int gettimeofday(timeval* time, void* zone) noexcept {
    static auto* const real = next<int(timeval*, void*)>("gettimeofday");
    const int result = real(time, zone);
    time->tv_sec += shift_s();
    return result;
}

time_t time(time_t* result) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (result != nullptr) *result = now.tv_sec;
    return now.tv_sec;
}

}  // extern "C"
#pragma GCC visibility pop
