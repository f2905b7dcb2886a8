// One run: processes with their threads, daemons with their duties, faults, and the end that must be clean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oracle.hpp"
#include "scenario.hpp"
#include "world.hpp"

namespace maru::sim {

struct Outcome {
    bool clean = true;
    std::string violation;
    std::uint64_t steps = 0;
};

class Simulation {
  public:
    explicit Simulation(const Scenario& scenario, Memory memory);

    /// One random schedule.
    Outcome run(std::uint64_t seed);

    /// The next schedule of the bounded search; false when all were run. `decisions` names it.
    struct Decision {
        std::uint32_t chosen = 0, options = 1;
    };
    Outcome run_decided(std::vector<Decision>& decisions);
    static bool next(std::vector<Decision>& decisions);
    /// A schedule of the scripts with pre-emptions at random steps.
    Outcome run_sampled(std::uint64_t seed);

    Oracle& oracle() { return oracle_; }
    std::uint64_t steps() const { return steps_; }
    static const char* trace_line(const Outcome& outcome);

  private:
    friend class ClientActor;
    friend class DaemonActor;
    friend class SoloActor;

    void set_up(std::uint64_t seed);
    void fill(Process& daemon);
    Process& open_process(bool daemon);
    void connect(Process& process);
    void add_script(Process& process, std::string name, const std::string& script);
    void start_threads(Process& process);
    void start_daemon();
    void start_scripts();
    /// `choose` picks among so many options; `free` when whoever ran cannot go on.
    Outcome run_scripts(const std::function<std::uint32_t(std::uint32_t options, bool free)>& choose);
    bool has_work(const Actor& daemon) const;
    bool may_succeed() const;
    table::Worker& new_worker(Process& process);
    std::uint64_t actor_seed() { return random_.bits(); }

    // what happens between two steps
    void kill_process(Process& process);
    void end_process(Process& process);
    void freeze(Actor& actor);
    void verdict_gone(Process& process);
    void strike();  // one random fault, if its time has come
    void respawn();
    void begin_solo();
    bool everybody_done() const;
    void finish();
    void note(const char* format, ...) __attribute__((format(printf, 2, 3)));
    Process* pick_client();
    /// The pools of a daemon that can be asked; nullptr: there is none.
    const PoolList* served() const;
    /// A daemon tells every client that it can reach.
    void tell_clients(const PoolList& list);
    Outcome conclude();

    Actor* pick(Actor* last, bool last_can_run);
    Actor* pick_in_turn(std::vector<Actor*>& can, const Actor* last);
    Actor* pick_by_mode(std::vector<Actor*>& can, Actor* last, bool last_can_run);
    std::uint64_t next_event(std::uint32_t per_million);

    Scenario scenario_;
    Memory memory_;
    Machine& machine_;
    World world_;
    Oracle oracle_;
    Random random_;
    std::vector<std::unique_ptr<Process>> processes_;
    std::uint32_t key_count_ = 1;
    bool finishing_ = false;
    int mode_ = 0;
    std::uint32_t turn_ = 0;  // steps of a turn in lock step
    bool met_ = false;        // all have placed an entry
    std::uint32_t change_ = 0, respawns_ = 0;
    std::uint64_t next_fault_ = 0, solo_at_ = 0;
    Actor* solo_ = nullptr;
    std::uint64_t steps_ = 0;
    std::uint64_t script_steps_ = 0;  // of the longest schedule so far
    std::string fault_names_;
    std::vector<std::pair<char, std::uint32_t>> faults_;
};

/// Operations of one client thread.
class ClientActor {
  public:
    ClientActor(Simulation& sim, Process& process, table::Worker& worker, Actor& actor)
        : sim_(sim), process_(process), worker_(worker), actor_(actor), random_(actor.random) {}

    void random_operations(std::uint32_t count);
    void script(const std::string& text);
    /// Everybody else has stopped: every answer must still come, and be right.
    void alone();

  private:
    struct Held {
        std::uint32_t hold = 0;
        std::uint64_t token = 0;
        table::View view;
        Bytes bytes;
    };
    Bytes address(const table::PageLocation& at);
    void take_in();
    void begin(const char* name, std::uint32_t key);
    void operation(const std::string& name, std::uint32_t key);
    bool allocate(table::Page* page);
    bool write(const table::Page& page, std::uint32_t key);
    Code publish(table::Page& page, std::uint32_t key);
    Code store(std::uint32_t key);
    void give_back(const table::Page& page);
    Code get(std::uint32_t key, bool may_keep);
    Held held(std::uint32_t key, const table::View& view);
    void read(const Held& held, std::uint32_t times);
    void drop(Held& held);
    void batch();
    void page();
    void match();
    Code pin(std::uint32_t key, bool check);
    void exists(std::uint32_t key);
    void damaged(std::uint32_t key);
    table::DeleteResult remove(std::uint32_t key);
    void evict();
    void reuse();
    void use_shared_page();
    void release_shared();
    void finish();

    Simulation& sim_;
    Process& process_;
    table::Worker& worker_;
    Actor& actor_;
    Random& random_;
    std::vector<Held> views_;
};

/// A daemon: sweeps who is dead, and does what the scenario's duties say.
class DaemonActor {
  public:
    DaemonActor(Simulation& sim, table::Worker& worker, Actor& actor)
        : sim_(sim), process_(*actor.process), worker_(worker), actor_(actor), random_(actor.random) {}
    void serve();
    void last_pass();
    /// Of an exhaustive search: nothing but sweeps.
    void sweep_until_the_end();
    void script(const std::string& text);

  private:
    void begin(const char* name);
    bool sweep();
    void claims();
    void flush_and_evict();
    void duty(const std::string& name);
    void take_over_pools();
    void pools_at_the_end();
    std::optional<std::uint32_t> pick_pool(table::PoolState state);
    void add_pool(bool may_fail, std::uint32_t wait);
    void drain_pools(bool evict);
    void drain_pool(std::uint32_t number);
    void remove_pool(std::uint32_t number);
    void tell();

    Simulation& sim_;
    Process& process_;
    table::Worker& worker_;
    Actor& actor_;
    Random& random_;
    std::uint32_t from_ = 0;
    std::unique_ptr<table::KeyPinExpiry> expiry_;
};

}  // namespace maru::sim
