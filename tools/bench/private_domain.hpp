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

namespace maru::bench {

/// How the domain has to be.
struct DomainWish {
    std::uint64_t pages = 0;       // of page_bytes each; the control region and whole regions come on top
    std::uint64_t page_bytes = 0;  // the smallest in use
};

/// Daemon, socket and pool. Destroying it ends the daemon and removes the pool.
class Domain {
  public:
    /// Starts a daemon, or takes request.socket as it is.
    static Result<std::unique_ptr<Domain>> start(const Request& request, const DomainWish& wish);
    ~Domain();

    const std::string& socket() const { return socket_; }
    bool is_private() const { return daemon_.pid() > 0; }
    /// What lookups walk through, as this client maps it: the home buckets of the index, and the page
    /// records.
    static Result<std::array<std::span<const std::byte>, 2>> lookup_tables(maru_client* client);
    /// Stops (SIGSTOP) and wakes the private daemon. Returns when it has really stopped.
    Result<void> freeze();
    void thaw();

  private:
    void plan(const DomainWish& wish);
    Result<void> launch(const std::string& program);
    Result<void> wait_until_ready();
    std::string last_words() const;
    void remove_pool_file();

    TemporaryFolder folder_;
    std::string socket_, pool_file_;
    std::uint64_t pool_bytes_ = 0, max_objects_ = 0;
    Process daemon_;
};

}  // namespace maru::bench
