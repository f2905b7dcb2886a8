#include "daemon/listener.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/clock.hpp"
#include "daemon/kept_pools.hpp"

namespace maru::daemon {
namespace {

constexpr int backlog = 512;
// A killed daemon's socket outlives it by the moment that the kernel needs to take its ring apart.
constexpr std::chrono::milliseconds leftover_patience{3000};
constexpr int leftover_look_ms = 10;

Error failed(const std::string& path, const char* step) {
    const Code code = errno == EACCES || errno == EPERM ? Code::denied : Code::unavailable;
    return Error{code, "socket " + path + ": " + step + ": " + std::strerror(errno)};
}

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return Error{Code::invalid, "socket path \"" + path + "\" has " + std::to_string(path.size()) +
                                        " bytes, 1 to " + std::to_string(sizeof address.sun_path - 1) +
                                        " are possible: set daemon.socket to a shorter one"};
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

/// Somebody accepts connections there. A full queue counts: its owner may be slow.
bool answers(const sockaddr_un& address) {
    const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!probe) return false;
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
    return errno == EAGAIN;
}

/// Waits, bounded, until nobody answers; true when somebody still does. A look every few milliseconds, as the
/// kernel tells nobody when it has taken a ring apart.
bool stays_alive(const sockaddr_un& address) {
    const Deadline deadline = deadline_after(leftover_patience);
    while (answers(address)) {
        if (milliseconds_left(deadline) == 0) return true;
        ::poll(nullptr, 0, leftover_look_ms);
    }
    return false;
}

/// The directory of the socket, made when it is not there; the one in /tmp for this user alone.
Result<void> make_directory(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0) return {};
    const std::string directory = path.substr(0, slash);
    const bool own = directory == "/tmp/maru-" + std::to_string(::geteuid());
    if (::mkdir(directory.c_str(), own ? 0700 : 0755) != 0 && errno != EEXIST)
        return failed(path, "cannot make its directory");
    struct stat status {};
    if (own && ::lstat(directory.c_str(), &status) == 0 &&
        (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()))
        return Error{Code::denied, directory + " belongs to user " + std::to_string(status.st_uid) +
                                       ": have it removed, or set --socket to another path"};
    return {};
}

std::string path_of(int socket, const std::string& otherwise) {
    sockaddr_un address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return otherwise;
    return address.sun_path[0] != 0 ? std::string(address.sun_path) : otherwise;
}

/// Nobody serves the path, and nothing else than a socket lies there.
Result<void> look_at_path(const std::string& path, const sockaddr_un& address, bool* busy) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT ? Result<void>() : failed(path, "look");
    if (!S_ISSOCK(status.st_mode))
        return Error{Code::invalid, "socket path " + path +
                                        " is taken by a file of another type: move it away or set "
                                        "daemon.socket to another path"};
    if (stays_alive(address)) {
        *busy = true;
        return Error{Code::unavailable, "socket " + path +
                                            " is served by another process: stop that one or set "
                                            "--socket to another path"};
    }
    return {};  // the new socket takes the place of the file left behind
}

/// Group and mode of the socket file at `path`, before anybody can connect.
Result<void> open_for(const Listener::Wish& wish, const std::string& path) {
    const group* entry = wish.group.empty() ? nullptr : ::getgrnam(wish.group.c_str());
    if (entry != nullptr && entry->gr_gid != ::getegid() &&
        ::chown(path.c_str(), static_cast<uid_t>(-1), entry->gr_gid) != 0 && errno != EPERM)
        return failed(wish.path, ("give it to group " + wish.group).c_str());
    if (::chmod(path.c_str(), wish.mode) != 0) return failed(wish.path, "set its mode");
    return {};
}

/// A name beside the path, no longer than an address may be.
std::string name_beside(const std::string& path) {
    if (path.size() + 1 < sizeof sockaddr_un{}.sun_path) return path + "~";
    return path.substr(0, path.size() - 1) + (path.back() == '~' ? '-' : '~');
}

/// A listening socket under another name first: its file appears at the path when connections are accepted
/// there, with group and mode as they should be, and never before. The caller holds the path's lock.
Result<Descriptor> listen_at(const Listener::Wish& wish) {
    const std::string beside = name_beside(wish.path);
    const auto address = address_of(beside);
    if (!address) return address.error();
    if (::unlink(beside.c_str()) != 0 && errno != ENOENT)
        return failed(beside, "take over the file left behind");
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return failed(wish.path, "socket");
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
        return failed(wish.path, "bind");
    Result<void> done = open_for(wish, beside);
    if (done && ::listen(socket.get(), backlog) != 0) done = failed(wish.path, "listen");
    if (done && ::rename(beside.c_str(), wish.path.c_str()) != 0) done = failed(wish.path, "rename");
    if (done) return socket;
    ::unlink(beside.c_str());
    return done.error();
}

Result<std::optional<Descriptor>> systemd_socket() {
    const auto passed = passed_descriptors();
    if (!passed) return passed.error();
    int others = 0;
    for (const auto& [number, name] : *passed) {
        if (is_kept_pool(name)) continue;
        ++others;
        if (::sd_is_socket_unix(number, SOCK_STREAM, 1, nullptr, 0) <= 0) continue;
        ::fcntl(number, F_SETFL, ::fcntl(number, F_GETFL) & ~O_NONBLOCK);
        return std::optional<Descriptor>(Descriptor(number));
    }
    if (others == 0) return std::optional<Descriptor>();
    return Error{Code::invalid,
                 "systemd passed " + std::to_string(others) +
                     " descriptors, none is a listening Unix stream socket: see the .socket unit"};
}

}  // namespace

Result<Listener> Listener::open(const Wish& wish, bool* busy) {
    Listener made;
    made.path_ = wish.path;
    auto passed = systemd_socket();
    if (!passed) return passed.error();
    if (*passed) {
        made.socket_ = std::move(**passed);
        made.from_systemd_ = true;
        made.path_ = path_of(made.socket_.get(), wish.path);
        return made;
    }
    const auto address = address_of(wish.path);
    if (!address) return address.error();
    if (auto directory = make_directory(wish.path); !directory) return directory.error();
    auto lock = LockFile::take(wish.path + ".lock", busy);
    if (!lock) {
        if (!*busy) return lock.error();
        return Error{lock.error().code, "socket " + wish.path +
                                            " is served by another daemon: " + lock.error().text +
                                            "; stop that one or set --socket to another path"};
    }
    made.lock_ = std::move(*lock);
    if (auto looked = look_at_path(wish.path, *address, busy); !looked) return looked.error();
    auto socket = listen_at(wish);
    if (!socket) return socket.error();
    made.socket_ = std::move(*socket);
    return made;
}

void Listener::close() {
    if (!from_systemd_ && socket_) ::unlink(path_.c_str());
    socket_.reset();
    lock_.remove();
    lock_ = LockFile();
}

}  // namespace maru::daemon
