#include "wire/stream.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wire/beside.hpp"

namespace maru::wire {
namespace {

Error system_error(Code code, const std::string& what) {
    return {code, what + ": " + std::strerror(errno)};
}

std::uint32_t request_of(const Bytes& frame) {
    std::array<std::byte, header_bytes> head{};
    if (frame.size() < head.size()) return 0;
    std::memcpy(head.data(), frame.data(), head.size());
    const auto header = decode_header(head);
    return header ? header->request : 0;
}

}  // namespace

Result<Descriptor> Stream::open_socket() {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return system_error(Code::unavailable, "cannot make a socket");
    return socket;
}

Result<Stream> Stream::connect(const std::string& path, Deadline deadline) {
    auto socket = open_socket();
    if (!socket) return socket.error();
    return connect(*socket, path, deadline);
}

Result<Stream> Stream::connect(Descriptor& socket, const std::string& path, Deadline deadline) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return Error{Code::invalid, "socket path '" + path + "' has " + std::to_string(path.size()) +
                                        " bytes, 1 to " + std::to_string(sizeof address.sun_path - 1) +
                                        " are possible: choose a shorter path"};
    std::memcpy(address.sun_path, path.data(), path.size());
    // The send timeout bounds connect(2), which waits while the daemon's queue is full.
    const int left_ms = std::max(milliseconds_left(deadline), 1);
    timeval bound{};
    bound.tv_sec = left_ms / 1000;
    bound.tv_usec = (left_ms % 1000) * 1000;
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound) != 0)
        return system_error(Code::unavailable, "cannot bound the connection to " + path);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (errno == EAGAIN || errno == EINPROGRESS)
            return Error{Code::timeout, "the daemon at " + path + " did not accept within the time limit"};
        const Code code = errno == EACCES || errno == EPERM ? Code::denied : Code::unavailable;
        const char* remedy = code == Code::denied ? " (is this user in the daemon's group?)"
                             : errno == ENOENT    ? " (is the daemon running? MARU_SOCKET names its socket)"
                             : errno == ECONNREFUSED
                                 ? " (the daemon that made this socket has gone: start it again)"
                                 : "";
        Error error = system_error(code, "cannot connect to " + path);
        error.text += remedy;
        return error;
    }
    return adopt(std::move(socket));
}

Result<Stream> Stream::adopt(Descriptor socket) {
    const int flags = ::fcntl(socket.get(), F_GETFL);
    if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0)
        return system_error(Code::unavailable, "cannot make the socket non-blocking");
    return Stream(std::move(socket));
}

bool Stream::is_readable() const {
    pollfd look{socket_.get(), POLLIN, 0};
    return ::poll(&look, 1, 0) > 0;
}

Result<void> Stream::await(short events, Deadline deadline, const char* what) {
    while (true) {
        pollfd wait{socket_.get(), events, 0};
        const int ready = ::poll(&wait, 1, milliseconds_left(deadline));
        if (ready > 0) return {};
        if (ready == 0)
            return Error{Code::timeout, std::string("the daemon did not ") + what + " within the time limit"};
        if (errno != EINTR) return system_error(Code::unavailable, "cannot wait for the daemon");
    }
}

Result<void> Stream::send(const Bytes& frame, Deadline deadline, std::span<const int> descriptors) {
    if (!socket_) return Error{Code::unavailable, "not connected to the daemon"};
    if (descriptors.size() > descriptors_max)
        return Error{Code::invalid, std::to_string(descriptors.size()) + " descriptors do not fit a frame"};
    alignas(cmsghdr) char room[CMSG_SPACE(descriptors_max * sizeof(int))] = {};
    std::size_t sent = 0;
    while (sent < frame.size()) {
        iovec piece{const_cast<std::byte*>(frame.data()) + sent, frame.size() - sent};
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        if (sent == 0 && !descriptors.empty()) put_descriptors(message, room, descriptors);
        const ssize_t step = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (step > 0) {
            sent += static_cast<std::size_t>(step);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (auto ready = await(POLLOUT, deadline, "take the request"); !ready) return ready;
        } else if (errno != EINTR) {
            return system_error(Code::unavailable, "the daemon has gone");
        }
    }
    return {};
}

Result<bool> Stream::receive_piece() {
    std::array<std::byte, 16384> bytes;
    alignas(cmsghdr) char room[CMSG_SPACE(descriptors_max * sizeof(int))];
    iovec piece{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) {
        if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return false;
        return system_error(Code::unavailable, "the daemon has gone");
    }
    // All of them are owned before anything can fail.
    auto descriptors = take_descriptors(message);
    if (got == 0) return Error{Code::unavailable, "the daemon closed the connection"};
    if ((message.msg_flags & MSG_CTRUNC) != 0)
        return Error{
            Code::unavailable,
            "descriptors from the daemon were lost: this process may open too few files (ulimit -n)"};
    auto fed = reader_.feed({bytes.data(), static_cast<std::size_t>(got)}, std::move(descriptors));
    if (!fed) return fed.error();
    return true;
}

Result<std::size_t> Stream::send_some(std::span<const std::byte> bytes) {
    if (!socket_) return Error{Code::unavailable, "not connected to the daemon"};
    const ssize_t step = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (step >= 0) return static_cast<std::size_t>(step);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::size_t{0};
    return system_error(Code::unavailable, "the daemon has gone");
}

Result<std::optional<Frame>> Stream::try_receive() {
    if (!socket_) return Error{Code::unavailable, "not connected to the daemon"};
    while (true) {
        if (auto frame = reader_.next()) return frame;
        auto more = receive_piece();
        if (!more) return more.error();
        if (!*more) return std::optional<Frame>{};
    }
}

Result<void> Stream::await_bytes(Deadline deadline) {
    const Deadline soon = std::min<Deadline>(deadline, MonotonicClock::now() + answer_soon);
    do {
        if (is_readable()) return {};
        ::sched_yield();
    } while (MonotonicClock::now() < soon);
    return await(POLLIN, deadline, "answer");
}

Result<Frame> Stream::receive(Deadline deadline) {
    if (!socket_) return Error{Code::unavailable, "not connected to the daemon"};
    while (true) {
        if (auto frame = reader_.next()) return std::move(*frame);
        if (auto ready = await_bytes(deadline); !ready) return ready.error();
        if (auto fed = receive_piece(); !fed) return fed.error();
    }
}

Result<Frame> Stream::ask(const Bytes& request, Deadline deadline) {
    const std::uint32_t number = request_of(request);
    if (auto sent = send(request, deadline); !sent) return sent.error();
    auto frame = receive(deadline);
    // What comes unasked between two answers is no answer: a list of pools can be had again.
    while (frame && frame->type == Type::pool_list && frame->request == 0)
        frame = receive(deadline);
    if (!frame) return frame;
    // A failure without a request number says why the daemon ends the connection.
    const bool last_word = frame->type == Type::failure && frame->request == 0;
    if (frame->request != number && !last_word)
        return Error{Code::invalid, "the daemon answered request " + std::to_string(frame->request) +
                                        " where " + std::to_string(number) + " was asked"};
    if (frame->type != Type::failure) return frame;
    auto failure = open<Failure>(*frame);
    return failure ? to_error(*failure) : failure.error();
}

}  // namespace maru::wire
