#include "daemon/lost_memory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>

namespace maru::daemon {
namespace {

/// What the handler needs, made before it is there.
struct Prepared {
    std::uintptr_t begin = 0, end = 0;
    std::string gone, bad, log_file;
};

Prepared& prepared() {
    static auto* made = new Prepared;  // never destroyed: a signal may come at any time
    return *made;
}

void say(int file, const std::string& text) {
    if (file >= 0 && ::write(file, text.data(), text.size()) < 0) return;  // nobody is left to tell
}

void on_bus_error(int number, siginfo_t* info, void*) {
    const Prepared& known = prepared();
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (info->si_code > 0 && at >= known.begin && at < known.end) {
        const bool poison = info->si_code == BUS_MCEERR_AR || info->si_code == BUS_MCEERR_AO;
        const std::string& text = poison ? known.bad : known.gone;
        say(STDERR_FILENO, text);
        if (!known.log_file.empty())
            say(::open(known.log_file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC), text);
        ::_exit(static_cast<int>(ExitCode::failure));
    }
    ::signal(number, SIG_DFL);
    if (info->si_code <= 0) ::raise(number);  // sent by somebody; else the access is made again, and ends it
}

}  // namespace

void end_when_memory_goes(const Domain& domain, const std::string& log_file) {
    Prepared& known = prepared();
    known.begin = reinterpret_cast<std::uintptr_t>(domain.mapping.data());
    known.end = known.begin + domain.mapping.size();
    known.log_file = log_file;
    const auto& pool = *domain.pools.front();
    const std::string where = "maru: error: the control region in pool '" + pool.name() + "'" +
                              (pool.path().empty() ? "" : " (" + pool.path() + ")");
    known.gone =
        where +
        " is not there any more (SIGBUS): the device was disabled or removed, or the file was cut short. "
        "Bring it back, run maructl check with the daemon down, and start maru again\n";
    known.bad =
        where +
        " lies on a page of bad memory (SIGBUS). Stop the clients, run maructl check --repair, or make the "
        "domain anew with maru --format on other memory\n";
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace maru::daemon
