// One connection: frames in, frames out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/loop.hpp"
#include "daemon/process.hpp"
#include "table/pins.hpp"
#include "wire/codec.hpp"

namespace maru::daemon {

inline constexpr std::chrono::milliseconds first_frame_patience{5000};
inline constexpr std::size_t send_queue_bytes_max = 2 * std::size_t{wire::body_max};

/// Reads frames of one connection and hands them over one by one; sends answers in the order they were given.
///
/// Promise: `closed` is called once, whatever ends the connection; no event comes after it. Bytes that are no
/// frame end
///          the connection with a Failure; so do a reader that lets its answers pile up, and silence before
///          the first frame.
/// Death:   of the other end is seen as the end of the stream.
/// Threads: the loop's.
class Session {
  public:
    struct Events {
        std::function<void(Session&, wire::Frame)> frame;
        std::function<void(Session&)> closed;
    };
    Session(Loop& loop, std::uint64_t id, Descriptor socket, Peer peer, Events events);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    void start();
    /// `owned` go with the frame and are closed here once it is sent; `borrowed` follow them.
    void send(wire::Bytes frame, std::vector<Descriptor> owned = {}, std::vector<int> borrowed = {});
    void fail(std::uint32_t request, const Error& error);
    /// No further frame is handed over until `go_on`: an answer is being made elsewhere.
    void hold() { held_ = true; }
    bool is_held() const { return held_; }
    void go_on();
    /// Ends the connection when everything given to `send` is out; no further frame is handed over.
    void close_after_sending();
    void close();

    std::uint64_t id() const { return id_; }
    Peer& peer() { return peer_; }
    bool is_closed() const { return closed_; }

    std::optional<table::Identity> client;  ///< after a welcome or a resume
    std::uint32_t name_space = 0;

  private:
    struct Outgoing {
        wire::Bytes bytes;
        std::vector<Descriptor> owned;
        std::vector<int> borrowed;
    };
    void receive();
    void received(Received piece);
    void hand_over();
    void send_next();
    void sent(int result);
    void refuse(const Error& error);

    Loop& loop_;
    std::uint64_t id_;
    Descriptor socket_;
    Peer peer_;
    Events events_;
    wire::FrameReader reader_;
    std::deque<Outgoing> queue_;
    std::size_t queued_bytes_ = 0;
    Operation receiving_ = 0, sending_ = 0, patience_ = 0;
    bool held_ = false, closing_ = false, closed_ = false, handing_over_ = false;
};

}  // namespace maru::daemon
