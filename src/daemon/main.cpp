// maru: the daemon.
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

#include "base/log.hpp"
#include "base/size.hpp"
#include "daemon/kept_pools.hpp"
#include "daemon/lost_memory.hpp"
#include "daemon/remake.hpp"
#include "daemon/server.hpp"
#include "pool/devices.hpp"

namespace maru::daemon {
namespace {

ExitCode failed(ExitCode exit, const std::string& text) {
    std::cerr << "maru: " << text << '\n';
    return exit;
}

/// As much as the hard limit allows.
void raise_limit(int resource) {
    const auto which = static_cast<__rlimit_resource_t>(resource);
    rlimit limit{};
    if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(which, &limit);
}

void say_start(const Domain& domain, const Listener& listener, const Loop& loop) {
    std::string pools;
    for (const auto& pool : domain.pools)
        if (pool)
            pools += (pools.empty() ? "" : ", ") + pool->name() + " " + format_size(pool->size()) +
                     (pool->path().empty() ? std::string() : " at " + pool->path()) + " (" +
                     pool->describe() + ")";
    for (const auto& warning : domain.warnings)
        spdlog::warn("{}", warning);
    spdlog::info(
        "maru {} serves {}; pools: {}; control region {}, {} objects at most; coherence {}; {}; domain {} {}",
        MARU_VERSION, listener.path(), pools, format_size(domain.control->control_bytes()),
        domain.control->record_count() - table::records_per_granule, name_of(domain.control->coherence()),
        loop.name(), domain.control->domain().text(), domain.formatted ? "formatted" : "attached");
}

/// On the embedded default: devices that nobody uses, and how to use them.
void say_unused_devices() {
    for (const auto& path : pool::usable_devices())
        spdlog::info(
            "{} is an unused DAX device: to serve it, configure [[pool]] kind = \"devdax\", path = "
            "\"{}\"",
            path, path);
}

ExitCode serve(const CommandLine& command_line, Config config) {
    if (auto log = start_log(config.daemon.log_level, config.daemon.log_file); !log)
        return failed(ExitCode::bad_config, log.error().text);
    const auto path = socket_path(config);
    if (!path) return failed(ExitCode::bad_config, path.error().text);
    Signals::block();
    raise_limit(RLIMIT_NOFILE);   // each client takes two descriptors
    raise_limit(RLIMIT_MEMLOCK);  // the control region is locked in memory

    bool busy = false;
    auto listener = Listener::open({*path, config.daemon.socket_mode, config.daemon.group}, &busy);
    if (!listener) return failed(busy ? ExitCode::owned : ExitCode::failure, listener.error().text);
    const auto give_up = [&](ExitCode exit, const Error& error) {
        listener->close();
        return failed(exit, error.text);
    };
    auto metrics = open_metrics(config);
    if (!metrics) return give_up(ExitCode::failure, metrics.error());
    ExitCode exit = ExitCode::clean;
    auto domain = open_domain(config, &exit, open_pool);
    if (!domain) return give_up(exit, domain.error());
    end_when_memory_goes(*domain, config.daemon.log_file);
    auto loop = make_loop(config.daemon.event_backend);
    if (!loop) return give_up(ExitCode::failure, loop.error());
    // A host that was fenced comes back as a new one: with another client slot of its own and no clients.
    for (bool again = true; again;) {
        const auto place = enter_domain(*domain->control, config);
        if (!place)
            return give_up(place.error().code == Code::invalid ? ExitCode::owned : ExitCode::failure,
                           place.error());
        Server server(command_line, config, *domain, *listener, *metrics, **loop, *place);
        server.take_over(place->rebooted);
        say_start(*domain, *listener, **loop);
        if (config.embedded_default) say_unused_devices();
        const auto ended = server.run();
        again = ended && *ended == Standing::fenced;
        if (again) continue;
        ::sd_notify(0, "STOPPING=1");
        listener->close();
        if (ended && *ended == Standing::current) return ExitCode::clean;
        if (ended) return *ended == Standing::replaced ? ExitCode::owned : ExitCode::failure;
        spdlog::error("{}", ended.error().text);
        return ExitCode::failure;
    }
    return ExitCode::clean;
}

ExitCode run(const CommandLine& command_line) {
    auto config = load_config(command_line);
    if (!config) return failed(ExitCode::bad_config, config.error().text);
    if (command_line.check_config) {
        const auto explained = explain_config(*config, command_line);
        if (!explained) return failed(ExitCode::bad_config, explained.error().text);
        std::cout << *explained;
        return ExitCode::clean;
    }
    if (command_line.format) return format_anew(*config, command_line.yes, command_line.force);
    if (command_line.remove) return remove_domain(*config, command_line.yes);
    return serve(command_line, std::move(*config));
}

void describe(CLI::App& app, CommandLine& command_line) {
    app.add_option("--config", command_line.config_file, "read this TOML file")->option_text("FILE");
    app.add_flag("--check-config", command_line.check_config,
                 "print the effective values and end; touches nothing");
    app.add_option("--pool", command_line.pools, "a pool, instead of those in the file (may be repeated)")
        ->option_text("KIND:WHAT[:SIZE]")
        ->expected(1)
        ->take_all();
    app.add_option("--socket", command_line.socket, "where clients connect")->option_text("PATH");
    app.add_option("--log-level", command_line.log_level, "trace, debug, info, warn or error")
        ->option_text("LEVEL");
    auto* format =
        app.add_flag("--format", command_line.format, "make the domain anew, losing what is in it, and end");
    auto* remove =
        app.add_flag("--remove", command_line.remove, "delete the files of a stopped domain and end");
    format->excludes(remove);
    app.add_flag("-y,--yes", command_line.yes, "do not ask before --format or --remove");
    app.add_flag("--force", command_line.force,
                 "with --format: also over a device that another program has open or mapped")
        ->needs(format);
    app.set_version_flag("--version", std::string("maru ") + MARU_VERSION, "print the version and end");
}

}  // namespace
}  // namespace maru::daemon

int main(int argc, char** argv) {
    using namespace maru::daemon;
    try {
        CLI::App app("The daemon of maru: owns pools of shared memory and hands them to clients.", "maru");
        CommandLine command_line;
        describe(app, command_line);
        std::string listen;
        app.add_option("--listen", listen)->group("");  // for an error that says why
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::bad_config);
        }
        if (!listen.empty())
            return static_cast<int>(failed(
                ExitCode::bad_config, "--listen " + listen +
                                          " is not supported by this version: clients of this host connect "
                                          "over the socket (--socket)"));
        return static_cast<int>(run(command_line));
    } catch (const std::exception& error) {
        std::cerr << "maru: " << error.what() << '\n';
        return static_cast<int>(ExitCode::failure);
    }
}
