// An event loop without a kernel: what arrives, when, and what time it is, is told to it. Deterministic.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "daemon/loop.hpp"

namespace maru::fuzz {

/// Stands in for io_uring under the daemon's own server. Operations complete only inside `run` and by what
/// its script does.
class ScriptedLoop final : public daemon::Loop {
  public:
    const char* name() const override { return "scripted"; }
    daemon::Operation accept(int listener, std::function<void(int)> then) override;
    daemon::Operation receive(int socket, std::function<void(daemon::Received)> then) override;
    daemon::Operation send(int socket, std::vector<std::byte> bytes, std::vector<int> descriptors,
                           std::function<void(int)> then) override;
    daemon::Operation when_readable(int descriptor, std::function<void()> then) override;
    daemon::Operation after(std::chrono::milliseconds span, std::function<void()> then) override;
    void cancel(daemon::Operation operation) override;
    Result<void> run() override;
    void stop() override {}

    std::function<void()> script;  // what `run` does
    /// Takes what the daemon sends; false: the other end does not read now, the send stays under way.
    std::function<bool(int socket, std::span<const std::byte> bytes, std::size_t descriptors)> sent;

    // -- for the script
    /// Completes an accept; false when none is waited for.
    bool connect(int socket);
    /// Completes the receive of a socket; false when none is waited for.
    bool deliver(int socket, daemon::Received piece);
    /// Completes sends: with success where the other end reads, with `failure` (a negative errno) if that is
    /// not 0.
    void complete_sends(int failure = 0);
    /// Fires what is due within this span, in the order of its time.
    void advance(std::chrono::milliseconds span);
    /// Fires the waits on descriptors that are readable, or become so within this span.
    void poll(std::chrono::milliseconds patience = std::chrono::milliseconds(0));

  private:
    struct Receiving {
        int socket;
        std::function<void(daemon::Received)> then;
    };
    struct Sending {
        int socket;
        std::vector<std::byte> bytes;
        std::size_t descriptors;
        std::function<void(int)> then;
    };
    struct Timer {
        std::chrono::milliseconds due;
        std::function<void()> then;
    };
    struct Waiting {
        int descriptor;
        std::function<void()> then;
    };
    daemon::Operation last_ = 0;
    std::chrono::milliseconds now_{0};
    std::map<daemon::Operation, std::function<void(int)>> accepts_;
    std::map<daemon::Operation, Receiving> receives_;
    std::map<daemon::Operation, Sending> sends_;
    std::map<daemon::Operation, Timer> timers_;
    std::map<daemon::Operation, Waiting> waits_;
};

}  // namespace maru::fuzz
