#include "daemon/process.hpp"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/exec_stamp.hpp"
#include "base/proc.hpp"
#include "base/uuid.hpp"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace maru::daemon {
namespace {

/// The supplementary groups of who connected; none when the kernel does not tell.
std::vector<std::uint32_t> peer_groups_of(int socket) {
    static_assert(sizeof(gid_t) == sizeof(std::uint32_t));
    std::vector<std::uint32_t> groups(64);
    for (;;) {
        auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
        const int got = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
        const std::size_t count = size / sizeof(gid_t);
        if (got == 0) {
            groups.resize(std::min(count, groups.size()));
            return groups;
        }
        if (errno != ERANGE || count <= groups.size()) return {};
        groups.resize(count);
    }
}

}  // namespace

std::optional<Peer> peer_of(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
    Peer peer;
    peer.pid = static_cast<std::uint32_t>(credentials.pid);
    peer.uid = credentials.uid;
    peer.gid = credentials.gid;
    peer.groups = peer_groups_of(socket);
    int pidfd = -1;
    size = sizeof pidfd;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
        peer.pidfd = Descriptor(pidfd);
    } else if (peer.pid != 0) {
        // An older kernel. The number may have been reused since the connect: the start time that the client
        // tells is compared by the caller.
        peer.pidfd = open_process(peer.pid);
    }
    return peer;
}

Result<void> check_administrator(std::uint32_t user, const char* what) {
    if (user == 0 || user == ::geteuid()) return {};
    return Error{Code::denied, "only root and the daemon's own user (" + std::to_string(::geteuid()) +
                                   ") may " + what + ", this is user " + std::to_string(user)};
}

Descriptor open_process(std::uint32_t pid) {
    return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

bool has_ended(int pidfd) {
    pollfd look{pidfd, POLLIN, 0};
    return ::poll(&look, 1, 0) == 1 && (look.revents & POLLIN) != 0;
}

bool kill_process(int pidfd) {
    return ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0 || errno == ESRCH;
}

std::uint64_t start_time_of(std::uint32_t pid) {
    return start_time_in("/proc/" + std::to_string(pid));
}

std::optional<std::uint64_t> exec_stamp_of(std::uint32_t pid) {
    const std::string directory = "/proc/" + std::to_string(pid);
    const std::string vector = read_small_file(directory + "/auxv");
    std::uint64_t address = 0;
    for (std::size_t at = 0; at + 2 * sizeof(std::uint64_t) <= vector.size();
         at += 2 * sizeof(std::uint64_t)) {
        std::uint64_t entry[2];
        std::memcpy(entry, vector.data() + at, sizeof entry);
        if (entry[0] == AT_RANDOM) address = entry[1];
    }
    if (address == 0) return std::nullopt;
    const Descriptor memory(::open((directory + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
    unsigned char random[exec_random_bytes];
    if (!memory || ::pread(memory.get(), random, sizeof random, static_cast<off_t>(address)) != sizeof random)
        return std::nullopt;
    return exec_stamp_from(random);
}

std::uint64_t own_pid_namespace() {
    struct stat status {};
    return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

BootId own_boot_id() {
    BootId boot;
    if (const auto id = Uuid::parse(first_line("/proc/sys/kernel/random/boot_id")))
        std::memcpy(boot.halves, id->bytes.data(), sizeof boot.halves);
    return boot;
}

std::string first_line(const std::string& path) {
    const std::string text = read_small_file(path);
    return text.substr(0, text.find('\n'));
}

}  // namespace maru::daemon
