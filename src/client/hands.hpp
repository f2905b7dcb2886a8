// One thread's hands on one client: a table worker, found with a single comparison.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "client/fork_ward.hpp"
#include "table/worker.hpp"

namespace maru::client {

/// Belongs to one thread at a time. When its thread ends it waits for the next one: pins and pages taken
/// through it may still be in use.
struct alignas(128) Hands {
    /// A call is under way. Written by the thread, read by who closes the client (Roster::quiesce).
    std::atomic<std::uint32_t> busy{0};
    const shm::Word64* slot_state = nullptr;  // of the client slot
    // What it reads while this client may act. Relaxed: Roster::fence makes it a value that no slot has.
    std::atomic<std::uint64_t> active{0};
    std::optional<table::Worker> worker;

    /// The daemon took this client for gone. Acquire: what the daemon's sweep did before is seen.
    bool fenced() const { return slot_state->load(shm::acquire) != active.load(std::memory_order_relaxed); }
};

/// All hands of one client.
///
/// Threads: any. Lives as long as a thread may give hands back, which may be longer than its client.
class Roster {
  public:
    Roster(const table::Control& control, table::Identity identity)
        : control_(&control), identity_(identity) {}

    /// Hands for the calling thread, of an ended thread or new ones. nullptr when the client has ended.
    Hands* take();
    void give_back(Hands* hands);
    bool has_ended();

    /// From here on every hands is fenced, whatever the client slot says.
    void fence();
    /// Waits until no other call is under way, `own` excepted; the ward's serial was changed before, so that
    /// no new one begins. False when the deadline passed first.
    bool quiesce(Deadline deadline, const Hands* own);
    /// Visits all hands; nothing else may be under way.
    template <class Visit>
    void for_each(Visit&& visit) {
        const std::lock_guard lock(mutex_);
        for (auto& hands : all_)
            if (hands->worker) visit(*hands->worker);
    }
    /// Ends the workers. The hands themselves stay, as a thread that lost a race with the closing may still
    /// look at their `busy`.
    void end();

  private:
    const table::Control* control_;
    table::Identity identity_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Hands>> all_;
    std::vector<Hands*> idle_;
    bool ended_ = false, fenced_ = false;
};

/// What a thread used last. In the static TLS block, reached without a call; small, as a library that is
/// loaded at run time shares that block with all others.
struct ThreadCache {
    std::uint64_t serial = 0;  // of a client; 0: none
    Hands* hands = nullptr;
};
extern constinit thread_local ThreadCache thread_cache [[gnu::tls_model("initial-exec")]];

/// The calling thread's hands on this client; takes some when it has none yet, and makes them the cached
/// ones. nullptr when the client has ended.
Hands* hands_of_thread(std::uint64_t serial, const std::shared_ptr<Roster>& roster);

/// To be called once before the first Roster::quiesce of a process, while connecting.
void prepare_quiesce();

}  // namespace maru::client
