#include "counterpart/socket_echo.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"

namespace maru::bench {
namespace {

constexpr std::chrono::milliseconds start_limit{10'000};

Error lost(const char* during) {
    return {Code::unavailable, std::string("socket echo: ") + during + ": " + std::strerror(errno)};
}

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return Error{Code::invalid, "socket path " + path + " is too long: set TMPDIR to a shorter folder"};
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

bool receive(int socket, std::array<char, echo_bytes>& message) {
    for (std::size_t have = 0; have < message.size();) {
        const auto got = ::recv(socket, message.data() + have, message.size() - have, 0);
        if (got <= 0) return false;
        have += static_cast<std::size_t>(got);
    }
    return true;
}

bool send(int socket, const std::array<char, echo_bytes>& message) {
    return ::send(socket, message.data(), message.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(message.size());
}

}  // namespace

Result<std::unique_ptr<SocketEcho>> SocketEcho::start() {
    auto echo = std::make_unique<SocketEcho>();
    auto folder = TemporaryFolder::make();
    if (!folder) return folder.error();
    echo->folder_ = std::move(*folder);
    const std::string path = echo->folder_.path() + "/echo.sock";
    const auto address = address_of(path);
    if (!address) return address.error();
    auto server = Process::start({own_program(), "echo", "--socket", path});
    if (!server) return server.error();
    echo->server_ = std::move(*server);
    const Deadline deadline = deadline_after(start_limit);
    while (milliseconds_left(deadline) > 0 && echo->server_.running()) {
        echo->socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(echo->socket_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) ==
            0)
            return echo;
        echo->server_.wait_a_little();
    }
    return lost("its other end did not start");
}

Result<void> SocketEcho::run(std::uint64_t count) {
    std::array<char, echo_bytes> message{};
    for (std::uint64_t i = 0; i < count; ++i)
        if (!send(socket_.get(), message) || !receive(socket_.get(), message)) return lost("round trip");
    return {};
}

Result<void> run_echo(const std::string& path) {
    const auto address = address_of(path);
    if (!address) return address.error();
    const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
        ::listen(listener.get(), 1) != 0)
        return lost("listen");
    const Descriptor peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, echo_bytes> message{};
    while (receive(peer.get(), message))
        if (!send(peer.get(), message)) return lost("send");
    return {};
}

}  // namespace maru::bench
