// Pools that are added to and taken away from a domain while it is served.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/beside_loop.hpp"
#include "daemon/domain.hpp"
#include "daemon/loop.hpp"
#include "daemon/prefault.hpp"
#include "daemon/session.hpp"
#include "table/pools.hpp"

namespace maru::daemon {

/// Adds, drains and removes pools (table/pools.hpp tells how their states follow each other), and looks for
/// the DAX devices that the config names by "any" or by UUID and that appear later.
///
/// Promise: clients are told of a pool before anything lies in it; one that was not told asks (ask_pools).
/// Death:   at any instruction: `take_over` of the successor undoes what was being added, and goes on with
/// what
///          was draining or leaving.
/// Errors:  denied in a domain that hosts share, and for users other than root and the daemon's own; full
/// when
///          the domain has no room; otherwise those of pool::open. Nothing is changed then.
/// Threads: the loop's. The memory of a pool that is asked for is made in one of its own (BesideLoop); the
/// end of this waits for it and undoes it.
class Pools {
  public:
    struct Parts {
        Loop& loop;
        Config& config;
        Domain& domain;
        table::Worker& worker;
        Prefault& prefault;
        std::function<void(const std::function<void(Session&)>&)> each_client;  // that is connected
    };
    explicit Pools(Parts parts)
        : parts_(std::move(parts)), control_(*parts_.domain.control), beside_(parts_.loop) {}
    ~Pools();
    Pools(const Pools&) = delete;
    Pools& operator=(const Pools&) = delete;

    /// Before anybody is served: finishes what an earlier daemon left, and adds what the config lists and the
    /// domain does not have.
    void take_over();
    /// Begins to look for devices.
    void start();
    /// A config that was read again: what is new is added, the rest stays.
    void take_config(const Config& fresh);

    static bool knows(const std::string& command);
    /// pool_drain, pool_remove and rescan; `user` asks.
    Result<std::string> answer(const std::string& command, const std::string& arguments, std::uint32_t user);
    /// pool_add. The memory is made beside the loop, one pool after the other,
    /// and `then` is called in the loop. An error here is the answer, and `then`
    /// is not called.
    using Then = std::function<void(const Result<std::string>&)>;
    Result<void> answer_later(const std::string& arguments, std::uint32_t user, Then then);

    // -- what clients are told
    std::vector<wire::PoolDescription> describe() const;
    /// In the order of `describe`; copies, since a pool may leave before a slow client has taken them.
    std::vector<Descriptor> descriptors() const;
    void send_list(Session& session, std::uint32_t request) const;

  private:
    struct Removal {
        bool removed = false;
        bool pass_is_over = false;  // nothing more can be evicted now
    };
    struct Rescan {
        std::vector<std::string> added;
        std::vector<std::pair<std::string, std::string>> refused;  // name and reason
    };

    /// A pool whose entry is joining, and whose memory is being made.
    struct Joining {
        std::uint32_t number = 0;
        pool::PoolConfig config;
    };
    using OpenedPool = Result<std::unique_ptr<pool::Pool>>;
    struct Wanted {
        std::string argument;  // KIND:WHAT[:SIZE]
        Then then;
    };

    Result<std::uint32_t> add(const pool::PoolConfig& config, const std::string& source);
    Result<Joining> begin_add(const pool::PoolConfig& config, const std::string& source);
    Result<std::uint32_t> end_add(const Joining& joining, OpenedPool opened);
    Result<void> enter(const Joining& joining, std::unique_ptr<pool::Pool> pool);
    void make(const Joining& joining, Then then);
    void make_next();
    Result<Joining> begin_wanted(const std::string& argument);
    Result<std::string> end_wanted(const Joining& joining, OpenedPool opened);
    Result<void> lock(const pool::PoolConfig& config);
    void unlock(const pool::PoolConfig& config);
    bool is_open(const pool::PoolConfig& config) const;
    Result<std::uint32_t> named(const std::string& name) const;
    Result<void> may_leave(std::uint32_t number) const;
    Result<Removal> remove(std::uint32_t number, bool evict);
    void finish_removal(std::uint32_t number);
    Rescan rescan();
    void tell_clients() const;
    void drain_on();
    void look_for_devices();
    void tell_of_gone_devices();
    bool names_devices() const;

    Result<std::string> answer_drain(const std::string& name, bool cancel);
    Result<std::string> answer_remove(const std::string& name, bool evict);
    std::string answer_rescan();

    Parts parts_;
    const table::Control& control_;
    Operation draining_ = 0, looking_ = 0;
    std::uint32_t drain_from_ = 0, evict_from_ = 0;
    std::string devices_;     // as the kernel told of them last
    std::vector<bool> gone_;  // by the number of a pool: its device is not there, and that was said
    int looks_left_ = 0;      // after a change: its node may come a moment later
    std::deque<Wanted> wanted_;
    std::optional<Joining> joining_;           // the first of them
    OpenedPool opened_ = Error{Code::ok, ""};  // written beside the loop, read when that has ended
    BesideLoop beside_;
};

}  // namespace maru::daemon
