// Namespaces that are made, changed, flushed and removed while the domain is served.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "daemon/config.hpp"
#include "daemon/loop.hpp"
#include "daemon/name_space.hpp"
#include "daemon/session.hpp"
#include "table/worker.hpp"

namespace maru::daemon {

/// Keeps the namespaces of the domain: what the config and administrators say about them, who may enter, and
/// flushes, whose memory comes back a slice at a time.
///
/// Promise: a flush hides what was stored before it from the next lookup on; nothing that is read or pinned
///          loses its bytes before it is let go.
/// Death:   at any instruction: what is made or changed is as before or as after, and `take_over` of the
///          successor goes on with a flush or a removal that was under way.
/// Errors:  denied for users other than root and the daemon's own; full when
///          control.max_namespaces are made; pinned for what is in use; invalid with the reason. Nothing is
///          changed then.
/// Threads: the loop's.
class Namespaces {
  public:
    struct Parts {
        Loop& loop;
        Config& config;
        const table::Control& control;
        table::Worker& worker;
        std::function<void(const std::function<void(Session&)>&)> each_client;  // that is connected
    };
    using Answer = std::function<void(Result<std::string>)>;

    explicit Namespaces(Parts parts) : parts_(std::move(parts)), control_(parts_.control) {}
    ~Namespaces();
    Namespaces(const Namespaces&) = delete;
    Namespaces& operator=(const Namespaces&) = delete;

    /// Before anybody is served: puts the config in force, goes on with what an earlier daemon left.
    void take_over();
    /// A config that was read again.
    void take_config(const Config& fresh);

    struct Entry {
        std::uint32_t id = 0;
        bool read_only = false;
    };
    /// The namespace that a client names, made if there is none; denied when its rules do not let it in.
    Result<Entry> enter(const std::string& name, const Peer& peer) const;
    /// Whether a connected client may write, by the rules as they are now. Whom they do not let in any more
    /// reads on until it ends.
    void settle(Session& session) const;

    static bool knows(const std::string& command);
    /// namespace_create, namespace_set, namespace_rm and flush; `user` asks. Nothing: `later` is called once
    /// the memory is back, which takes many turns of the loop.
    std::optional<Result<std::string>> answer(const std::string& command, const std::string& arguments,
                                              std::uint32_t user, Answer later);

  private:
    /// Gives back what is in a namespace, or counts it.
    struct Job {
        bool dry = false, removes = false;
        std::uint32_t region = 0, page = 0;  // where it goes on
        table::Flushed seen;                 // in this pass
        table::Flushed all;                  // gone since it began; held as of the last whole pass
        std::vector<Answer> waiting;
    };

    void put_in_force(const NamespaceConfig& wanted);
    void settle_all(std::uint32_t id) const;
    void begin(std::uint32_t id, bool removes, Answer later);
    void arm(std::chrono::milliseconds pause);
    void work_on();
    bool pass(std::uint32_t id, Job* job, Deadline deadline);
    bool end_pass(std::uint32_t id, Job* job);
    std::string describe(std::uint32_t id, const Job& job) const;
    Error not_removed(std::uint32_t id, const Job& job) const;
    std::vector<std::string> clients_of(std::uint32_t id) const;
    bool is_in_config(const std::string& name) const;

    Result<std::string> answer_create(const std::string& arguments);
    Result<std::string> answer_set(const std::string& arguments);
    std::optional<Result<std::string>> answer_rm(const std::string& arguments, Answer later);
    std::optional<Result<std::string>> answer_flush(const std::string& arguments, Answer later);
    std::string describe(std::uint32_t id) const;

    Parts parts_;
    const table::Control& control_;
    std::map<std::uint32_t, Job> jobs_;    // flushes and removals, by namespace
    std::map<std::uint32_t, Job> counts_;  // dry runs
    Operation timer_ = 0;
};

}  // namespace maru::daemon
