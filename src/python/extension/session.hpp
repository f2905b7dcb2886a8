// One connection, shared by the handler and everything that came from it.
#pragma once

#include <maru/maru.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "python.hpp"

namespace maru::python {

class Session;

/// A page that the handler has allocated, from there until it went back.
///
/// All handle objects and buffers of one page share it, also handles that were made from numbers: what may
/// happen to the page depends on all of them.
struct Page {
    enum class State {
        reserved,   // until it is stored, freed, or the handler is closed
        duplicate,  // reserved, but the key was taken: goes back with the last handle and buffer
        published,  // the lease on it goes with the last handle and buffer
        freed,      // goes back with the last buffer
        gone,
    };
    Session* session;
    maru_page page;
    State state = State::reserved;
    std::uint32_t handles = 0;  // handle objects
    std::uint32_t buffers = 0;  // exported buffers

    void add_handle() { ++handles; }
    void drop_handle();
    void add_buffer() { ++buffers; }
    void drop_buffer();
    /// Back when no buffer is left.
    void free();
    /// Does what the state and the counts ask for; may delete the page.
    void settle();

  private:
    void give_back();
};

/// Counted by the handler, handles, views and calls that have released the GIL. Everything is done under the
/// GIL.
class Session {
  public:
    /// NULL with an exception set.
    static Session* open(const maru_options& options);
    void hold() { ++references_; }
    void drop();

    maru_client* client() const { return client_; }
    std::uint64_t page_size() const { return page_size_; }
    bool closed() const { return closed_; }

    /// Ends the client; pages whose buffers live stay. Releases the GIL.
    maru_status close();

    /// Takes in what maru_alloc gave.
    Page* add(const maru_page& page);
    /// The page of this place, if this handler holds it.
    Page* find(std::uint64_t region, std::uint64_t index) const;
    void forget(const Page& page);

    void end(maru_view* view);
    void end(maru_page* page);
    void let_go();

    /// False the first time that a region is seen.
    bool knows(std::uint32_t region) const { return region < known_.size() && known_[region]; }
    void learn(std::uint32_t region);

  private:
    Session() = default;
    ~Session() = default;
    static std::uint64_t place(std::uint64_t region, std::uint64_t index) { return region << 32 | index; }

    maru_client* client_ = nullptr;
    std::size_t references_ = 1;
    std::uint64_t page_size_ = 0;
    bool closed_ = false;
    std::unordered_map<std::uint64_t, Page*> pages_;
    std::vector<bool> known_;
};

/// A reference for the time of a call that releases the GIL.
class SessionInUse {
  public:
    explicit SessionInUse(Session* session) : session_(session) { session_->hold(); }
    ~SessionInUse() { session_->drop(); }
    SessionInUse(const SessionInUse&) = delete;
    SessionInUse& operator=(const SessionInUse&) = delete;

  private:
    Session* session_;
};

}  // namespace maru::python
