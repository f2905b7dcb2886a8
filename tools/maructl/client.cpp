// One client and its session.
#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {

int disconnect_client(const Options& options, const std::string& client, bool kill) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    const auto answer = daemon->ask("disconnect", Json{{"client", client}, {"kill", kill}});
    if (!answer) return fail(answer.error(), exit_no);
    if (options.json) {
        print(answer->dump(2) + "\n");
        return exit_done;
    }
    print("disconnected " + text(*answer, "instance_id") + " (slot " + count(*answer, "slot") + ", process " +
          count(*answer, "pid") + ")" +
          (kill ? ", which was killed: what it held comes back\n"
                : ": its next call fails, what it holds comes back when its process ends\n"));
    return exit_done;
}

}  // namespace maru::ctl
