// `maru-bench recovery`: what a death costs, and the calls that need the daemon.
#include "recovery.hpp"

#include "base/size.hpp"
#include "commands.hpp"
#include "conditions.hpp"

namespace maru::bench {
namespace {

Result<void> fill(maru_client* client, std::size_t objects) {
    const KeySet keys(0, objects, 0);
    if (const auto status = store_all(client, keys, 0, objects, recovery_page_bytes); status != MARU_OK)
        return refused(client, "filling the domain: store", status);
    for (int pass = 0; pass < 2; ++pass)  // the first one meets the tables' pages for the first time
        if (const auto status = retrieve_all(client, keys, 0, objects); status != MARU_OK)
            return refused(client, "first pass: retrieve", status);
    return {};
}

Result<void> measure_all(const Recovery& recovery, unsigned idle_seconds) {
    measure_control_overhead(recovery);
    if (auto done = measure_connect(recovery); !done) return done;
    if (auto done = measure_region_claim(recovery); !done) return done;
    if (auto done = measure_client_death(recovery); !done) return done;
    // Before the restarts: a daemon that has taken over is busy in the background for a while.
    measure_idle_processor(recovery, idle_seconds);
    return measure_daemon_restart(recovery);
}

}  // namespace

Result<void> run_recovery(const Request& request) {
    const RecoverySizes& sizes = request.quick ? quick_recovery : whole_recovery;
    auto domain = Domain::start(
        request, {sizes.objects, recovery_page_bytes, sizes.more_bytes, /*outlives_daemon=*/true});
    if (!domain) return domain.error();
    auto client =
        connect_writer((*domain)->socket(), recovery_page_bytes, sizes.objects * recovery_page_bytes);
    if (!client) return client.error();
    const auto control = Domain::control_of(client->get());
    if (!control) return control.error();
    if (auto filled = fill(client->get(), sizes.objects); !filled) return filled;
    Report report(machine_conditions() + "\n" + std::to_string(sizes.objects) + " objects, " +
                      std::to_string(control->record_count()) + " page records of " +
                      std::to_string(sizeof(table::PageRecord)) + " bytes, warm; in " +
                      pages_of(&control->record(0)),
                  request.quick);
    const Recovery recovery{sizes, **domain, client->get(), *control, report};
    if (auto writable = report.write_json(request.json); !writable) return writable;
    const auto measured = measure_all(recovery, request.idle_seconds);
    return report.finish(measured, request.json);
}

}  // namespace maru::bench
