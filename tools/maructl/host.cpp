// Hosts of the domain, and the word that one of them will not come back.
#include <unistd.h>

#include <string>

#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

int refused(const Error& error) {
    return fail(error, error.code == Code::unavailable ? exit_cannot : exit_no);
}

std::string question(std::uint64_t host) {
    return "What the clients of host " + std::to_string(host) +
           " hold is given to others. If one of them still runs, or a device still writes for it, data is "
           "torn. Is that machine off?";
}

}  // namespace

int release_host(const Options& options, std::uint64_t host, bool yes, bool dry_run) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    auto answer = daemon->ask("release", Json{{"host", host}, {"dry_run", true}});
    if (!answer) return refused(answer.error());
    if (!dry_run && !yes) {
        if (::isatty(STDIN_FILENO) == 0) {
            complain("not released: say -y if that machine is off");
            return exit_no;
        }
        if (!agreed(question(host))) return exit_no;
    }
    if (!dry_run) answer = daemon->ask("release", Json{{"host", host}, {"dry_run", false}});
    if (!answer) return refused(answer.error());
    if (options.json) {
        print(answer->dump(2) + "\n");
        return exit_done;
    }
    print((dry_run ? "would release host " : "released host ") + count(*answer, "host") + " ('" +
          text(*answer, "host_id") + "'): " + count(*answer, "clients") + " clients" +
          (dry_run ? "\n"
                   : ", " + count(*answer, "pages") + " pages and " + count(*answer, "leases") +
                         " leases are back\n"));
    return exit_done;
}

}  // namespace maru::ctl
