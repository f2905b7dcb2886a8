#include "counterpart/redis.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"

namespace maru::bench {
namespace {

constexpr std::chrono::milliseconds start_limit{10'000};

Error lost(const char* during) {
    return {Code::unavailable, std::string("redis-server: ") + during + ": " + std::strerror(errno)};
}

}  // namespace

Result<std::unique_ptr<Redis>> Redis::start(const std::string& folder) {
    const std::string program = find_program("redis-server");
    if (program.empty())
        return Error{Code::unavailable, "redis-server is not installed: apt-get install redis-server"};
    const std::string socket = folder + "/redis.sock";
    auto server =
        Process::start({program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no",
                        "--daemonize", "no", "--dir", folder, "--logfile", folder + "/redis.log"});
    if (!server) return server.error();
    auto redis = std::make_unique<Redis>();
    redis->server_ = std::move(*server);
    if (auto connected = redis->connect(socket); !connected) return connected.error();
    return redis;
}

Result<void> Redis::connect(const std::string& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket.size() >= sizeof address.sun_path)
        return Error{Code::invalid, "socket path " + socket + " is too long: set TMPDIR to a shorter folder"};
    std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
    const Deadline deadline = deadline_after(start_limit);
    while (milliseconds_left(deadline) > 0) {
        socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (!socket_) return lost("socket");
        if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
            return {};
        if (!server_.running()) return Error{Code::unavailable, "redis-server ended while starting"};
        server_.wait_a_little();
    }
    return Error{Code::timeout, "redis-server did not open " + socket + " within 10 s"};
}

Result<void> Redis::send_parts(std::string_view head, const void* data, std::uint64_t size,
                               std::string_view tail) {
    std::array<iovec, 3> parts{iovec{const_cast<char*>(head.data()), head.size()},
                               iovec{const_cast<void*>(data), size},
                               iovec{const_cast<char*>(tail.data()), tail.size()}};
    std::size_t first = 0;
    while (first < parts.size()) {
        const auto sent = ::writev(socket_.get(), &parts[first], static_cast<int>(parts.size() - first));
        if (sent <= 0) return lost("send");
        auto left = static_cast<std::size_t>(sent);
        while (first < parts.size() && left >= parts[first].iov_len)
            left -= parts[first++].iov_len;
        if (first < parts.size()) {
            parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + left;
            parts[first].iov_len -= left;
        }
    }
    return {};
}

Result<void> Redis::receive(void* to, std::uint64_t size) {
    auto* out = static_cast<char*>(to);
    while (size > 0) {
        const auto got = ::recv(socket_.get(), out, size, 0);
        if (got <= 0) return lost("receive");
        out += got;
        size -= static_cast<std::uint64_t>(got);
    }
    return {};
}

Result<std::string> Redis::receive_line() {
    // Peek for the end of the line, then take just that: the value behind it goes straight into its buffer.
    std::array<char, 128> seen;
    const auto got = ::recv(socket_.get(), seen.data(), seen.size(), MSG_PEEK);
    if (got <= 0) return lost("receive");
    const std::string_view text(seen.data(), static_cast<std::size_t>(got));
    const auto end = text.find("\r\n");
    if (end == text.npos) return Error{Code::damaged, "redis-server: an answer without an end of line"};
    std::string line(text.substr(0, end));
    if (auto taken = receive(seen.data(), end + 2); !taken) return taken.error();
    return line;
}

Result<void> Redis::set(std::string_view key, const void* data, std::uint64_t size) {
    const std::string head = "*3\r\n$3\r\nSET\r\n$" + std::to_string(key.size()) + "\r\n" + std::string(key) +
                             "\r\n$" + std::to_string(size) + "\r\n";
    if (auto sent = send_parts(head, data, size, "\r\n"); !sent) return sent;
    auto answer = receive_line();
    if (!answer) return answer.error();
    if (*answer != "+OK") return Error{Code::damaged, "redis-server answered SET with " + *answer};
    return {};
}

Result<void> Redis::get(std::string_view key, void* data, std::uint64_t size) {
    const std::string head =
        "*2\r\n$3\r\nGET\r\n$" + std::to_string(key.size()) + "\r\n" + std::string(key) + "\r\n";
    if (auto sent = send_parts(head, nullptr, 0, ""); !sent) return sent;
    auto answer = receive_line();
    if (!answer) return answer.error();
    if (*answer != std::string("$").append(std::to_string(size)))
        return Error{Code::damaged, "redis-server answered GET with " + *answer};
    if (auto got = receive(data, size); !got) return got;
    std::array<char, 2> end;
    return receive(end.data(), end.size());
}

}  // namespace maru::bench
