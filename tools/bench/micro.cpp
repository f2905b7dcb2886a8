// `maru-bench micro`: the fast path without payload.
#include "micro.hpp"

#include "base/size.hpp"
#include "commands.hpp"
#include "conditions.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

// The first pass of a process over shared pages that another one populated is far slower than later ones.
Result<void> fill_and_touch(maru_client* client, const KeySet& keys) {
    const KeySet ascending(0, keys.size(), 0);
    maru_status status = store_all(client, ascending, 0, ascending.size(), micro_page_bytes);
    if (status != MARU_OK) return refused(client, "filling the domain: store", status);
    for (int pass = 0; pass < 2; ++pass)
        if (status = retrieve_all(client, keys, 0, keys.size()); status != MARU_OK)
            return refused(client, "first pass: retrieve", status);
    return {};
}

// In a daemon that is not ours everything goes again, as far as it got there.
void remove_everything(const Bench& bench) {
    for (const KeySet* keys : {&bench.keys, &bench.spare})
        for (std::size_t i = 0; i < keys->size(); ++i)
            maru_remove(bench.client, keys->data(i), key_bytes);
}

Result<void> measure_all(const Bench& bench) {
    if (auto done = measure_lookups(bench); !done) return done;
    if (auto done = measure_hot_lookups(bench); !done) return done;
    if (auto done = measure_stores(bench); !done) return done;
    if (auto done = measure_stopped_daemon(bench); !done) return done;
    if (auto done = measure_two_processes(bench); !done) return done;
    measure_system_calls(bench);
    return {};
}

std::string describe_tables(maru_client* client) {
    const auto tables = Domain::lookup_tables(client);
    if (!tables) return tables.error().text;
    return "index " + format_size((*tables)[0].size()) + " and page records " +
           format_size((*tables)[1].size()) + " in " + pages_of((*tables)[0].data());
}

}  // namespace

Result<void> run_micro(const Request& request) {
    const MicroSizes& sizes = request.quick ? quick_micro : whole_micro;
    const std::size_t pages = sizes.objects + 2 * sizes.stores;
    auto domain = Domain::start(request, {pages, micro_page_bytes});
    if (!domain) return domain.error();
    auto client = connect_writer((*domain)->socket(), micro_page_bytes, pages * micro_page_bytes);
    if (!client) return client.error();
    const KeySet keys(0, sizes.objects, 1), spare(sizes.objects, sizes.stores, 2);
    // Before the heading: which pages this process's tables lie in shows only once they were touched.
    const auto filled = fill_and_touch(client->get(), keys);
    Report report(machine_conditions() + "\n" + std::to_string(sizes.objects) + " objects, keys of " +
                      std::to_string(key_bytes) + " bytes, warm; " + describe_tables(client->get()),
                  request.quick);
    const Bench bench{sizes, **domain, client->get(), keys, spare, report};
    if (auto writable = report.write_json(request.json); !writable) return writable;
    const auto measured = filled ? measure_all(bench) : filled;
    if (!(*domain)->is_private()) remove_everything(bench);
    return report.finish(measured, request.json);
}

}  // namespace maru::bench
