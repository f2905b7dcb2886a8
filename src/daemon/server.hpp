// The running daemon: everything that the loop drives.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon/listener.hpp"
#include "daemon/memory_lock.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/namespaces.hpp"
#include "daemon/prefault.hpp"
#include "daemon/requests.hpp"
#include "daemon/signals.hpp"

namespace maru::daemon {

/// Serves a domain until it is told to stop.
///
/// Promise: clients that are connected at a stop keep working on shared memory; the next daemon takes them
/// over. Death:   at any instruction; the next daemon on the domain goes on (Reaper::take_over). Threads: the
/// one that calls `run`, and those of CheckThread and Pools.
class Server {
  public:
    Server(const CommandLine& command_line, Config& config, Domain& domain, Listener& listener,
           MetricsSocket& metrics, Loop& loop, const Place& place);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// Finishes what an earlier daemon left and finds out who lives. Before `run`.
    void take_over(bool rebooted) {
        reaper_.take_over(rebooted);
        pools_.take_over();
        namespaces_.take_over();
    }
    /// Until a signal (current), or until this host has lost its place in the domain (anything else).
    Result<Standing> run();

  private:
    void accept();
    void accepted(int result);
    void refuse_one(const Error& error);
    void open_session(Descriptor socket);
    void session_closed(Session& session);
    Session* find(std::uint64_t id);
    Session* find_client(table::Identity identity);
    void signalled(int number);
    void lost_place(Standing standing);
    void reload();
    void dump();
    void describe_self();

    const CommandLine& command_line_;
    Config& config_;
    Domain& domain_;
    Listener& listener_;
    Loop& loop_;
    table::Worker worker_;
    DaemonFacts facts_;
    Reaper reaper_;
    Hosts hosts_;
    Standing standing_ = Standing::current;
    Evictor evictor_;
    Maintenance maintenance_;
    MemoryLock lock_;
    Prefault prefault_;
    Pools pools_;
    Namespaces namespaces_;
    Admin admin_;
    CheckThread check_;
    Requests requests_;
    Signals signals_;
    std::unique_ptr<Metrics> metrics_;  // nullptr: metrics.listen is ""
    std::unordered_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
    std::vector<std::unique_ptr<Session>> ended_;  // until the loop is out of their callbacks
    std::uint64_t last_session_ = 0;
    Operation accepting_ = 0, burying_ = 0;
    Descriptor spare_;  // given up for a moment to refuse a connection when no descriptor is left
};

}  // namespace maru::daemon
