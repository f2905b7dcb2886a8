// The client's line to its daemon, kept up by a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/fork_ward.hpp"
#include "client/prefault.hpp"
#include "wire/stream.hpp"

namespace maru::client {

/// A stream whose descriptor a forked child closes, from its first moment on.
Result<wire::Stream> connect_warded(const std::string& path, ForkWard& ward, Deadline deadline);

/// Carries requests of any thread, one frame each, and finds back to a daemon that was restarted.
///
/// Promise: while the daemon only is slow, the connection stays: closing it would tell the daemon that this
/// client is
///          gone. A request that ran into its deadline leaves its answer to `Events::unasked`.
/// Threads: any; the watching thread is owned and joined.
/// Errors:  unavailable while there is no daemon, timeout, fenced once the daemon has refused to take the
/// client back.
class Connection {
  public:
    struct Events {
        std::function<void(const wire::Frame&)> unasked;  // an answer that nobody waits for any more
        std::function<void()> resumed;
        std::function<void()> refused;
        int descriptor = -1;  // eventfd, raised when the daemon goes or comes back
    };

    /// `prefault` is worked off while nothing else is to do.
    Connection(ForkWard& ward, Prefault& prefault);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Starts the watching thread, which takes about as long as the daemon needs to answer a hello.
    Result<void> start();
    /// Takes over the stream of a client that was welcomed; `resume` is how it comes back to the daemon at
    /// `path`. Called once, before anything is asked.
    void begin(wire::Stream stream, std::string path, wire::Resume resume, Events events);
    /// Sends what `encode` makes of a request number and waits for its answer; a failure frame becomes its
    /// error.
    Result<wire::Frame> ask(const std::function<wire::Bytes(std::uint32_t)>& encode, Deadline deadline);
    /// There is new work for the watching thread.
    void wake();
    /// Every request under way and to come ends at once with unavailable; the connection itself stays.
    void cancel_requests();
    /// Tells the daemon that nothing is held any more and waits for its word. False when no daemon could be
    /// told.
    bool say_bye(Deadline deadline);
    /// Ends the watching thread and the connection.
    void stop();

    bool connected() const;
    std::uint64_t reconnects() const;

  private:
    enum class Phase { waiting, connected, resuming, disconnected, refused };
    struct Waiter {
        std::uint32_t request = 0;
        bool done = false, lost = false;
        wire::Frame answer;
    };
    using Lock = std::unique_lock<std::mutex>;

    void run();
    int pause_ms(Lock& lock) const;
    void receive(Lock& lock);
    void handle(Lock& lock, wire::Frame frame);
    void handle_resume(Lock& lock, const wire::Frame& frame);
    void lose(Lock& lock);
    void try_resume(Lock& lock);
    void retry_later();
    Result<void> wait_connected(Lock& lock, Deadline deadline);
    Result<void> flush();
    void receive_soon(Lock& lock, const Waiter& waiter);
    void raise_event() const;
    void close_stream();

    // Written by begin, then never again.
    std::string path_;
    wire::Resume resume_;
    Events events_;

    ForkWard& ward_;
    Prefault& prefault_;
    Descriptor wake_;
    std::thread thread_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    wire::Stream stream_;  // replaced by the watching thread only
    Phase phase_ = Phase::waiting;
    wire::Bytes out_;  // what the socket did not take yet
    std::vector<Waiter*> waiters_;
    std::uint32_t last_request_ = 1000;  // those of the handshake are below
    std::uint64_t attempts_failed_ = 0, reconnects_ = 0;
    int backoff_ms_ = 0;
    Deadline next_attempt_{};
    bool cancelled_ = false, stopping_ = false;
};

}  // namespace maru::client
