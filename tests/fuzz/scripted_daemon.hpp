// A daemon that answers as an input says: rightly, almost rightly, or with anything.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "shm/mapping.hpp"
#include "table/clients.hpp"
#include "table/worker.hpp"
#include "target.hpp"
#include "wire/codec.hpp"

namespace maru::fuzz {

/// Descriptors of every kind that may stand where a lock's or a pool's should.
Descriptor odd_descriptor(std::uint8_t kind, int memory);

/// Sends a piece of a stream with copies of an odd descriptor beside it.
bool send_piece(int socket, std::span<const std::byte> bytes, std::size_t descriptors, std::uint8_t kind);

/// Serves a small domain over anonymous memory, in a thread of its own. Each request takes its answer from
/// the script; when that has ended, answers are right.
class ScriptedDaemon {
  public:
    ScriptedDaemon();
    ~ScriptedDaemon();

    const std::string& socket() const { return path_; }
    /// The domain as it was formatted, and the script of what follows.
    void begin(const std::vector<std::uint8_t>& script);
    /// No connection is left, and none is taken until the next `begin`. Returns what this process has open
    /// then, one a line.
    std::string end();
    std::span<std::byte> control_bytes() const { return mapping_.bytes().first(control_->control_bytes()); }
    /// A bit for each wire::Type that was sent as a whole, right frame.
    std::uint32_t sent_types() const { return sent_types_.load(std::memory_order_relaxed); }

  private:
    struct Session {
        Descriptor socket;
        wire::FrameReader reader;
        std::optional<table::Identity> client;
    };
    struct Answer {
        wire::Bytes frame;
        std::vector<Descriptor> descriptors;
    };
    void run();
    bool serve(Session& session);
    bool answer(Session& session, const wire::Frame& frame);
    Answer right_answer(Session& session, const wire::Frame& frame);
    Answer welcome(Session& session, const wire::Frame& frame);
    wire::Bytes claimed(Session& session, const wire::Frame& frame);
    wire::PoolDescription pool() const;
    Answer pool_list(std::uint32_t request);
    static bool send(Session& session, std::span<const std::byte> bytes,
                     std::span<const Descriptor> descriptors);
    void bend(Answer& answer, Input& script) const;

    std::string folder_, path_;
    Descriptor memory_, listener_, wake_;
    shm::Mapping mapping_;
    std::vector<std::byte> pristine_;
    std::optional<table::Control> control_;
    table::Identity self_;
    std::unique_ptr<table::Worker> worker_;

    std::mutex mutex_;
    std::vector<std::uint8_t> script_bytes_;
    std::optional<Input> script_;
    std::vector<std::unique_ptr<Session>> sessions_;
    bool open_ = false, stopping_ = false;
    std::atomic<std::uint32_t> sent_types_{0};
    std::thread thread_;
};

}  // namespace maru::fuzz
