// The asking side of a connection: a Unix stream socket with a deadline on everything.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "wire/codec.hpp"

namespace maru::wire {

/// How long who asked looks for the answer before it sleeps: the daemon mostly answers sooner than a
/// processor that went idle wakes up. Whoever looks yields each time, so that a daemon without a processor of
/// its own is not kept waiting.
inline constexpr std::chrono::microseconds answer_soon{100};

/// One connection to a daemon, as clients and tools use it.
///
/// Threads: one at a time.
/// Errors:  timeout when the deadline passed, unavailable when the other end is not there or has gone,
/// invalid when it
///          does not keep the protocol. After any error the stream is of no more use.
class Stream {
  public:
    Stream() = default;
    /// Waits for the daemon to accept, no longer than the deadline. `path` is a file-system path.
    static Result<Stream> connect(const std::string& path, Deadline deadline);
    /// The same with a socket that the caller has made by open_socket; it stays the caller's when this fails.
    static Result<Stream> connect(Descriptor& socket, const std::string& path, Deadline deadline);
    static Result<Descriptor> open_socket();
    /// Takes over a connected stream socket.
    static Result<Stream> adopt(Descriptor socket);

    /// Sends a frame whole; `descriptors` (borrowed) go with its first byte.
    Result<void> send(const Bytes& frame, Deadline deadline, std::span<const int> descriptors = {});
    /// The next whole frame.
    Result<Frame> receive(Deadline deadline);
    /// Sends a request and waits for the answer with the same number; a failure frame becomes its error.
    Result<Frame> ask(const Bytes& request, Deadline deadline);

    // -- for a loop that waits elsewhere
    /// Sends what the socket takes at once; the number of bytes that went.
    Result<std::size_t> send_some(std::span<const std::byte> bytes);
    /// A whole frame if one is there; nothing when more bytes must come first.
    Result<std::optional<Frame>> try_receive();
    /// Waits until bytes are there.
    Result<void> await_bytes(Deadline deadline);
    /// Something can be received, an end or an error too.
    bool is_readable() const;

    int descriptor() const { return socket_.get(); }
    explicit operator bool() const { return static_cast<bool>(socket_); }
    void close() { socket_.reset(); }

  private:
    explicit Stream(Descriptor socket) : socket_(std::move(socket)) {}
    Result<void> await(short events, Deadline deadline, const char* what);
    /// Takes in one piece; false when nothing is there.
    Result<bool> receive_piece();

    Descriptor socket_;
    FrameReader reader_;
};

}  // namespace maru::wire
