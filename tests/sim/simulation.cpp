#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "table/clients.hpp"
#include "table/regions.hpp"

namespace maru::sim {

using namespace table;

Simulation::Simulation(const Scenario& scenario, Memory memory)
    : scenario_(scenario),
      memory_(memory),
      machine_(machine()),
      world_(scenario),
      oracle_(world_, machine_) {}

void Simulation::note(const char* format, ...) {
    if (!machine_.trace) return;
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    machine_.note(text);
}

// -- setting up

Worker& Simulation::new_worker(Process& process) {
    process.workers.push_back(std::make_unique<Worker>(world_.control(), process.identity));
    return *process.workers.back();
}

void Simulation::connect(Process& process) {
    Machine::Outside outside(machine_, nullptr);
    ClientFacts facts;
    facts.is_daemon = process.daemon;
    const auto opened = open_client(world_.control(), facts);
    process.alive = static_cast<bool>(opened);
    if (!opened) return;
    process.identity = *opened;
    activate_client(world_.control(), process.identity);
    if (!process.daemon) process.pools.bind(world_);
}

const PoolList* Simulation::served() const {
    for (const auto& process : processes_)
        if (process->serves && process->alive) return &process->opened;
    return nullptr;
}

void Simulation::tell_clients(const PoolList& list) {
    for (const auto& process : processes_)
        if (process->alive && !process->daemon && !process->gone) process->told.push_back(list);
}

Process& Simulation::open_process(bool daemon) {
    processes_.push_back(std::make_unique<Process>());
    Process& process = *processes_.back();
    process.number = static_cast<int>(processes_.size()) - 1;
    process.daemon = daemon;
    connect(process);
    return process;
}

void Simulation::start_threads(Process& process) {
    const std::uint32_t count = scenario_.threads.pick(random_);
    for (std::uint32_t t = 0; t < count; ++t) {
        Worker& worker = new_worker(process);
        const std::uint32_t operations = scenario_.operations.pick(random_);
        Actor& actor = machine_.add("c" + std::to_string(process.number) + "." + std::to_string(t), &process,
                                    {}, actor_seed());
        actor.body = [this, &process, &worker, &actor, operations] {
            ClientActor(*this, process, worker, actor).random_operations(operations);
        };
        actor.priority = static_cast<int>(random_.below(1000));
        if (scenario_.turn.most > 0)  // in lock step: steps of a turn
            actor.priority = static_cast<int>(turn_ * scenario_.ratio.pick(random_));
        process.threads.push_back(&actor);
    }
}

void Simulation::start_daemon() {
    Process& process = open_process(true);
    if (!process.alive) return;
    Worker& worker = new_worker(process);
    Actor& actor = machine_.add("d" + std::to_string(process.number), &process, {}, actor_seed());
    actor.body = [this, &worker, &actor] { DaemonActor(*this, worker, actor).serve(); };
    actor.priority = static_cast<int>(random_.below(1000));
    process.threads.push_back(&actor);
}

/// Regions, ballast and first objects, before anybody is there. Seen by the oracle, no steps.
void Simulation::fill(Process& daemon) {
    Actor& actor = machine_.add("setup", &daemon, {}, 1);
    actor.done = true;
    Machine::Outside outside(machine_, &actor);
    Worker worker(world_.control(), daemon.identity);
    const auto put = [&](std::uint32_t key, PageClass wanted) {
        Page page;
        if (worker.alloc_anywhere(wanted, &page) != Code::ok) return false;
        const std::uint64_t value = oracle_.new_value(key);
        for (auto& word : world_.payload(page.location))
            word.store(Oracle::payload_word(value, key), shm::relaxed);
        actor.key = static_cast<int>(key);
        if (worker.publish(world_.key(key), page, 8) != Code::ok) return false;
        worker.free(page);
        return true;
    };
    if (scenario_.ballast > 0) {  // of another class than the clients' pages
        (void)claim_region(worker, world_.page_class(world_.namespace_of(scenario_.keys.most)), 0, false,
                           nullptr);
        for (std::uint32_t b = 0; b < scenario_.ballast; ++b)
            if (!put(scenario_.keys.most + b, world_.page_class(world_.namespace_of(scenario_.keys.most))))
                std::fprintf(stderr, "sim: no room for ballast\n");
    }
    (void)claim_region(worker, world_.page_class(0), 0, false, nullptr);
    if (scenario_.filled)
        for (std::uint32_t k = 0; k < key_count_; ++k)
            put(k, world_.page_class(0));
    worker.pins().give_back();
}

void Simulation::set_up(std::uint64_t seed) {
    random_ = Random(seed);
    processes_.clear();
    machine_.begin(memory_, Random(seed ^ 0x5bd1e995), &oracle_);
    world_.reset();
    key_count_ = scenario_.keys.pick(random_);
    oracle_.begin(&processes_);
    finishing_ = false;
    change_ = 0;
    solo_ = nullptr;
    Process& first = open_process(true);
    fill(first);
    const std::uint32_t moved = scenario_.epoch.pick(random_);
    {
        Machine::Outside outside(machine_, nullptr);
        for (std::uint32_t e = 1; e < moved; ++e)
            advance_epoch(world_.control());
        declare_dead(world_.control(), first.identity);
        Worker worker(world_.control(), first.identity);
        sweep_dead(worker, first.identity);  // the slot is free again
        first.alive = false;
    }
}

// -- faults

Process* Simulation::pick_client() {
    std::vector<Process*> can;
    for (const auto& process : processes_)
        if (process->alive && !process->daemon) can.push_back(process.get());
    return can.empty() ? nullptr : can[random_.below(static_cast<std::uint32_t>(can.size()))];
}

void Simulation::kill_process(Process& process) {
    note("SIGKILL %s %d", process.daemon ? "daemon" : "client", process.number);
    for (Actor* actor : process.threads) {
        Machine::Outside outside(machine_, actor);
        if (!actor->dead) machine_.drain(*actor);  // an exited process has no stores under way
    }
    for (Actor* actor : process.threads)
        if (!actor->dead) machine_.kill(*actor);
    process.alive = false;
    oracle_.let_go_of(process);
    Machine::Outside outside(machine_, nullptr);
    declare_dead(world_.control(), process.identity);
    oracle_.count(process.daemon ? "daemon killed" : "client killed");
}

void Simulation::end_process(Process& process) {
    for (Actor* actor : process.threads) {
        Machine::Outside outside(machine_, actor);
        machine_.drain(*actor);
    }
    process.alive = false;
    oracle_.let_go_of(process);
    Machine::Outside outside(machine_, nullptr);
    declare_dead(world_.control(), process.identity);
}

void Simulation::freeze(Actor& actor) {
    static const std::uint32_t spans[] = {60, 300, 1500, 6000};
    const std::uint32_t span = spans[random_.below(4)];
    actor.frozen_until = machine_.now() + span;
    note("%s is stopped for %u steps (%s)", actor.name.c_str(), span, actor.operation);
    oracle_.count("thread stopped");
}

/// A verdict without proof, on a client that lives and stands still for a while.
void Simulation::verdict_gone(Process& process) {
    if (process.gone) return;
    for (const auto& other : processes_) {
        if (!other->daemon || !other->alive || other->threads.empty() || other->threads[0]->done) continue;
        note("client %d is declared gone", process.number);
        process.gone = true;
        oracle_.count("declared gone");
        const std::uint64_t until = machine_.now() + 100 + random_.below(1500);
        for (Actor* actor : process.threads)
            if (random_.below(2) != 0) actor->frozen_until = until;
        oracle_.end_key_pins(process);
        Worker& worker = new_worker(*other);
        Actor& actor = machine_.add("g" + std::to_string(process.number), other.get(), {}, actor_seed());
        const Identity who = process.identity;
        actor.body = [&worker, &actor, who] {
            actor.operation = "sweep gone";
            sweep_gone(worker, who);
            worker.pins().give_back();
        };
        other->threads.push_back(&actor);
        return;
    }
}

std::uint64_t Simulation::next_event(std::uint32_t per_million) {
    if (per_million == 0) return ~0ull;
    const double chance = per_million / 1e6;
    const double uniform = (random_.below(1u << 30) + 1) / static_cast<double>((1u << 30) + 1);
    return machine_.now() + 1 + static_cast<std::uint64_t>(std::log(uniform) / std::log(1 - chance));
}

void Simulation::strike() {
    std::uint32_t total = 0;
    for (const auto& [kind, weight] : faults_)
        total += weight;
    std::uint32_t at = random_.below(total);
    char chosen = 0;
    for (const auto& [kind, weight] : faults_) {
        if (at < weight) {
            chosen = kind;
            break;
        }
        at -= weight;
    }
    next_fault_ = next_event(total);
    if (chosen == 'k') {
        if (Process* process = pick_client()) kill_process(*process);
    } else if (chosen == 'g') {
        if (Process* process = pick_client()) verdict_gone(*process);
    } else if (chosen == 'f') {
        const auto& actors = machine_.actors();
        Actor& actor = *actors[random_.below(static_cast<std::uint32_t>(actors.size()))];
        if (actor.can_run(machine_.now())) freeze(actor);
    } else if (chosen == 'z') {
        for (const auto& actor : machine_.actors())
            if (actor->process->daemon && actor->can_run(machine_.now()) &&
                std::string_view(actor->operation) != "-" && random_.below(2) != 0)
                return freeze(*actor);
    } else {
        for (const auto& process : processes_) {
            if (!process->daemon || !process->alive || process->threads.empty()) continue;
            const std::string operation = process->threads[0]->operation;
            if (chosen == 's' && operation == "-") continue;
            if (process->threads[0]->done || random_.one_in(3) || processes_.size() > 15) continue;
            kill_process(*process);
            start_daemon();
            break;
        }
    }
}

void Simulation::respawn() {
    if (respawns_ == 0 || !random_.one_in(10)) return;
    std::uint32_t living = 0;
    for (const auto& process : processes_)
        living += process->alive && !process->daemon;
    if (living >= scenario_.clients.most) return;
    --respawns_;
    Process& process = open_process(false);
    if (!process.alive) return;
    note("new client %d in slot %u", process.number, process.identity.slot);
    start_threads(process);
}

void Simulation::begin_solo() {
    solo_at_ = ~0ull;
    Process& process = open_process(false);
    if (!process.alive) return;
    note("everybody stops; a new client runs alone");
    for (const auto& actor : machine_.actors()) {
        Machine::Outside outside(machine_, actor.get());
        machine_.drain(*actor);
        actor->frozen_until = ~0ull;
    }
    Worker& worker = new_worker(process);
    Actor& actor = machine_.add("alone", &process, {}, actor_seed());
    actor.body = [this, &process, &worker, &actor] { ClientActor(*this, process, worker, actor).alone(); };
    process.threads.push_back(&actor);
    solo_ = &actor;
    oracle_.count("everybody stopped but one");
}

// -- scheduling

bool Simulation::everybody_done() const {
    for (const auto& process : processes_)
        if (!process->daemon)
            for (const Actor* actor : process->threads)
                if (!actor->done && !actor->dead) return false;
    return true;
}

/// Lock step: everybody in turn, each for as many steps as it was given at its start. Who has placed its
/// entry for the first time waits until all have: from there on each can throw the others out.
Actor* Simulation::pick_in_turn(std::vector<Actor*>& can, const Actor* last) {
    const auto before_first = [](const Actor* actor) { return actor->placements == 0; };
    if (!met_ && std::none_of(can.begin(), can.end(), before_first)) met_ = true;
    if (!met_) std::erase_if(can, [&](const Actor* actor) { return !before_first(actor); });
    Actor* chosen = can[0];
    for (Actor* actor : can)
        if (last != nullptr && actor->number > last->number) {
            chosen = actor;
            break;
        }
    // The first turn of each is a part of one, so that they meet in every phase.
    const auto steps = static_cast<std::uint32_t>(chosen->priority);
    machine_.set_burst(!met_ ? 0 : !std::exchange(chosen->in_step, true) ? random_.below(steps) : steps - 1);
    return chosen;
}

Actor* Simulation::pick_by_mode(std::vector<Actor*>& can, Actor* last, bool last_can_run) {
    const auto count = static_cast<std::uint32_t>(can.size());
    Actor* chosen = can[random_.below(count)];
    std::uint32_t burst = 0;
    if (mode_ == 0) {
        static const std::uint32_t bursts[] = {0, 0, 0, 1, 4, 19, 60, 250};
        burst = bursts[random_.below(8)];
    } else if (mode_ == 2) {  // priorities that change now and then (Burckhardt et al. 2010)
        chosen = can[0];
        for (Actor* actor : can)
            if (actor->priority > chosen->priority) chosen = actor;
        if (random_.one_in(12)) {
            chosen->priority = static_cast<int>(random_.below(1000)) - static_cast<int>(change_++ % 7) * 100;
            if (random_.below(2) != 0) chosen = can[random_.below(count)];
        }
        if (chosen->process->daemon && random_.below(3) != 0) chosen = can[random_.below(count)];
        burst = random_.below(8);
    } else if (last_can_run && random_.one_in(3)) {
        chosen = last;
    }
    if (next_fault_ != ~0ull)
        burst = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(burst, next_fault_ > machine_.now() ? next_fault_ - machine_.now() : 0));
    machine_.set_burst(burst);
    return chosen;
}

Actor* Simulation::pick(Actor* last, bool last_can_run) {
    for (;;) {
        if (solo_ != nullptr) {
            if (!solo_->done) return solo_;
            for (const auto& actor : machine_.actors())
                actor->frozen_until = 0;
            solo_ = nullptr;
        }
        if (!finishing_) {
            if (machine_.now() >= next_fault_) strike();
            if (machine_.violated()) return nullptr;
            if (machine_.now() >= solo_at_) begin_solo();
            if (solo_ != nullptr) continue;
            respawn();
            for (const auto& process : processes_) {  // whoever has finished says goodbye
                if (process->daemon || !process->alive || process->threads.empty()) continue;
                bool done = true;
                for (const Actor* actor : process->threads)
                    done = done && actor->done;
                if (done) end_process(*process);
            }
            if (everybody_done()) finish();
        }
        std::vector<Actor*> can;
        bool any = false;
        for (const auto& actor : machine_.actors()) {
            any = any || (!actor->done && !actor->dead);
            if (actor->can_run(machine_.now())) can.push_back(actor.get());
        }
        if (!can.empty() && scenario_.turn.most > 0) return pick_in_turn(can, last);
        if (!can.empty()) return pick_by_mode(can, last, last_can_run && last->can_run(machine_.now()));
        if (!any) return nullptr;
        for (const auto& actor : machine_.actors())
            actor->frozen_until = 0;
    }
}

void Simulation::finish() {
    finishing_ = true;
    note("the last client has gone");
    for (const auto& actor : machine_.actors())
        actor->frozen_until = 0;
    for (const auto& process : processes_)
        if (process->alive && !process->daemon) end_process(*process);
}

Outcome Simulation::run(std::uint64_t seed) {
    set_up(seed);
    turn_ = scenario_.turn.pick(random_);
    met_ = false;
    for (std::uint32_t d = 0; d < scenario_.daemons; ++d)
        start_daemon();
    const std::uint32_t clients = scenario_.clients.pick(random_);
    for (std::uint32_t c = 0; c < clients; ++c)
        if (Process& process = open_process(false); process.alive) start_threads(process);
    mode_ = static_cast<int>(random_.below(3));
    respawns_ = random_.below(scenario_.respawns + 1);
    solo_at_ = scenario_.solo ? 20 + random_.below(random_.below(2) != 0 ? 600 : 4000) : ~0ull;
    faults_.clear();
    for (const auto& [kind, rate] :
         {std::pair{'k', scenario_.kill}, std::pair{'f', scenario_.freeze},
          std::pair{'d', scenario_.kill_daemon}, std::pair{'g', scenario_.gone},
          std::pair{'s', scenario_.kill_sweeping}, std::pair{'z', scenario_.freeze_sweeping}})
        if (rate > 0 && !random_.one_in(3)) faults_.emplace_back(kind, rate);
    std::uint32_t total = 0;
    for (const auto& [kind, rate] : faults_)
        total += rate;
    next_fault_ = next_event(total);
    machine_.run([this](Actor* last, bool last_can_run) { return pick(last, last_can_run); });
    return conclude();
}

/// The last daemon cleans up after everybody; then nothing may be left.
Outcome Simulation::conclude() {
    if (!machine_.violated()) {
        for (const auto& process : processes_)
            if (process->alive) end_process(*process);
        Process& last = open_process(true);
        if (last.alive) {
            Worker& worker = new_worker(last);
            Actor& actor = machine_.add("last", &last, {}, 7);
            actor.body = [this, &worker, &actor] { DaemonActor(*this, worker, actor).last_pass(); };
            last.threads.push_back(&actor);
            machine_.run_alone(actor);
            {
                Machine::Outside outside(machine_, nullptr);
                machine_.drain(actor);
            }
        } else {
            machine_.violate("no client slot is left for a last daemon");
        }
    }
    if (!machine_.violated()) {
        Machine::Outside outside(machine_, nullptr);
        oracle_.at_the_end();
    }
    Outcome outcome{!machine_.violated(), machine_.violation(), machine_.now()};
    machine_.end();
    steps_ += outcome.steps;
    return outcome;
}

}  // namespace maru::sim
