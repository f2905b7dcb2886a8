// A daemon inside the test: enough of one for a client, and able to misbehave as told.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "shm/mapping.hpp"
#include "table/clients.hpp"
#include "table/regions.hpp"
#include "table/sweep.hpp"
#include "wire/stream.hpp"

namespace maru {

/// True as soon as `holds` does; false after five seconds.
inline bool eventually(const std::function<bool()>& holds) {
    const Deadline deadline = deadline_after(std::chrono::milliseconds(5000));
    while (!holds()) {
        if (MonotonicClock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

/// Serves one domain over anonymous memory. `stop` and `start` stand for a daemon that dies and one that
/// follows it.
class FakeDaemon {
  public:
    struct Shape {
        std::uint64_t pool_bytes = 16 * MiB;
        std::uint64_t region_unit = 2 * MiB;
        std::uint32_t pins = 4096;
        table::ChecksumMode checksum = table::ChecksumMode::off;
    };
    explicit FakeDaemon(Shape shape);
    FakeDaemon() : FakeDaemon(Shape{}) {}
    ~FakeDaemon();

    void start();
    void stop();

    const std::string& socket() const { return path_; }
    const table::Control& control() const { return *control_; }
    std::byte* pool() const { return mapping_.data(); }
    /// Some process still has the lock descriptor of the latest welcome.
    bool lock_is_open() const;
    /// Phase of the client slot of the latest welcome, with its own generation.
    table::ClientPhase phase() const;
    table::Identity identity() const { return identity_; }

    // -- misbehaviour
    std::atomic<bool> swallow_claims{false};  // until `answer_swallowed`
    void answer_swallowed();
    std::atomic<int> refuse_resume{0};                   // a Code, 0: do not
    std::function<void(wire::Welcome&)> change_welcome;  // set before anybody connects
    std::atomic<int> extra_descriptors{0};

    // -- what was seen
    std::atomic<int> hellos{0}, resumes{0}, claims{0}, byes{0}, connections{0};

  private:
    struct Session {
        Descriptor socket;
        wire::FrameReader reader;
        std::optional<table::Identity> client;
    };
    void run();
    bool serve(Session& session);
    void answer(Session& session, const wire::Frame& frame);
    void hello(Session& session, const wire::Frame& frame);
    void claim(Session& session, std::uint32_t request, const wire::Claim& wanted);
    static void send(Session& session, const wire::Bytes& frame, std::span<const int> descriptors = {});

    Shape shape_;
    std::string path_;
    Descriptor memory_, lock_watch_;
    shm::Mapping mapping_;
    std::optional<table::Control> control_;
    std::unique_ptr<table::Worker> worker_;
    table::Identity identity_;
    Descriptor listener_, wake_;
    std::thread thread_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Session>> sessions_;
    struct Swallowed {
        Session* session;
        std::uint32_t request;
        wire::Claim claim;
    };
    std::vector<Swallowed> swallowed_;
    bool stopping_ = false;
};

}  // namespace maru
