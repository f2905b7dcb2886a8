// Child processes of a benchmark: the private daemon, counterpart servers, workers.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace maru::bench {

/// Full path of a program: itself when it holds a slash, else looked up in PATH, /usr/sbin and /sbin; "" if
/// nowhere.
std::string find_program(const std::string& name);
/// Folder of the running program.
std::string own_folder();
std::string own_program();

/// One child. Death of the benchmark takes it along (PR_SET_PDEATHSIG); destroying a Process ends the child.
/// Threads: one.
class Process {
  public:
    /// Whether the child's standard streams come to us: lines to it, lines from it.
    enum class Streams { silent, inherited, piped };

    Process() = default;
    Process(Process&& other) noexcept;
    Process& operator=(Process&& other) noexcept;
    ~Process();

    static Result<Process> start(const std::vector<std::string>& arguments,
                                 Streams streams = Streams::silent);

    pid_t pid() const { return pid_; }
    bool running();
    bool signal(int number) const;
    /// Waits until the child ends: its exit status (128 + signal when killed), timeout error after the limit.
    Result<int> wait(std::chrono::milliseconds limit);
    /// A turn of a bounded wait for the child to get ready; returns at once when it ends.
    void wait_a_little();
    /// SIGTERM, then SIGKILL when that does not help.
    void stop();

    Result<void> write_line(const std::string& line);
    Result<std::string> read_line(std::chrono::milliseconds limit);

  private:
    pid_t pid_ = -1;
    Descriptor pid_descriptor_, to_child_, from_child_;
    std::string unread_;
};

/// A private folder below $TMPDIR (or /tmp) that goes with its owner.
class TemporaryFolder {
  public:
    static Result<TemporaryFolder> make();
    TemporaryFolder() = default;
    TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
    ~TemporaryFolder();
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace maru::bench
