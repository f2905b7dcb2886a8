// What the running daemon writes to its log.
#include <string>

#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

int set(const Options& options, const char* command, const Json& arguments,
        const std::function<std::string(const Json&)>& said) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) {
        complain(daemon.error().text);
        return exit_cannot;
    }
    const auto answer = daemon->ask(command, arguments);
    if (!answer) {
        complain(answer.error().text);
        return exit_no;
    }
    print(options.json ? answer->dump(2) + "\n" : said(*answer));
    return exit_done;
}

}  // namespace

int set_trace(const Options& options, bool on) {
    return set(options, "trace", Json{{"on", on}}, [on](const Json& answer) {
        const std::string level = text(answer, "log_level");
        const bool hidden = on && (level == "warn" || level == "error");
        return std::string(on ? "requests are traced" : "requests are not traced") +
               (hidden
                    ? ", but the log level is " + level + ": they show from info on (maructl log-level info)"
                    : "") +
               "\n";
    });
}

int set_log_level(const Options& options, const std::string& level) {
    return set(options, "log_level", Json{{"level", level}}, [](const Json& answer) {
        return "the log level is " + text(answer, "log_level") + ", it was " + text(answer, "before") + "\n";
    });
}

}  // namespace maru::ctl
