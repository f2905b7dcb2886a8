// The asking side of a connection: a Unix stream socket with a deadline on everything.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "wire/codec.hpp"

namespace maru::wire {

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
    /// Takes over a connected stream socket.
    static Result<Stream> adopt(Descriptor socket);

    /// Sends a frame whole; `descriptors` (borrowed) go with its first byte.
    Result<void> send(const Bytes& frame, Deadline deadline, std::span<const int> descriptors = {});
    /// The next whole frame.
    Result<Frame> receive(Deadline deadline);
    /// Sends a request and waits for the answer with the same number; a failure frame becomes its error.
    Result<Frame> ask(const Bytes& request, Deadline deadline);

    int descriptor() const { return socket_.get(); }
    explicit operator bool() const { return static_cast<bool>(socket_); }
    void close() { socket_.reset(); }

  private:
    explicit Stream(Descriptor socket) : socket_(std::move(socket)) {}
    Result<void> await(short events, Deadline deadline, const char* what);
    Result<void> receive_piece();

    Descriptor socket_;
    FrameReader reader_;
};

}  // namespace maru::wire
