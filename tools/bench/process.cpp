#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "base/clock.hpp"

namespace maru::bench {
namespace {

constexpr std::chrono::milliseconds stop_limit{5'000};
constexpr int little_ms = 2;

Error failed(const std::string& what) {
    return {Code::unavailable, what + ": " + std::strerror(errno)};
}

struct Pipe {
    Descriptor read, write;
    static Result<Pipe> make() {
        std::array<int, 2> ends;
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe");
        return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
    }
};

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(char* const* arguments, pid_t parent, int in, int out, int error) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    if (in >= 0) ::dup2(in, 0);
    if (out >= 0) ::dup2(out, 1);
    if (error >= 0) ::dup2(error, 2);
    ::execv(arguments[0], arguments);
    ::_exit(127);
}

}  // namespace

std::string find_program(const std::string& name) {
    if (name.find('/') != name.npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
    const char* path = std::getenv("PATH");
    std::istringstream folders(std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const std::string candidate = folder + "/" + name;
        if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    return "";
}

std::string own_program() {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string own_folder() {
    return std::filesystem::path(own_program()).parent_path().string();
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pid_descriptor_(std::move(other.pid_descriptor_)),
      to_child_(std::move(other.to_child_)),
      from_child_(std::move(other.from_child_)),
      unread_(std::move(other.unread_)) {}

Process& Process::operator=(Process&& other) noexcept {
    if (this != &other) {
        stop();
        pid_ = std::exchange(other.pid_, -1);
        pid_descriptor_ = std::move(other.pid_descriptor_);
        to_child_ = std::move(other.to_child_);
        from_child_ = std::move(other.from_child_);
        unread_ = std::move(other.unread_);
    }
    return *this;
}

Process::~Process() {
    stop();
}

Result<Process> Process::start(const std::vector<std::string>& arguments, Streams streams) {
    Pipe to, from;
    if (streams == Streams::piped) {
        auto to_made = Pipe::make(), from_made = Pipe::make();
        if (!to_made || !from_made) return failed("pipe");
        to = std::move(*to_made);
        from = std::move(*from_made);
    }
    Descriptor nothing;
    if (streams == Streams::silent) nothing = Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const int in = streams == Streams::piped ? to.read.get() : nothing.get();
    const int out = streams == Streams::piped ? from.write.get() : nothing.get();

    std::vector<char*> pointers;
    for (const std::string& argument : arguments)
        pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);

    const pid_t parent = ::getpid();
    Process child;
    child.pid_ = ::fork();
    if (child.pid_ < 0) return failed("fork for " + arguments[0]);
    if (child.pid_ == 0) become(pointers.data(), parent, in, out, nothing.get());
    child.pid_descriptor_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
    if (!child.pid_descriptor_) return failed("pidfd_open for " + arguments[0]);
    child.to_child_ = std::move(to.write);
    child.from_child_ = std::move(from.read);
    return child;
}

bool Process::running() {
    if (pid_ < 0) return false;
    pollfd ended{pid_descriptor_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 0;
}

bool Process::signal(int number) const {
    return pid_ > 0 && ::kill(pid_, number) == 0;
}

Result<int> Process::wait(std::chrono::milliseconds limit) {
    if (pid_ < 0) return Error{Code::invalid, "no child to wait for"};
    const Deadline deadline = deadline_after(limit);
    pollfd ended{pid_descriptor_.get(), POLLIN, 0};
    while (::poll(&ended, 1, milliseconds_left(deadline)) <= 0)
        if (milliseconds_left(deadline) == 0)
            return Error{Code::timeout, "child " + std::to_string(pid_) + " has not ended"};
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Process::wait_a_little() {
    pollfd ended{pid_descriptor_.get(), POLLIN, 0};
    ::poll(&ended, 1, little_ms);
}

void Process::stop() {
    if (pid_ < 0) return;
    to_child_.reset();
    signal(SIGCONT);
    signal(SIGTERM);
    if (wait(stop_limit)) return;
    signal(SIGKILL);
    if (!wait(stop_limit)) pid_ = -1;
}

Result<void> Process::write_line(const std::string& line) {
    const std::string text = line + "\n";
    if (::write(to_child_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return failed("write to child " + std::to_string(pid_));
    return {};
}

Result<std::string> Process::read_line(std::chrono::milliseconds limit) {
    const Deadline deadline = deadline_after(limit);
    for (;;) {
        if (const auto end = unread_.find('\n'); end != unread_.npos) {
            std::string line = unread_.substr(0, end);
            unread_.erase(0, end + 1);
            return line;
        }
        pollfd ready{from_child_.get(), POLLIN, 0};
        if (::poll(&ready, 1, milliseconds_left(deadline)) <= 0) {
            if (milliseconds_left(deadline) > 0) continue;
            return Error{Code::timeout, "child " + std::to_string(pid_) + " did not answer in time"};
        }
        std::array<char, 256> piece;
        const auto got = ::read(from_child_.get(), piece.data(), piece.size());
        if (got <= 0)
            return Error{Code::unavailable, "child " + std::to_string(pid_) + " ended without an answer"};
        unread_.append(piece.data(), static_cast<std::size_t>(got));
    }
}

Result<TemporaryFolder> TemporaryFolder::make() {
    const char* base = std::getenv("TMPDIR");
    std::string path = std::string(base != nullptr && *base != 0 ? base : "/tmp") + "/maru-bench-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return failed("cannot create a folder " + path);
    TemporaryFolder folder;
    folder.path_ = path;
    return folder;
}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;  // what cannot be removed from /tmp is no reason to fail
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace maru::bench
