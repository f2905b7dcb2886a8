// maru-bench: figures of this build on this machine, each beside what it is compared to.
#include <maru/maru.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "commands.hpp"
#include "counterpart/socket_echo.hpp"

namespace maru::bench {
namespace {

void add_measuring_options(CLI::App* command, Request* request) {
    command->add_option("--json", request->json, "write the figures to this file, a JSON array")
        ->type_name("FILE");
    command->add_option("--daemon", request->daemon, "program of the private daemon")->type_name("PROGRAM");
    command->add_flag("--quick", request->quick, "fewer objects and rounds: shows that everything works");
}

int finish(const char* command, const Result<void>& result) {
    if (result) return 0;
    std::fflush(stdout);
    std::fprintf(stderr, "maru-bench %s: %s\n", command, result.error().text.c_str());
    return 1;
}

int run(int argc, char** argv) {
    CLI::App app("Measures maru. Every figure is a ratio to a counterpart that is measured in the same run.",
                 "maru-bench");
    app.set_version_flag("--version", std::string("maru-bench ") + maru_version());
    app.require_subcommand(1);
    Request request;
    auto* micro =
        app.add_subcommand("micro", "the fast path: lookups, stores and removals of a million objects");
    auto* put = app.add_subcommand("put", "payload: puts, gets and zero-copy reads of 1 MiB and 4 MiB");
    auto* reference = app.add_subcommand("reference", "the counterparts by themselves");
    auto* python = app.add_subcommand("python", "the Python package beside the C calls under it");
    python->add_option("--python", request.python, "interpreter to measure")->type_name("PROGRAM");
    auto* recovery = app.add_subcommand("recovery", "deaths, restarts, and the calls that need the daemon");
    recovery->add_option("--idle-seconds", request.idle_seconds, "how long the idle daemon is watched (60)")
        ->check(CLI::Range(1u, 3600u));
    for (auto* command : {micro, put, python, recovery})
        add_measuring_options(command, &request);
    for (auto* command : {micro, put, python})
        command->add_option("--socket", request.socket, "use this daemon instead of a private one")
            ->type_name("PATH");
    put->add_flag("--sweep", request.sweep, "only print copy rates by size, plain against streaming");
    reference->add_flag("--quick", request.quick, "leave the largest sizes out");

    std::uint64_t objects = 0, order = 0, hits = 0, pages = 0, pins = 0;
    auto* worker = app.add_subcommand("worker", "")->group("");
    worker->add_option("--socket", request.socket)->required();
    worker->add_option("--objects", objects)->required();
    worker->add_option("--order", order)->required();
    auto* retriever = app.add_subcommand("hits", "")->group("");
    retriever->add_option("--socket", request.socket)->required();
    retriever->add_option("--hits", hits)->required();
    auto* holder = app.add_subcommand("holder", "")->group("");
    holder->add_option("--socket", request.socket)->required();
    holder->add_option("--pages", pages)->required();
    holder->add_option("--pins", pins)->required();
    auto* steady = app.add_subcommand("steady", "")->group("");
    steady->add_option("--socket", request.socket)->required();
    steady->add_option("--objects", objects)->required();
    auto* echo = app.add_subcommand("echo", "")->group("");
    echo->add_option("--socket", request.socket)->required();

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int status = app.exit(error);
        return status == 0 ? 0 : 1;
    }
    if (micro->parsed()) return finish("micro", run_micro(request));
    if (put->parsed()) return finish("put", request.sweep ? run_sweep(request) : run_put(request));
    if (python->parsed()) return finish("python", run_python(request));
    if (recovery->parsed()) return finish("recovery", run_recovery(request));
    if (reference->parsed()) return finish("reference", run_reference(request));
    if (worker->parsed()) return finish("worker", run_worker(request.socket, objects, order));
    if (holder->parsed()) return finish("holder", run_holder(request.socket, pages, pins));
    if (steady->parsed()) return finish("steady", run_steady(request.socket, objects));
    if (echo->parsed()) return finish("echo", run_echo(request.socket));
    return finish("hits", run_hits(request.socket, hits));
}

}  // namespace
}  // namespace maru::bench

int main(int argc, char** argv) {
    return maru::bench::run(argc, argv);
}
