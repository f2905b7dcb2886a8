// What clients and administrators ask for, and the answers.
#pragma once

#include <string>

#include "daemon/check_thread.hpp"
#include "daemon/domain.hpp"
#include "daemon/maintenance.hpp"
#include "daemon/namespaces.hpp"
#include "daemon/pools.hpp"
#include "daemon/session.hpp"
#include "table/regions.hpp"

namespace maru::daemon {

/// Answers the frames of all sessions.
///
/// Errors:  each becomes a Failure that the other end gets. What breaks the protocol also ends its
/// connection. Threads: the loop's.
class Requests {
  public:
    struct Parts {
        const Config& config;
        const Domain& domain;
        table::Worker& worker;
        Reaper& reaper;
        Maintenance& maintenance;
        Admin& admin;
        Pools& pools;
        Namespaces& namespaces;
        CheckThread& check;
        DaemonFacts& facts;
        std::function<Session*(std::uint64_t id)> session;           // nullptr: closed meanwhile
        std::function<Session*(table::Identity)> session_of_client;  // nullptr: it has none
    };
    explicit Requests(Parts parts) : parts_(std::move(parts)), control_(*parts_.domain.control) {}

    void answer(Session& session, const wire::Frame& frame);

  private:
    Result<void> execute(Session& session, const wire::Frame& frame);
    /// A request that was answered, in the log; `session` is nullptr when its connection has ended.
    void trace(const std::string& what, Session* session, MonotonicClock::time_point began,
               const Result<void>& done) const;
    void trace(const wire::Frame& frame, Session& session, MonotonicClock::time_point began,
               const Result<void>& done) const;
    void measure(wire::Type type, MonotonicClock::time_point began, bool done);
    Result<void> hello(Session& session, const wire::Frame& frame);
    Result<void> resume(Session& session, const wire::Frame& frame);
    Result<void> claim(Session& session, const wire::Frame& frame);
    Result<void> give_back(Session& session, const wire::Frame& frame);
    Result<void> bye(Session& session, const wire::Frame& frame);
    Result<void> ping(Session& session, const wire::Frame& frame);
    Result<void> ask_pools(Session& session, const wire::Frame& frame);
    Result<void> admin(Session& session, const wire::Frame& frame);
    Result<void> change_namespace(Session& session, const wire::Frame& frame, const wire::Admin& asked);
    std::function<void(Result<std::string>)> answer_later(Session& session, const wire::Frame& frame);
    Result<void> disconnect(Session& session, const wire::Frame& frame, const std::string& arguments);
    Result<void> evict(Session& session, const wire::Frame& frame, const std::string& arguments);
    Result<void> set_trace(Session& session, const wire::Frame& frame, const std::string& arguments);
    Result<void> change_log_level(Session& session, const wire::Frame& frame, const std::string& arguments);
    Result<void> release_host(Session& session, const wire::Frame& frame, const std::string& arguments);

    Result<std::uint32_t> page_4k_of(std::uint64_t page_bytes) const;
    Result<void> check_client(const Session& session) const;
    Result<void> check_room() const;
    Result<table::Identity> take_slot(const table::ClientFacts& facts, Descriptor* lock);
    void give_slot_back(table::Identity identity);
    table::ClientFacts facts_of(Session& session, const wire::Hello& hello) const;
    wire::Welcome welcome_for(table::Identity identity, const Session& session,
                              std::uint64_t page_bytes) const;
    bool holds_a_region(table::Identity identity) const;
    bool has_room_in_quota(table::PageClass wanted, bool may_evict);
    Result<table::RegionView> claim_one(table::PageClass wanted, std::uint64_t holder, bool may_evict,
                                        std::string* warning);

    Parts parts_;
    const table::Control& control_;
};

}  // namespace maru::daemon
