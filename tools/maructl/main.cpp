// maructl: looks into a running daemon, and moves single values.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <functional>

#include "base/size.hpp"
#include "commands.hpp"
#include "maru/maru.h"
#include "output.hpp"
#include "top/top.hpp"
#include "wire/key_text.hpp"

namespace maru::ctl {
namespace {

constexpr std::size_t key_bytes_max = 4096;

constexpr const char* key_help =
    "Key: text as it stands, hex:DIGITS for any bytes, int:NUMBER for an integer key (int:42 is not the text "
    "42)";

/// A key from the command line, or what is wrong with it.
Result<std::string> checked_key(const std::string& text) {
    auto key = wire::parse_key(text);
    if (!key) return key;
    if (key->empty()) return Error{Code::invalid, "an empty key: keys have 1 to 4096 bytes"};
    if (key->size() > key_bytes_max)
        return Error{Code::invalid,
                     "a key of " + std::to_string(key->size()) + " bytes: keys have 1 to 4096 bytes"};
    return key;
}

/// What the command line said.
struct Line {
    Options options;
    Where where;
    std::string key, file, output = "-", prefix, page_size;
    std::vector<std::string> keys;
    std::string client;
    std::uint64_t limit = 0, host = 0;
    std::string interval;
    std::uint64_t count = 0;
    bool once = false, csv = false;
    std::string bytes, name_space, older_than;
    std::string name;
    NamespaceWish wish;
    bool repair = false, kill = false, yes = false, dry_run = false, force = false;
    bool cancel = false;
    RowChoice rows;
};

int wrong_use(const Error& error) {
    complain(error.text);
    return exit_cannot;
}

using Command = std::function<int(const Line&)>;

int with_key(const Line& line, const std::function<int(const std::string&)>& run) {
    const auto key = checked_key(line.key);
    return key ? run(*key) : wrong_use(key.error());
}

int run_put(const Line& line) {
    std::uint64_t page_bytes = 0;
    if (!line.page_size.empty()) {
        const auto parsed = parse_size(line.page_size);
        if (!parsed) return wrong_use({Code::invalid, "--page-size: " + parsed.error().text});
        if (*parsed == 0)
            return wrong_use({Code::invalid, "--page-size: 0 is no page; leave it out to have it chosen"});
        if (*parsed > 1 * TiB)
            return wrong_use(
                {Code::invalid, "--page-size: " + format_size(*parsed) + " is more than 1.0 TiB"});
        page_bytes = round_up(*parsed, 4 * KiB);
    }
    return with_key(
        line, [&](const std::string& key) { return put_value(line.options, key, line.file, page_bytes); });
}

int run_rm(const Line& line) {
    std::vector<std::string> keys;
    for (const auto& text : line.keys) {  // all are looked at before the first one goes
        auto key = checked_key(text);
        if (!key) return wrong_use(key.error());
        keys.push_back(std::move(*key));
    }
    return remove_keys(line.options, keys);
}

int run_keys(const Line& line) {
    const auto prefix = wire::parse_key(line.prefix);
    if (!prefix) return wrong_use({Code::invalid, "--prefix: " + prefix.error().text});
    return show_keys(line.options, {*prefix, line.name_space, line.limit});
}

int run_evict(const Line& line) {
    EvictWish wish;
    if (!line.bytes.empty()) {
        const auto bytes = parse_size(line.bytes);
        if (!bytes) return wrong_use({Code::invalid, "--bytes: " + bytes.error().text});
        if (*bytes == 0) return wrong_use({Code::invalid, "--bytes: 0 bytes are nothing to evict"});
        wish.bytes = *bytes;
    }
    if (!line.older_than.empty()) {
        const auto span = parse_duration(line.older_than);
        if (!span) return wrong_use({Code::invalid, "--older-than: " + span.error().text});
        if (span->count() < 1000)
            return wrong_use(
                {Code::invalid, "--older-than: \"" + line.older_than + "\" is less than a second"});
        wish.older_than_s = static_cast<std::uint64_t>(span->count()) / 1000;
    }
    if (!line.name_space.empty()) wish.name_space = line.name_space;
    if (wish.bytes == 0 && wish.older_than_s == 0 && !wish.name_space)
        return wrong_use({Code::invalid, "evict: say what goes, with --bytes, --namespace or --older-than"});
    return evict_objects(line.options, wish, line.yes, line.dry_run);
}

CLI::App* add_command(CLI::App& app, const char* name, const char* what, const char* example) {
    auto* command = app.add_subcommand(name, what);
    command->fallthrough();  // --json and --socket may stand behind the command
    command->footer(std::string("Example:\n  ") + example);
    return command;
}

/// Empty, or what is wrong with a number of things.
std::string check_count(const std::string& given) {
    std::uint64_t number = 0;
    const auto [end, problem] = std::from_chars(given.data(), given.data() + given.size(), number);
    const bool whole = problem == std::errc{} && end == given.data() + given.size() && number > 0;
    return whole ? std::string() : "\"" + given + "\" is not a whole number from 1 on";
}

void add_lists(CLI::App& app, Line& line, Command* chosen) {
    const auto simple = [&](const char* name, const char* what, const char* example,
                            int (*run)(const Options&)) {
        add_command(app, name, what, example)->callback([chosen, run] {
            *chosen = [run](const Line& given) { return run(given.options); };
        });
    };
    const auto list = [&](const char* name, const char* what, const char* example,
                          int (*run)(const Options&, const RowChoice&)) {
        auto* command = add_command(app, name, what, example);
        command->add_option("--sort", line.rows.sort, "By a field of --json, such as pid or bytes.free")
            ->type_name("FIELD");
        command->add_flag("--reverse", line.rows.reverse, "The last row first");
        command->add_option("--filter", line.rows.filters, "Only rows with this value (may be repeated)")
            ->type_name("FIELD=VALUE")
            ->expected(1)
            ->take_all();
        command->callback(
            [chosen, run] { *chosen = [run](const Line& given) { return run(given.options, given.rows); }; });
    };
    simple("status", "The daemon, its domain, bytes by state, warnings with remedies", "maructl status",
           show_status);
    list("pools", "Pools and how full they are", "maructl pools --sort bytes.free", show_pools);
    list("regions", "Regions: page size, pages by state, who allocates there",
         "maructl regions --filter pool=0 --sort page_bytes", show_regions);
    list("clients", "Clients: process, memory, pins, counters",
         "maructl clients --filter state=ACTIVE --sort counters.hits --reverse", show_clients);
    list("hosts", "Hosts of the domain and whether they show signs of life", "maructl hosts", show_hosts);
    list("namespaces", "Namespaces with objects, bytes, quota and who may enter", "maructl namespaces",
         show_namespaces);
    simple("ping", "Round trip to the daemon", "maructl --socket /run/maru/maru.sock ping", show_ping);
    auto* keys = add_command(app, "keys", "Keys with size, age, pins and place",
                             "maructl keys --prefix model-a/ --limit 20\n  maructl keys --prefix hex:00ff");
    keys->add_option("--prefix", line.prefix,
                     "Only keys that begin so (text, hex: or int:; at most 120 bytes)")
        ->type_name("P");
    keys->add_option("--namespace", line.name_space, "Only keys of this namespace")->type_name("N");
    keys->add_option("--limit", line.limit, "At most so many")->type_name("N")->check(check_count);
    keys->callback([chosen] { *chosen = run_keys; });
}

/// Commands that also work on a domain without a daemon.
void add_offline(CLI::App& app, Line& line, Command* chosen) {
    const auto add = [&](const char* name, const char* what, const char* example) {
        auto* command = add_command(app, name, what, example);
        command
            ->add_option("--pool", line.where.pools,
                         "A pool of the domain, as the daemon was given it (may be repeated)")
            ->type_name("KIND:WHAT")
            ->expected(1)
            ->take_all();
        command->add_option("--config", line.where.config, "The daemon's config, which names the pools")
            ->type_name("FILE");
        return command;
    };
    auto* check =
        add("check", "Look at every table of the control region; 0: clean, 1: findings, 2: could not check",
            "maructl check && echo sound\n  maructl check --pool shm:main\n  maructl check --repair --config "
            "/etc/maru/maru.toml");
    check->add_flag(
        "--repair", line.repair,
        "Make a damaged domain sound again, keeping every object that can be proven; needs that no daemon "
        "and no client runs");
    check->callback([chosen] {
        *chosen = [](const Line& given) {
            return given.repair ? run_repair(given.options, given.where)
                                : run_check(given.options, given.where);
        };
    });
    add("dump", "Every table of the control region as JSON lines", "maructl dump | grep '\"records\"'")
        ->callback(
            [chosen] { *chosen = [](const Line& given) { return run_dump(given.options, given.where); }; });
}

void add_devices(CLI::App& app, Line& line, Command* chosen, bool with_list = true) {
    auto* device = add_command(app, "device", "DAX devices of this machine, and the header on them",
                               "maructl device list\n  maructl device init /dev/dax0.0");
    device->require_subcommand(1);
    const auto add = [&](const char* name, const char* what, const char* example) {
        auto* command = add_command(*device, name, what, example);
        command->add_option("PATH", line.file, "The device, /dev/daxX.Y")->required();
        return command;
    };
    if (with_list)
        add_command(*device, "list", "Size, alignment, mode, NUMA node, UUID and owner of each",
                    "maructl device list --json")
            ->callback([chosen] { *chosen = [](const Line& given) { return list_devices(given.options); }; });
    add("show", "What is known of one device", "maructl device show /dev/dax0.0")->callback([chosen] {
        *chosen = [](const Line& given) { return show_device(given.options, given.file); };
    });
    auto* init = add("init", "Write a header with a new UUID", "maructl device init /dev/dax0.0");
    init->add_flag("--force", line.force,
                   "Also over a header, over what is not maru's, and under a program that uses it");
    init->callback([chosen] {
        *chosen = [](const Line& given) { return init_device(given.options, given.file, given.force); };
    });
    auto* clear = add("clear", "Take the header away; what is on the device is lost",
                      "maructl device clear -y /dev/dax0.0");
    clear->add_flag("-y,--yes", line.yes, "Do not ask");
    clear->add_flag("--force", line.force, "Also under a program that has the device open or mapped");
    clear->callback([chosen] {
        *chosen = [](const Line& given) {
            return clear_device(given.options, given.file, given.yes, given.force);
        };
    });
}

int run_top(const Line& line, int (*run)(const top::Request&)) {
    top::Request request{line.options, {}, {}, line.once, line.csv};
    if (line.count != 0) request.count = line.count;
    if (!line.interval.empty()) {
        const auto interval = parse_duration(line.interval);
        constexpr std::chrono::milliseconds least{100}, most{24 * 3600 * 1000};
        if (!interval || *interval < least || *interval > most)
            return wrong_use(
                {Code::invalid, "--wait \"" + line.interval +
                                    "\": takes seconds from 0.1 to a day (\"0.5\", \"500ms\", \"5m\")"});
        request.interval = *interval;
    }
    return run(request);
}

void add_top(CLI::App& app, Line& line, Command* chosen) {
    auto* command = add_command(app, "top", "The live view, also installed as marutop",
                                "marutop\n  marutop --once\n  marutop usage --csv -w 10 -c 360 > usage.csv");
    command->require_subcommand(0, 1);
    const auto repeat = [&](CLI::App* to) {
        to->add_option("-w,--wait", line.interval, "Between two looks: 2, 0.5, 500ms (default: 2)")
            ->type_name("SECONDS");
        to->add_option("-c,--count", line.count, "End after so many looks")
            ->type_name("COUNT")
            ->check(check_count);
    };
    repeat(command);
    command->add_flag("--once", line.once, "One look as plain text");
    const auto choose = [chosen](int (*run)(const top::Request&)) {
        return [chosen, run] { *chosen = [run](const Line& given) { return run_top(given, run); }; };
    };
    // A command below replaces what its parent chose: the parser calls the innermost last.
    command->preparse_callback([choose](std::size_t) { choose(top::run_live)(); });
    const auto add = [&](const char* name, const char* what, const char* example,
                         int (*run)(const top::Request&)) {
        auto* below = add_command(*command, name, what, example);
        repeat(below);
        below->callback(choose(run));
        return below;
    };
    add("pool", "Pools: used, free, total", "marutop pool --csv", top::run_pool)
        ->add_flag("--csv", line.csv, "As comma-separated values, sizes in bytes");
    add("usage", "Instances: regions and bytes", "marutop usage --csv -w 10", top::run_usage)
        ->add_flag("--csv", line.csv, "As comma-separated values, sizes in bytes");
    add("stats", "Operations of the domain, and requests to the daemon with their latency", "marutop stats",
        top::run_stats);
    add_devices(*command, line, chosen, false);
}

void add_pools(CLI::App& app, Line& line, Command* chosen) {
    auto* pool =
        add_command(app, "pool", "Add, drain and remove pools while the domain is in use",
                    "maructl pool add shm:more:4GiB\n  maructl pool drain more\n  maructl pool remove more");
    pool->require_subcommand(1);
    auto* add = add_command(*pool, "add", "Take memory in; clients use it at once",
                            "maructl pool add devdax:/dev/dax1.0\n  maructl pool add shm:more:4GiB");
    add->add_option("POOL", line.file, "KIND:WHAT[:SIZE], as the daemon's --pool takes it")->required();
    add->callback(
        [chosen] { *chosen = [](const Line& given) { return add_pool(given.options, given.file); }; });
    auto* drain = add_command(*pool, "drain", "Nothing new goes in; what is there ages out, nothing is moved",
                              "maructl pool drain more\n  maructl pool drain --cancel more");
    drain->add_option("NAME", line.file, "Its name in `maructl pools`")->required();
    drain->add_flag("--cancel", line.cancel, "Call the drain back: the pool takes new objects again");
    drain->callback([chosen] {
        *chosen = [](const Line& given) { return drain_pool(given.options, given.file, given.cancel); };
    });
    auto* remove =
        add_command(*pool, "remove", "Give an empty pool's memory back, or evict what nobody holds first",
                    "maructl pool remove more\n  maructl pool remove -y more");
    remove->add_option("NAME", line.file, "Its name in `maructl pools`")->required();
    remove->add_flag("-y,--yes,--evict", line.yes, "Do not ask: drain it and evict what nobody holds");
    remove->callback([chosen] {
        *chosen = [](const Line& given) { return remove_pool(given.options, given.file, given.yes); };
    });
    add_command(app, "rescan",
                "Look for pools of the config, and for DAX devices, that were not there before",
                "maructl rescan")
        ->callback([chosen] { *chosen = [](const Line& given) { return rescan(given.options); }; });
}

void add_namespaces(CLI::App& app, Line& line, Command* chosen) {
    auto* group =
        add_command(app, "namespace", "Make, change and remove namespaces",
                    "maructl namespace create team-a --quota 64GiB --gid team-a --readonly-gid audit\n"
                    "  maructl namespace set team-a --quota 96GiB\n  maructl namespace rm team-a");
    group->require_subcommand(1);
    const auto add = [&](const char* name, const char* what, const char* example) {
        auto* command = add_command(*group, name, what, example);
        command->add_option("NAME", line.name, "Its name in `maructl namespaces`")->required();
        return command;
    };
    const auto add_wish = [&](CLI::App* command) {
        command
            ->add_option("--quota", line.wish.quota,
                         "Most memory for its objects, such as 64GiB; none: no limit")
            ->type_name("SIZE");
        const auto list = [&](const char* option, std::vector<std::string>& words, const char* type,
                              const char* what) {
            command->add_option(option, words, what)->type_name(type)->expected(1)->take_all();
        };
        list("--uid", line.wish.uids, "USER", "May enter (may be repeated); none: no user by name");
        list("--gid", line.wish.gids, "GROUP", "Its members may enter (may be repeated); none: no group");
        list("--readonly-gid", line.wish.readonly_gids, "GROUP",
             "Its members may look up and read (may be repeated); none: no group");
    };
    auto* create = add("create", "Make a namespace; it survives restarts",
                       "maructl namespace create team-a --quota 64GiB --uid alice --gid 2000");
    add_wish(create);
    create->callback([chosen] {
        *chosen = [](const Line& given) { return create_namespace(given.options, given.name, given.wish); };
    });
    auto* set = add("set", "Change quota or access; what is not named stays",
                    "maructl namespace set team-a --quota none --readonly-gid none");
    add_wish(set);
    set->callback([chosen] {
        *chosen = [](const Line& given) { return set_namespace(given.options, given.name, given.wish); };
    });
    auto* rm = add("rm", "Remove a namespace that no client uses", "maructl namespace rm team-a --dry-run");
    rm->add_flag("-y,--yes,--flush", line.yes, "Do not ask: flush the objects that it holds");
    rm->add_flag("--dry-run", line.dry_run, "Only say what would go");
    rm->callback([chosen] {
        *chosen = [](const Line& given) {
            return remove_namespace(given.options, given.name, given.yes, given.dry_run);
        };
    });
    auto* flush =
        add_command(app, "flush", "Take every object of a namespace away at once",
                    "maructl flush --namespace team-a --dry-run\n  maructl flush --namespace team-a -y");
    flush
        ->add_option("--namespace", line.name_space, "Its name; default is the one of clients that name none")
        ->type_name("NAME")
        ->required();
    flush->add_flag("-y,--yes", line.yes, "Do not ask");
    flush->add_flag("--dry-run", line.dry_run, "Only count what would go");
    flush->callback([chosen] {
        *chosen = [](const Line& given) {
            return flush_namespace(given.options, given.name_space, given.yes, given.dry_run);
        };
    });
}

void add_data(CLI::App& app, Line& line, Command* chosen) {
    auto* get = add_command(app, "get", "Write a value to standard output or a file",
                            "maructl get model-a/chunk-7 -o chunk.bin\n  maructl get int:42 | sha256sum");
    get->add_option("KEY", line.key, key_help)->required();
    get->add_option("-o,--output", line.output, "File to write; - is standard output")->type_name("FILE");
    get->callback([chosen] {
        *chosen = [](const Line& given) {
            return with_key(
                given, [&](const std::string& key) { return get_value(given.options, key, given.output); });
        };
    });
    auto* put = add_command(app, "put", "Store a value from a file or a pipe",
                            "maructl put model-a/chunk-7 chunk.bin\n  generate | maructl put hex:00ff -");
    put->add_option("KEY", line.key, key_help)->required();
    put->add_option("FILE", line.file, "File or pipe to read; - is standard input")->required();
    put->add_option(
           "--page-size", line.page_size,
           "Page size, such as 2MiB; the value must fit one page (default: 1 MiB, more for a larger value)")
        ->type_name("SIZE");
    put->callback([chosen] { *chosen = run_put; });
    auto* rm = add_command(app, "rm", "Remove keys", "maructl rm model-a/chunk-7 int:42");
    rm->add_option("KEY", line.keys, key_help)->required();
    rm->callback([chosen] { *chosen = run_rm; });
    auto* exists = add_command(app, "exists", "Is the key present? 0: yes, 1: no",
                               "maructl exists model-a/chunk-7 || echo missing");
    exists->add_option("KEY", line.key, key_help)->required();
    exists->callback([chosen] {
        *chosen = [](const Line& given) {
            return with_key(given, [&](const std::string& key) { return ask_exists(given.options, key); });
        };
    });
}

void add_client(CLI::App& app, Line& line, Command* chosen) {
    auto* client = add_command(app, "client", "End a client's session", "maructl client disconnect engine-7");
    client->require_subcommand(1);
    auto* disconnect = client->add_subcommand(
        "disconnect",
        "Fence a client: its next call fails, and what it holds comes back when its process ends");
    disconnect->fallthrough();
    disconnect
        ->add_option("ID", line.client, "Its instance id, or slot:NUMBER where several have the same one")
        ->required();
    disconnect->add_flag("--kill", line.kill, "Kill its process as well, so that everything comes back now");
    disconnect->footer("Example:\n  maructl client disconnect --kill slot:3");
    disconnect->callback([chosen] {
        *chosen = [](const Line& given) {
            return disconnect_client(given.options, given.client, given.kill);
        };
    });
}

void add_host(CLI::App& app, Line& line, Command* chosen) {
    auto* host =
        add_command(app, "host", "Gives back what a lost host held", "maructl host release 2 --dry-run");
    host->require_subcommand(1);
    auto* release = host->add_subcommand(
        "release", "A fenced host will not come back: sweep its clients, free its entry");
    release->fallthrough();
    release->add_option("HOST", line.host, "Its number in `maructl hosts`")->required();
    release->add_flag("-y,--yes", line.yes, "Do not ask: that machine is off");
    release->add_flag("--dry-run", line.dry_run, "Only say whose clients would be swept");
    release->footer("Example:\n  maructl host release 2");
    release->callback([chosen] {
        *chosen = [](const Line& given) {
            return release_host(given.options, given.host, given.yes, given.dry_run);
        };
    });
}

void add_evict(CLI::App& app, Line& line, Command* chosen) {
    auto* evict =
        add_command(app, "evict",
                    "Evict objects: so much memory, those of a namespace, the old ones; or all of it "
                    "together",
                    "maructl evict --bytes 4GiB\n  maructl evict --namespace test --older-than 2h -y\n"
                    "  maructl evict --older-than 1d --dry-run");
    evict
        ->add_option("--bytes", line.bytes,
                     "Until so much memory is given back, what was not read lately first")
        ->type_name("N");
    evict->add_option("--namespace", line.name_space, "Only objects of this namespace")->type_name("N");
    evict->add_option("--older-than", line.older_than, "Only objects stored longer ago: 30s, 5m, 2h, 1d")
        ->type_name("T");
    evict->add_flag("--dry-run", line.dry_run, "Only say how much would go");
    evict->add_flag("-y,--yes", line.yes, "Do not ask");
    evict->callback([chosen] { *chosen = run_evict; });
}

void add_log(CLI::App& app, Line& line, Command* chosen) {
    auto* trace = add_command(app, "trace", "Each request to the daemon in its log: who, what, result, time",
                              "maructl trace on\n  maructl trace off");
    trace->require_subcommand(1);
    for (const bool on : {true, false})
        add_command(*trace, on ? "on" : "off", on ? "From here on, until off or the daemon's end" : "No more",
                    on ? "maructl trace on" : "maructl trace off")
            ->callback(
                [chosen, on] { *chosen = [on](const Line& given) { return set_trace(given.options, on); }; });
    auto* level =
        add_command(app, "log-level", "How much the running daemon logs, until its end or its next reload",
                    "maructl log-level debug");
    level->add_option("LEVEL", line.file, "trace, debug, info, warn or error")->required();
    level->callback(
        [chosen] { *chosen = [](const Line& given) { return set_log_level(given.options, given.file); }; });
}

/// A word that is no command reads as a missing command to the parser.
std::string unknown_command(const CLI::App& app) {
    const auto words = app.remaining();
    if (words.empty()) return {};
    std::string known;
    for (const auto* command : app.get_subcommands({}))
        known += (known.empty() ? "" : ", ") + command->get_name();
    return "there is no command \"" + wire::printable(words.front()) + "\"; there are " + known;
}

/// The command line behind the program's name, last word first, as the parser takes it. Called as marutop, it
/// is `maructl top`.
std::vector<std::string> words_of(int argc, char** argv) {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    const std::string_view program = argc > 0 ? argv[0] : "";
    if (program.substr(program.rfind('/') + 1) == "marutop") words.insert(words.begin(), "top");
    std::reverse(words.begin(), words.end());
    return words;
}

int run(std::vector<std::string> words) {
    Line line;
    Command chosen;
    CLI::App app("Looks into a running maru daemon, and moves single values.", "maructl");
    app.add_option("--socket", line.options.socket,
                   "Socket of the daemon (default: $MARU_SOCKET, else the usual places)")
        ->type_name("PATH");
    app.add_flag("--json", line.options.json, "Machine-readable output");
    app.set_version_flag("--version", std::string("maructl ") + maru_version());
    app.require_subcommand(1);
    app.footer(
        "Exit codes: 0 done or yes; 1 no, not found, refused or findings; 2 wrong use or no daemon.\n"
        "Example:\n  maructl status\n  maructl COMMAND --help");
    add_lists(app, line, &chosen);
    add_offline(app, line, &chosen);
    add_devices(app, line, &chosen);
    add_pools(app, line, &chosen);
    add_namespaces(app, line, &chosen);
    add_data(app, line, &chosen);
    add_client(app, line, &chosen);
    add_host(app, line, &chosen);
    add_evict(app, line, &chosen);
    add_log(app, line, &chosen);
    add_top(app, line, &chosen);
    try {
        app.parse(std::move(words));
    } catch (const CLI::RequiredError& error) {
        const auto unknown = app.get_subcommands().empty() ? unknown_command(app) : std::string();
        return unknown.empty() ? (app.exit(error), exit_cannot) : wrong_use({Code::invalid, unknown});
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? exit_done : exit_cannot;
    }
    return chosen(line);
}

}  // namespace
}  // namespace maru::ctl

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);  // a reader that goes is an error of write(2)
    try {
        return maru::ctl::run(maru::ctl::words_of(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "maructl: %s\n", error.what());
        return maru::ctl::exit_cannot;
    }
}
