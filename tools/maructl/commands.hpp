// The commands of maructl; each returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "choose.hpp"

namespace maru::ctl {

struct Options {
    std::string socket;  // empty: searched for
    bool json = false;
};

/// A domain that may have no daemon: its pools as the daemon's command line and config name them.
struct Where {
    std::string config;
    std::vector<std::string> pools;
};

// -- what the daemon answers
int show_ping(const Options& options);
int show_status(const Options& options);
/// Lists that are shown as tables, whole.
int show_pools(const Options& options, const RowChoice& choice);
int show_regions(const Options& options, const RowChoice& choice);
int show_clients(const Options& options, const RowChoice& choice);
int show_hosts(const Options& options, const RowChoice& choice);
int show_namespaces(const Options& options, const RowChoice& choice);
struct KeyChoice {
    std::string prefix;       // bytes; empty: any
    std::string name_space;   // empty: any
    std::uint64_t limit = 0;  // 0: all
};
int show_keys(const Options& options, const KeyChoice& choice);
/// Also without a daemon.
int run_check(const Options& options, const Where& where);
int run_repair(const Options& options, const Where& where);
int run_dump(const Options& options, const Where& where);
/// `client`: its instance id, or slot:NUMBER where several share it.
int disconnect_client(const Options& options, const std::string& client, bool kill);
/// Gives back what the clients of a fenced host hold. Asks, unless `yes`.
int release_host(const Options& options, std::uint64_t host, bool yes, bool dry_run);

// -- objects that go, and what the daemon writes to its log

/// At least one of the three says what goes; several narrow it down.
struct EvictWish {
    std::uint64_t bytes = 0;  // memory to give back; 0: all that the others choose
    std::optional<std::string> name_space;
    std::uint64_t older_than_s = 0;
};
/// Asks, unless `yes` or `dry_run`. exit_no also when less than `bytes` could go.
int evict_objects(const Options& options, const EvictWish& wish, bool yes, bool dry_run);
int set_trace(const Options& options, bool on);
int set_log_level(const Options& options, const std::string& level);

// -- pools of the running domain
/// `pool`: KIND:WHAT[:SIZE], as the daemon's command line takes it.
int add_pool(const Options& options, const std::string& pool);
int drain_pool(const Options& options, const std::string& name, bool cancel);
/// Evicts what nobody holds when `evict`, or when asked; refused, with who holds it, when something is left.
int remove_pool(const Options& options, const std::string& name, bool evict);
/// Adds pools that the daemon's config lists and that were not there before.
int rescan(const Options& options);

// -- namespaces of the running domain
/// What is to be decided; empty: not said. "none" takes a quota or a list away.
struct NamespaceWish {
    std::string quota;
    std::vector<std::string> uids, gids, readonly_gids;
};
int create_namespace(const Options& options, const std::string& name, const NamespaceWish& wish);
int set_namespace(const Options& options, const std::string& name, const NamespaceWish& wish);
/// Refused while clients use it. Asks before it flushes objects, unless `yes`.
int remove_namespace(const Options& options, const std::string& name, bool yes, bool dry_run);
int flush_namespace(const Options& options, const std::string& name, bool yes, bool dry_run);

// -- DAX devices; no daemon is asked
int list_devices(const Options& options);
int show_device(const Options& options, const std::string& path);
int init_device(const Options& options, const std::string& path, bool force);
int clear_device(const Options& options, const std::string& path, bool yes, bool force);

// -- data; keys as bytes

/// `output`: a file, or "-" for standard output.
int get_value(const Options& options, const std::string& key, const std::string& output);
/// `input`: a file or pipe, or "-" for standard input. page_bytes 0: chosen by the value's size.
int put_value(const Options& options, const std::string& key, const std::string& input,
              std::uint64_t page_bytes);
int remove_keys(const Options& options, const std::vector<std::string>& keys);
int ask_exists(const Options& options, const std::string& key);

}  // namespace maru::ctl
