#include "private_domain.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.hpp"
#include "base/size.hpp"
#include "engine.hpp"
#include "shared_file.hpp"
#include "table/control.hpp"

namespace maru::bench {
namespace {

constexpr std::chrono::milliseconds start_limit{60'000};
constexpr std::chrono::milliseconds freeze_limit{5'000};
constexpr std::uint64_t memory_margin = 512 * MiB;  // left for keys, counterparts and everybody else

// The daemon: as told, beside maru-bench (installed), or where the build folder has it.
std::string daemon_program(const Request& request) {
    if (!request.daemon.empty()) return find_program(request.daemon);
    for (const char* place : {"/maru", "/../../src/daemon/maru", "/../sbin/maru"})
        if (const std::string program = find_program(own_folder() + place); !program.empty())
            if (!std::filesystem::is_directory(program)) return program;
    return find_program("maru");
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
    const std::string program = daemon_program(request);
    if (program.empty() && !request.daemon.empty())
        return Error{Code::unavailable, "no program " + request.daemon + ": --daemon names the maru daemon"};
    if (program.empty())
        return Error{Code::unavailable,
                     "no maru daemon beside " + own_program() + " nor in PATH: name it with --daemon"};
    if (auto launched = domain->launch(program); !launched) return launched.error();
    if (auto ready = domain->wait_until_ready(); !ready) return ready.error();
    domain->remove_pool_file();  // everybody has descriptors; nothing stays behind, however this ends
    return domain;
}

Domain::~Domain() {
    daemon_.stop();
    remove_pool_file();
}

void Domain::remove_pool_file() {
    if (pool_file_.empty()) return;
    std::error_code ignored;  // it may never have been made
    std::filesystem::remove_all(pool_file_, ignored);
    std::filesystem::remove_all(pool_file_ + ".lock", ignored);
}

void Domain::plan(const DomainWish& wish) {
    // An eighth more than asked for, so that whole regions and the daemon's own eviction marks have room.
    const std::uint64_t payload = wish.pages * wish.page_bytes;
    max_objects_ = wish.pages + wish.pages / 8 + 4096;
    pool_bytes_ = round_up(payload + payload / 8 + max_objects_ * 320 + 64 * MiB, 64 * MiB);
}

Result<std::array<std::span<const std::byte>, 2>> Domain::lookup_tables(maru_client* client) {
    maru_pool_description pool{};
    pool.size = sizeof pool;
    if (const auto status = maru_pool_info(client, 0, &pool); status != MARU_OK)
        return refused(client, "pool_info", status);
    const std::span<std::byte> memory(static_cast<std::byte*>(pool.base), pool.bytes);
    auto control = table::Control::attach(memory);
    if (!control) return control.error();
    const auto* buckets = reinterpret_cast<const std::byte*>(&control->bucket(0));
    const auto* records = reinterpret_cast<const std::byte*>(&control->record(0));
    return std::array{std::span(buckets, control->bucket_count() * sizeof(table::Bucket)),
                      std::span(records, control->record_count() * sizeof(table::PageRecord))};
}

Result<void> Domain::launch(const std::string& program) {
    if (const std::uint64_t room = shared_room(); room < pool_bytes_ + memory_margin)
        return Error{Code::full, "/dev/shm or memory has room for " + format_size(room) +
                                     ", this benchmark needs " + format_size(pool_bytes_ + memory_margin) +
                                     ": free some, or use --quick"};
    auto folder = TemporaryFolder::make();
    if (!folder) return folder.error();
    folder_ = std::move(*folder);
    socket_ = folder_.path() + "/maru.sock";
    pool_file_ = "/dev/shm/" + std::filesystem::path(folder_.path()).filename().string();
    const std::string config = folder_.path() + "/maru.toml";
    std::ofstream(config)
        << "[daemon]\nsocket = \"" << socket_ << "\"\nlog_file = \"" << folder_.path()
        << "/maru.log\"\n[control]\nmax_objects = " << max_objects_
        << "\n[[pool]]\nname = \"bench\"\nkind = \"shm\"\npath = \"" << pool_file_
        << "\"\nsize = " << pool_bytes_
        << "\nprefault = \"all\"\n";  // large pages now or never: nothing moves while we measure
    auto daemon = Process::start({program, "--config", config});
    if (!daemon) return daemon.error();
    daemon_ = std::move(*daemon);
    return {};
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
    return Error{Code::timeout, "the daemon did not serve " + socket_ + " within 60 s: " + last_words()};
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
