// Commands on the connection and the process: connect, close, statistics, fork, mixes.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "history.hpp"
#include "mix.hpp"
#include "payload.hpp"
#include "session.hpp"

namespace engine {

void Session::connect(const Command& command, Answer& answer) {
    maru_options options = MARU_OPTIONS_INIT;
    const auto server = command.text("server"), id = command.text("id"),
               name_space = command.text("namespace");
    options.server = server.empty() ? nullptr : server.c_str();
    options.instance_id = id.empty() ? nullptr : id.c_str();
    options.name_space = name_space.empty() ? nullptr : name_space.c_str();
    options.pool_size = command.number("pool");
    options.page_size = command.number("page");
    options.expand_size = command.number("expand");
    options.no_expand = command.has("no_expand");
    options.no_claim = command.has("no_claim");
    options.no_prefault = !command.has("prefault");
    options.timeout_ms = static_cast<std::uint32_t>(command.number("timeout"));
    maru_client* client = nullptr;
    const auto start_ns = now_ns();
    const auto status = maru_connect(&options, &client);
    answer.number("took_ms", (now_ns() - start_ns) / 1'000'000);
    report(answer, status, client);
    answer.boolean("client", client != nullptr);
    if (status != MARU_OK) return;
    clients_[command.text("c", "c")] = client;
    answer.text("instance", maru_instance_id(client)).number("page_size", maru_page_size(client));
}

void Session::close(const Command& command, Answer& answer) {
    maru_client* closing = client(command);
    const auto start_ns = now_ns();
    const auto status = maru_close(closing);
    answer.number("took_us", (now_ns() - start_ns) / 1'000);
    report(answer, status, nullptr);
}

void Session::ping(const Command& command, Answer& answer) {
    const auto start_ns = now_ns();
    const auto status = maru_ping(client(command));
    answer.number("took_ms", (now_ns() - start_ns) / 1'000'000);
    report(answer, status, client(command));
}

void Session::stats(const Command& command, Answer& answer) {
    maru_statistics statistics{};
    statistics.size = sizeof statistics;
    report(answer, maru_stats(client(command), &statistics), client(command));
    answer.number("lookups", statistics.lookups)
        .number("hits", statistics.hits)
        .number("stores", statistics.stores)
        .number("duplicates", statistics.duplicates)
        .number("deletes", statistics.deletes)
        .number("evictions", statistics.evictions)
        .number("held_regions", statistics.held_regions)
        .number("held_bytes", statistics.held_bytes)
        .number("page_size", statistics.page_size)
        .number("pages", statistics.pages)
        .number("free_pages", statistics.free_pages)
        .number("pool_bytes", statistics.pool_bytes)
        .number("unclaimed_bytes", statistics.unclaimed_bytes)
        .number("reconnects", statistics.reconnects)
        .signed_number("connected", statistics.connected);
}

void Session::regions(const Command& command, Answer& answer) {
    std::vector<std::uint32_t> held(1024);
    std::size_t count = 0;
    report(answer, maru_held_regions(client(command), held.data(), held.size(), &count), client(command));
    held.resize(count);
    answer.numbers("held", held);
    maru_region_description region{};
    region.size = sizeof region;
    const auto wanted = command.has("region") ? static_cast<std::uint32_t>(command.number("region"))
                                              : (held.empty() ? 0 : held.front());
    answer.signed_number("info", maru_region_info(client(command), wanted, &region))
        .number("bytes", region.bytes)
        .number("page_size", region.page_size)
        .number("page_count", region.page_count)
        .number("pool", region.pool)
        .number("base", reinterpret_cast<std::uintptr_t>(region.base));
}

void Session::pool(const Command& command, Answer& answer) {
    maru_pool_description pool{};
    pool.size = sizeof pool;
    const auto status =
        maru_pool_info(client(command), static_cast<std::uint32_t>(command.number("pool")), &pool);
    report(answer, status, client(command));
    if (status != MARU_OK) return;
    answer.text("name", pool.name)
        .text("path", pool.path)
        .text("kind", pool.kind)
        .number("bytes", pool.bytes);
}

/// Waits until the event descriptor says that the daemon went or came back.
void Session::event(const Command& command, Answer& answer) {
    pollfd waiting{maru_event_fd(client(command)), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(command.number("timeout", 1000)));
    std::uint64_t value = 0;
    if (ready == 1) answer.boolean("reset", ::read(waiting.fd, &value, sizeof value) == sizeof value);
    answer.boolean("ready", ready == 1).signed_number("descriptor", waiting.fd);
}

namespace {

struct ChildResults {
    int put, get, retrieve, exists, remove, alloc, ping, close, fresh_connect, fresh_get;
};

ChildResults try_everything(maru_client* client, const std::string& key, const char* server) {
    ChildResults results{};
    char byte = 'x';
    std::uint64_t size = 0;
    maru_view view{};
    maru_page page{};
    results.put = maru_put(client, "child", 5, &byte, 1);
    results.get = maru_get(client, key.data(), key.size(), &byte, 1, &size);
    results.retrieve = maru_retrieve(client, key.data(), key.size(), &view);
    results.exists = maru_exists(client, key.data(), key.size());
    results.remove = maru_remove(client, key.data(), key.size());
    results.alloc = maru_alloc(client, 1, &page);
    results.ping = maru_ping(client);
    results.close = maru_close(client);
    maru_options options = MARU_OPTIONS_INIT;
    options.server = server;
    options.no_claim = 1;
    maru_client* fresh = nullptr;
    results.fresh_connect = maru_connect(&options, &fresh);
    if (results.fresh_connect != MARU_OK) return results;
    results.fresh_get = maru_retrieve(fresh, key.data(), key.size(), &view);
    if (results.fresh_get == MARU_OK && !verify(view.data, key, view.size).right) results.fresh_get = -100;
    maru_close(fresh);
    return results;
}

}  // namespace

/// The child tries every kind of call on its parent's client, then connects by itself; it ends with exit(),
/// so that its destructors and exit handlers run.
void Session::fork_child(const Command& command, Answer& answer) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    const auto key = command.bytes("key"), server = command.text("server");
    const pid_t child = ::fork();
    if (child == 0) {
        const auto results = try_everything(client(command), key, server.c_str());
        const bool told = ::write(ends[1], &results, sizeof results) == sizeof results;
        std::exit(told ? 0 : 1);
    }
    ::close(ends[1]);
    ChildResults results{};
    pollfd waiting{ends[0], POLLIN, 0};
    const bool heard =
        ::poll(&waiting, 1, 10'000) == 1 && ::read(ends[0], &results, sizeof results) == sizeof results;
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    answer.boolean("heard", heard).signed_number("exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    answer.signed_number("put", results.put)
        .signed_number("get", results.get)
        .signed_number("retrieve", results.retrieve)
        .signed_number("exists", results.exists)
        .signed_number("remove", results.remove)
        .signed_number("alloc", results.alloc)
        .signed_number("ping", results.ping)
        .signed_number("close", results.close)
        .signed_number("fresh_connect", results.fresh_connect)
        .signed_number("fresh_get", results.fresh_get);
}

/// A child that does nothing but live; its process id is in the answer.
void Session::fork_and_stay(const Command&, Answer& answer) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(STDIN_FILENO);
        ::close(STDOUT_FILENO);
        ::close(STDERR_FILENO);
        ::pause();
        ::_exit(0);
    }
    answer.signed_number("pid", child);
}

/// Retrieves and releases one key `count` times.
void Session::hits(const Command& command, Answer& answer) {
    const auto key = command.bytes("key");
    std::uint64_t good = 0, sum = 0, slowest_ns = 0;
    const bool timed = command.has("timed");
    for (std::uint64_t n = 0; n < command.number("count"); ++n) {
        const std::uint64_t start_ns = timed ? now_ns() : 0;
        maru_view view{};
        if (maru_retrieve(client(command), key.data(), key.size(), &view) != MARU_OK) continue;
        sum += *static_cast<const unsigned char*>(view.data);
        good += maru_release(client(command), &view) == MARU_OK;
        if (timed && now_ns() - start_ns > slowest_ns) slowest_ns = now_ns() - start_ns;
    }
    answer.number("hits", good).number("sum", sum).number("slowest_ns", slowest_ns);
}

void Session::mix(const Command& command, Answer& answer) {
    MixPlan plan;
    plan.seed = command.number("seed", plan.seed);
    plan.client = static_cast<std::uint32_t>(command.number("client", plan.client));
    plan.threads = static_cast<std::uint32_t>(command.number("threads", plan.threads));
    plan.keys = static_cast<std::uint32_t>(command.number("keys", plan.keys));
    plan.operations = command.number("operations");
    plan.run_ms = command.number("run_ms", plan.run_ms);
    plan.until_told = command.has("until_told");
    plan.size_max = command.number("size_max", plan.size_max);
    plan.hold = static_cast<std::uint32_t>(command.number("hold", plan.hold));
    plan.prefix = command.text("prefix", plan.prefix);
    plan.history = command.text("history");
    plan.history_events = command.number("history_events", plan.history_events);
    plan.history_step = static_cast<std::uint32_t>(command.number("history_step", plan.history_step));
    plan.pins = !command.has("no_pins");
    const MixReport report = run_mix(client(command), plan);
    answer.number("operations", report.operations)
        .number("verified_bytes", report.verified_bytes)
        .number("violations", report.violations)
        .text("first_violation", report.first_violation)
        .number("slowest_ns", report.slowest_ns)
        .text("slowest_call", report.slowest_call);
    std::string statuses;
    for (const auto& [status, count] : report.statuses)
        statuses +=
            (statuses.empty() ? "\"" : ",\"") + std::to_string(status) + "\":" + std::to_string(count);
    answer.raw("statuses", "{" + statuses + "}");
}

}  // namespace engine
