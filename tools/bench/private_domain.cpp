#include "private_domain.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.hpp"
#include "base/size.hpp"
#include "engine.hpp"
#include "shared_file.hpp"

namespace maru::bench {
namespace {

// Gathering gigabytes into large pages takes a busy machine long.
constexpr std::chrono::milliseconds start_limit{600'000};
constexpr std::chrono::milliseconds freeze_limit{5'000}, kill_limit{30'000};
constexpr std::uint64_t memory_margin = 512 * MiB;  // left for keys, counterparts and everybody else

// The daemon: as told, beside maru-bench (installed), or where the build folder has it.
std::string daemon_program(const Request& request) {
    if (!request.daemon.empty()) return find_program(request.daemon);
    for (const char* place : {"/maru", "/../../src/daemon/maru", "/../sbin/maru"})
        if (const std::string program = find_program(own_folder() + place); !program.empty())
            if (!std::filesystem::is_directory(program)) return program;
    return find_program("maru");
}

// Files of a pool that still has a name, for a handler of signals.
std::array<std::array<char, 512>, 2> named_files;
volatile sig_atomic_t is_named = 0;

void remove_and_end(int number) {
    if (is_named != 0)
        for (const auto& file : named_files)
            ::unlink(file.data());
    ::signal(number, SIG_DFL);
    ::raise(number);
}

// A benchmark that is interrupted runs no destructor, and the pool is gigabytes of memory.
void remove_when_interrupted(const std::string& pool) {
    std::snprintf(named_files[0].data(), named_files[0].size(), "%s", pool.c_str());
    std::snprintf(named_files[1].data(), named_files[1].size(), "%s.lock", pool.c_str());
    is_named = 1;
    for (const int number : {SIGHUP, SIGINT, SIGTERM})
        ::signal(number, remove_and_end);
}

// State letter of /proc/PID/stat; 0 when it cannot be read.
char state_of(pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(in, text);
    const auto name_end = text.rfind(") ");
    return name_end == text.npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
}

}  // namespace

Result<std::unique_ptr<Domain>> Domain::start(const Request& request, const DomainWish& wish) {
    auto domain = std::make_unique<Domain>();
    domain->plan(wish);
    if (!request.socket.empty()) {
        domain->socket_ = request.socket;
        return domain;
    }
    domain->program_ = daemon_program(request);
    if (domain->program_.empty() && !request.daemon.empty())
        return Error{Code::unavailable, "no program " + request.daemon + ": --daemon names the maru daemon"};
    if (domain->program_.empty())
        return Error{Code::unavailable,
                     "no maru daemon beside " + own_program() + " nor in PATH: name it with --daemon"};
    if (auto launched = domain->launch(); !launched) return launched.error();
    if (auto ready = domain->wait_until_ready(); !ready) return ready.error();
    // Everybody has descriptors: without a name nothing stays behind, however this ends.
    if (!wish.outlives_daemon) domain->remove_pool_file();
    return domain;
}

Domain::~Domain() {
    daemon_.stop();
    remove_pool_file();
}

void Domain::remove_pool_file() {
    if (pool_file_.empty()) return;
    is_named = 0;
    std::error_code ignored;  // it may never have been made
    std::filesystem::remove_all(pool_file_, ignored);
    std::filesystem::remove_all(pool_file_ + ".lock", ignored);
}

void Domain::plan(const DomainWish& wish) {
    // An eighth more than asked for, so that whole regions and the daemon's own eviction marks have room.
    const std::uint64_t payload = wish.pages * wish.page_bytes + wish.more_bytes;
    max_objects_ = wish.pages + wish.pages / 8 + 4096;
    pool_bytes_ = round_up(payload + payload / 8 + max_objects_ * 320 + 64 * MiB, 64 * MiB);
}

Result<table::Control> Domain::control_of(maru_client* client) {
    maru_pool_description pool{};
    pool.size = sizeof pool;
    if (const auto status = maru_pool_info(client, 0, &pool); status != MARU_OK)
        return refused(client, "pool_info", status);
    return table::Control::attach({static_cast<std::byte*>(pool.base), pool.bytes});
}

Result<std::array<std::span<const std::byte>, 2>> Domain::lookup_tables(maru_client* client) {
    const auto control = control_of(client);
    if (!control) return control.error();
    const auto* buckets = reinterpret_cast<const std::byte*>(&control->bucket(0));
    const auto* records = reinterpret_cast<const std::byte*>(&control->record(0));
    return std::array{std::span(buckets, control->bucket_count() * sizeof(table::Bucket)),
                      std::span(records, control->record_count() * sizeof(table::PageRecord))};
}

Result<void> Domain::launch() {
    if (const std::uint64_t room = shared_room(); room < pool_bytes_ + memory_margin)
        return Error{Code::full, "/dev/shm or memory has room for " + format_size(room) +
                                     ", this benchmark needs " + format_size(pool_bytes_ + memory_margin) +
                                     ": free some, or use --quick"};
    auto folder = TemporaryFolder::make();
    if (!folder) return folder.error();
    folder_ = std::move(*folder);
    socket_ = folder_.path() + "/maru.sock";
    pool_file_ = "/dev/shm/" + std::filesystem::path(folder_.path()).filename().string();
    std::ofstream(folder_.path() + "/maru.toml")
        << "[daemon]\nsocket = \"" << socket_ << "\"\nlog_file = \"" << folder_.path()
        << "/maru.log\"\n[metrics]\nlisten = \"\"\n[control]\nmax_objects = " << max_objects_
        << "\n[[pool]]\nname = \"bench\"\nkind = \"shm\"\npath = \"" << pool_file_
        << "\"\nsize = " << pool_bytes_
        << "\nprefault = \"all\"\n";  // large pages now or never: nothing moves while we measure
    remove_when_interrupted(pool_file_);
    return start_daemon();
}

Result<void> Domain::start_daemon() {
    auto daemon = Process::start({program_, "--config", folder_.path() + "/maru.toml"});
    if (!daemon) return daemon.error();
    daemon_ = std::move(*daemon);
    return {};
}

Result<void> Domain::restart() {
    if (!daemon_.signal(SIGKILL)) return Error{Code::unavailable, "the daemon cannot be killed"};
    if (auto ended = daemon_.wait(kill_limit); !ended) return ended.error();
    return start_daemon();
}

Result<void> Domain::wait_until_ready() {
    const Deadline deadline = deadline_after(start_limit);
    while (milliseconds_left(deadline) > 0) {
        if (!daemon_.running()) {
            const auto status = daemon_.wait(std::chrono::milliseconds(0));
            return Error{Code::unavailable, "the daemon ended with status " +
                                                std::to_string(status ? *status : -1) + ": " + last_words()};
        }
        maru_options options = MARU_OPTIONS_INIT;
        options.server = socket_.c_str();
        options.no_claim = 1;
        if (::access(socket_.c_str(), R_OK | W_OK) == 0)
            if (auto client = connect(options)) return {};
        daemon_.wait_a_little();
    }
    return Error{Code::timeout, "the daemon did not serve " + socket_ + " within 600 s: " + last_words()};
}

std::string Domain::last_words() const {
    std::ifstream in(folder_.path() + "/maru.log");
    std::string last = "(it logged nothing)";
    for (std::string line; std::getline(in, line);)
        if (!line.empty()) last = line;
    return last;
}

Result<void> Domain::freeze() {
    if (!daemon_.signal(SIGSTOP)) return Error{Code::unavailable, "the daemon cannot be stopped"};
    const Deadline deadline = deadline_after(freeze_limit);
    while (state_of(daemon_.pid()) != 'T') {
        if (milliseconds_left(deadline) == 0) return Error{Code::timeout, "the daemon does not stop"};
        daemon_.wait_a_little();
    }
    return {};
}

void Domain::thaw() {
    daemon_.signal(SIGCONT);
}

}  // namespace maru::bench
