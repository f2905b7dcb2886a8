// The metrics endpoint: where it listens, and what it answers with.
#pragma once

#include <string>
#include <vector>

#include "daemon/admin/census.hpp"
#include "daemon/config.hpp"
#include "daemon/metrics/instance_usage.hpp"
#include "daemon/metrics/scrape_server.hpp"

namespace maru::daemon {

struct DaemonFacts;

/// The listening socket of the endpoint, as far as it is to be had.
struct MetricsSocket {
    Descriptor socket;
    std::string problem;         ///< why there is none, with the remedy; empty: it was not wanted
    bool may_come_free = false;  ///< somebody else has the address: a killed daemon keeps it for a moment
};

/// Opens what metrics.listen says. The default address is nobody's wish: when it is not to be had, the socket
/// is empty and `problem` says why. An address that the config names is waited for, up to three seconds where
/// somebody else has it, and is an error when it does not come free.
Result<MetricsSocket> open_metrics(const Config& config);

/// Answers scrapes from the daemon's loop.
///
/// Promise: only reads shared memory.
/// Bound:   no step holds the loop for more than a few milliseconds; making answers takes at most a fifth of
///          the loop's time however often it is asked, since an answer is given again until it is four times
///          as old as it took to make.
/// Threads: the loop's.
class Metrics {
  public:
    /// Counts from here on: made before anybody is swept. `socket` stays the caller's and outlives this.
    Metrics(Loop& loop, MetricsSocket& socket, const Config& config, const table::Control& control,
            DaemonFacts& facts);
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    void start();

  private:
    struct Made {
        std::string text;
        Deadline good_until{};
    };
    void listen();
    void try_again(Deadline end);
    void ask(ScrapeServer::Answer answer);
    void count();
    void answer_all();

    Loop& loop_;
    MetricsSocket& socket_;
    const Config& config_;
    const table::Control& control_;
    DaemonFacts& facts_;
    Census census_;
    InstanceUsage usage_;
    ScrapeServer server_;
    Made made_;
    MonotonicClock::duration spent_{};  // on the answer that is being made
    std::vector<ScrapeServer::Answer> asked_;
    Operation waiting_ = 0;
};

}  // namespace maru::daemon
