// The daemon's event loop: operations are begun, and say when they are complete.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace maru::daemon {

/// Names an operation that was begun and is not complete; 0 names none.
using Operation = std::uint64_t;

/// What a receive brought. The bytes are valid inside the callback only.
struct Received {
    int result = 0;  ///< bytes, 0 at the end of the stream, or a negative errno
    std::span<const std::byte> bytes;
    std::vector<Descriptor> descriptors;  ///< close-on-exec
    bool descriptors_lost = false;        ///< more came than this process may open
};

/// Completion-based input and output for one thread. Each back-end passes the suite in
/// tests/unit/loop_test.cpp.
///
/// Promise: an operation completes exactly once, by its callback, unless it is cancelled before; after
/// `cancel` its
///          callback is never called. Callbacks run from `run` alone, never from the call that begins an
///          operation, and may begin and cancel any operation.
/// Errors:  a negative errno in the callback. A begin never fails by itself.
/// Memory:  the loop owns the bytes of an operation until it is complete; descriptors belong to the caller,
/// who cancels
///          what he began on one before he closes it.
/// Threads: one.
class Loop {
  public:
    virtual ~Loop() = default;

    virtual const char* name() const = 0;

    /// One connection of a listening socket: its descriptor (close-on-exec), or a negative errno.
    virtual Operation accept(int listener, std::function<void(int result)> then) = 0;
    /// Some bytes of a stream socket, with the descriptors that came beside them.
    virtual Operation receive(int socket, std::function<void(Received)> then) = 0;
    /// All of `bytes`, with copies of `descriptors` beside the first one; 0 or a negative errno. One at a
    /// time per socket.
    virtual Operation send(int socket, std::vector<std::byte> bytes, std::vector<int> descriptors,
                           std::function<void(int result)> then) = 0;
    /// Once when the descriptor can be read, has ended or has an error: signalfd, pidfd, eventfd.
    virtual Operation when_readable(int descriptor, std::function<void()> then) = 0;
    /// Once after a span of monotonic time.
    virtual Operation after(std::chrono::milliseconds span, std::function<void()> then) = 0;
    virtual void cancel(Operation operation) = 0;

    /// Runs callbacks until `stop`. An error of the kernel's interface itself ends it.
    virtual Result<void> run() = 0;
    /// Lets `run` return after the callbacks that are ready now.
    virtual void stop() = 0;
};

/// A loop on io_uring; unavailable, with the remedy, where the kernel or a container forbids it.
Result<std::unique_ptr<Loop>> make_uring_loop();

/// A loop on epoll, which every Linux has. It sets listening sockets to O_NONBLOCK.
Result<std::unique_ptr<Loop>> make_epoll_loop();

/// By the name in daemon.event_backend: "io_uring", "epoll", or "auto", which is io_uring where it is to be
/// had and else, with one warning in the log, epoll.
Result<std::unique_ptr<Loop>> make_loop(const std::string& backend);

}  // namespace maru::daemon
