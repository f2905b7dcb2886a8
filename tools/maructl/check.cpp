// Is the control region sound? Through the daemon, or on the memory itself.
#include "commands.hpp"
#include "daemon/admin.hpp"
#include "fields.hpp"
#include "offline.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

/// The report of whoever looked.
Result<Json> report_of(Target& target) {
    if (target.daemon) return target.daemon->ask("check", Json::object());
    const auto& domain = *target.offline;
    const auto& first = domain.pools.front();
    if (first.fault) return *first.fault;
    if (!domain.control)
        return Error{Code::damaged,
                     target.path + ": " +
                         (domain.head.fault ? domain.head.fault->text + ": try maructl check --repair"
                                            : "no domain was formatted here")};
    // With clients about, what both of two looks find counts; without, one look is exact.
    return Json::parse(daemon::check_domain(*domain.control, !domain.user.empty()));
}

std::string findings_text(const Json& report) {
    const auto& findings = field(report, "findings");
    std::string lines;
    for (const auto& finding : findings) {
        std::string words;
        for (const auto& word : field(finding, "words"))
            if (word.is_string()) words += (words.empty() ? "" : " ") + word.get<std::string>();
        lines += text(finding, "where") + ": " + text(finding, "what") + " [" + words + "]\n";
    }
    const auto total = number(report, "findings_total");
    if (total > findings.size()) lines += "... and " + std::to_string(total - findings.size()) + " more\n";
    return lines;
}

}  // namespace

int run_check(const Options& options, const Where& where) {
    auto target = find_target(options, where);
    if (!target) return fail(target.error(), exit_cannot);
    const auto report = report_of(*target);
    if (!report) return fail(report.error(), exit_cannot);
    if (!report->contains("clean") || !(*report)["clean"].is_boolean())
        return fail({Code::version, "the daemon's answer to \"check\" is not understood"}, exit_cannot);
    const bool clean = (*report)["clean"].get<bool>();
    if (options.json) {
        print(report->dump(2) + "\n");
        return clean ? exit_done : exit_no;
    }
    print(findings_text(*report) +
          (clean ? std::string("clean") : count(*report, "findings_total") + " finding(s)") + ": looked at " +
          count(*report, "records") + " page records, " + count(*report, "slots") + " index slots, " +
          count(*report, "regions") + " regions, " + count(*report, "pins") + " pins, " +
          count(*report, "clients") + " clients; " + count(*report, "objects") + " objects\n");
    return clean ? exit_done : exit_no;
}

int run_dump(const Options& options, const Where& where) {
    auto target = find_target(options, where);
    if (!target) return fail(target.error(), exit_cannot);
    const auto write = [](const Json& rows) {
        std::string lines;
        for (const auto& row : rows)
            lines += row.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
        print(lines);
        return true;
    };
    if (target->daemon) {
        const auto done = target->daemon->ask_list("dump", "rows", Json::object(), write);
        return done ? exit_done : fail(done.error(), exit_cannot);
    }
    const auto& control = target->offline->control;
    if (!control)
        return fail({Code::damaged, target->path + ": " +
                                        (target->offline->head.fault ? target->offline->head.fault->text
                                                                     : "no domain was formatted here")},
                    exit_cannot);
    for (Json part{{"next", 0}}; part["next"].is_number();) {
        constexpr std::uint64_t rows_a_part = 1000;
        part = Json::parse(daemon::dump_part(*control, part["next"].get<std::uint64_t>(), rows_a_part));
        write(part["rows"]);
    }
    return exit_done;
}

}  // namespace maru::ctl
