// Who is at the other end, and whether that process still lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace maru::daemon {

/// The process at the other end of a Unix socket, as the kernel names it.
struct Peer {
    std::uint32_t pid = 0;  ///< as this process sees it; 0 when it is in a pid namespace that cannot be seen
    std::uint32_t uid = 0, gid = 0;
    std::vector<std::uint32_t> groups;  ///< beside gid
    Descriptor pidfd;                   ///< empty when the kernel gave none
};
std::optional<Peer> peer_of(int socket);

/// Denied for users other than root and the daemon's own; `what` they may do: "change pools".
Result<void> check_administrator(std::uint32_t user, const char* what);

/// Readable once the process has ended and its files are closed; empty when there is no such process (errno
/// says).
Descriptor open_process(std::uint32_t pid);
/// The process of this pidfd has ended.
bool has_ended(int pidfd);
/// SIGKILL; true also when it has ended already. False: errno says why.
bool kill_process(int pidfd);

/// Field 22 of /proc/PID/stat: clock ticks between boot and the process's start; 0 when it cannot be read.
std::uint64_t start_time_of(std::uint32_t pid);
/// The stamp of the program that this process runs (base/exec_stamp.hpp); nothing when the process may not be
/// looked into, as with another user's, or is in the middle of an exec.
std::optional<std::uint64_t> exec_stamp_of(std::uint32_t pid);
/// The pid namespace this process sees others from.
std::uint64_t own_pid_namespace();
/// 128 bits that the kernel draws at each boot, in two halves.
struct BootId {
    std::uint64_t halves[2] = {0, 0};
    friend bool operator==(const BootId&, const BootId&) = default;
};
BootId own_boot_id();
/// The first line of a small file without its end; empty when it cannot be read.
std::string first_line(const std::string& path);

}  // namespace maru::daemon
