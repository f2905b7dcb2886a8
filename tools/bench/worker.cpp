// The hidden subcommands: processes that `micro` starts beside itself.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "commands.hpp"
#include "engine.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr std::size_t batch = 256;  // calls between two looks at the clock
constexpr std::size_t hits_keys = 1'000;
constexpr int settling_turns = 10;

struct Done {
    std::uint64_t operations = 0, ns = 0;
};

/// Retrieves and releases for `span_ns`, over all keys in order from `at` on, or the first one again and
/// again.
Result<Done> run_for(maru_client* client, const KeySet& keys, bool one_key, std::uint64_t span_ns,
                     std::size_t& at) {
    Done done;
    const std::uint64_t started = now_ns();
    do {
        for (std::size_t i = 0; i < batch; ++i) {
            const std::size_t which = one_key ? 0 : at;
            if (++at == keys.size()) at = 0;
            if (const maru_status status = retrieve_all(client, keys, which, 1); status != MARU_OK)
                return refused(client, "retrieve", status);
        }
        done.operations += batch;
        done.ns = now_ns() - started;
    } while (done.ns < span_ns);
    return done;
}

// A system call that does nothing and that a tracer recognises.
void mark(const char* text) {
    if (::write(-1, text, std::strlen(text)) >= 0) std::abort();
}

}  // namespace

Result<void> run_worker(const std::string& socket, std::uint64_t objects, std::uint64_t order_seed) {
    auto client = connect_reader(socket);
    if (!client) return client.error();
    const KeySet keys(0, objects, order_seed), hot(0, 1, 0);
    for (int pass = 0; pass < 2; ++pass)  // the first one meets every page of the tables for the first time
        if (const auto status = retrieve_all(client->get(), keys, 0, keys.size()); status != MARU_OK)
            return refused(client->get(), "retrieve", status);
    std::puts("ready");
    std::fflush(stdout);
    std::size_t at = 0;
    std::array<char, 128> line;
    while (std::fgets(line.data(), line.size(), stdin) != nullptr) {
        std::array<char, 16> what{};
        unsigned long long span_ns = 0;
        if (std::sscanf(line.data(), "%15s %llu", what.data(), &span_ns) != 2)
            return Error{Code::invalid, "worker: not an order: " + std::string(line.data())};
        const bool one_key = std::strcmp(what.data(), "hot") == 0;
        const auto done = run_for(client->get(), one_key ? hot : keys, one_key, span_ns, at);
        if (!done) return done.error();
        std::printf("%llu %llu\n", static_cast<unsigned long long>(done->operations),
                    static_cast<unsigned long long>(done->ns));
        std::fflush(stdout);
        if (one_key) at = 0;
    }
    return {};
}

Result<void> run_hits(const std::string& socket, std::uint64_t hits) {
    auto client = connect_reader(socket);
    if (!client) return client.error();
    const KeySet keys(0, hits_keys, 3);
    // The client's own thread gets to its resting place, the first call of this thread takes what it needs.
    for (int turn = 0; turn < settling_turns; ++turn) {
        if (const auto status = maru_ping(client->get()); status != MARU_OK)
            return refused(client->get(), "ping", status);
        if (const auto status = retrieve_all(client->get(), keys, 0, hits_keys); status != MARU_OK)
            return refused(client->get(), "retrieve", status);
    }
    mark(hits_begin);
    for (std::uint64_t done = 0; done < hits; done += hits_keys)
        if (const auto status = retrieve_all(client->get(), keys, 0, hits_keys); status != MARU_OK)
            return refused(client->get(), "retrieve", status);
    mark(hits_end);
    return {};
}

}  // namespace maru::bench
