// A daemon and a domain that belong to one benchmark, so that nobody else's objects are measured or touched.
#pragma once

#include <maru/maru.h>

#include <array>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"
#include "process.hpp"
#include "request.hpp"
#include "table/control.hpp"

namespace maru::bench {

/// How the domain has to be.
struct DomainWish {
    std::uint64_t pages = 0;       // of page_bytes each; the control region and whole regions come on top
    std::uint64_t page_bytes = 0;  // the smallest in use
    std::uint64_t more_bytes = 0;  // of memory beyond these pages
    bool outlives_daemon = false;  // the pool keeps its name, so that `restart` finds it
};

/// Daemon, socket and pool. Destroying it ends the daemon and removes the pool.
class Domain {
  public:
    /// Starts a daemon, or takes request.socket as it is.
    static Result<std::unique_ptr<Domain>> start(const Request& request, const DomainWish& wish);
    ~Domain();

    const std::string& socket() const { return socket_; }
    bool is_private() const { return daemon_.pid() > 0; }
    const std::string& program() const { return program_; }
    pid_t daemon_pid() const { return daemon_.pid(); }
    /// The control region as this client maps it.
    static Result<table::Control> control_of(maru_client* client);
    /// What lookups walk through, as this client maps it: the home buckets of the index, and the page
    /// records.
    static Result<std::array<std::span<const std::byte>, 2>> lookup_tables(maru_client* client);
    /// Stops (SIGSTOP) and wakes the private daemon. Returns when it has really stopped.
    Result<void> freeze();
    void thaw();
    /// Kills the private daemon (SIGKILL) and, once it has ended, starts another one for the same pool.
    /// Returns before that one serves. Needs a wish that outlives_daemon.
    Result<void> restart();

  private:
    void plan(const DomainWish& wish);
    Result<void> launch();
    Result<void> start_daemon();
    Result<void> wait_until_ready();
    std::string last_words() const;
    void remove_pool_file();

    TemporaryFolder folder_;
    std::string program_, socket_, pool_file_;
    std::uint64_t pool_bytes_ = 0, max_objects_ = 0;
    Process daemon_;
};

}  // namespace maru::bench
