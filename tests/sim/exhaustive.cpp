// Every schedule of a small scenario with at most so many pre-emptions and kills.
#include <algorithm>

#include "simulation.hpp"

namespace maru::sim {

using namespace table;

namespace {

/// One decision of the search: the first option unless an earlier schedule says otherwise.
std::uint32_t decide(std::vector<Simulation::Decision>& decisions, std::size_t& at, std::uint32_t options) {
    if (options == 1) return 0;
    if (at == decisions.size()) decisions.push_back({0, options});
    Simulation::Decision& decision = decisions[at++];
    decision.options = options;
    return decision.chosen;
}

}  // namespace

bool Simulation::next(std::vector<Decision>& decisions) {
    while (!decisions.empty() && decisions.back().chosen + 1 >= decisions.back().options)
        decisions.pop_back();
    if (decisions.empty()) return false;
    ++decisions.back().chosen;
    return true;
}

void Simulation::add_script(Process& process, std::string name, const std::string& script) {
    Actor& actor = machine_.add(std::move(name), &process, {}, 1);
    actor.body = [this, &process, &actor, script] {
        if (!process.alive) connect(process);
        if (process.alive) ClientActor(*this, process, new_worker(process), actor).script(script);
    };
    process.threads.push_back(&actor);
}

/// The scripts' processes, and where somebody dies the daemons that sweep.
void Simulation::start_scripts() {
    std::vector<Process*> clients;
    bool deaths = scenario_.kills > 0;
    for (const std::string& text : scenario_.scripts) {
        const auto colon = text.find(':');
        const std::string who = text.substr(0, colon), script = text.substr(colon + 1);
        if (who == "new") {  // connects when it first runs
            processes_.push_back(std::make_unique<Process>());
            processes_.back()->alive = false;
            add_script(*processes_.back(), who, script);
            continue;
        }
        if (who[0] == 'd' || who[0] == 's') {  // a daemon with a script of its own, or a successor
            Process& daemon = open_process(true);
            daemon.succeeds = who[0] == 's';
            Worker& worker = new_worker(daemon);
            Actor& actor = machine_.add(who, &daemon, {}, 1);
            actor.body = [this, &worker, &actor, script] {
                DaemonActor(*this, worker, actor).script(script);
            };
            daemon.threads.push_back(&actor);
            continue;
        }
        const auto client = static_cast<std::size_t>(std::stoul(who));
        while (clients.size() <= client)
            clients.push_back(&open_process(false));
        add_script(*clients[client], "c" + who + "." + std::to_string(clients[client]->threads.size()),
                   script);
        deaths = deaths || script.find("die") != std::string::npos;
    }
    if (!deaths) return;
    for (std::uint32_t d = 0; d < scenario_.daemons; ++d) {
        Process& daemon = open_process(true);
        daemon.sweeps = true;
        Worker& worker = new_worker(daemon);
        Actor& actor = machine_.add("daemon" + std::to_string(d), &daemon, {}, 1);
        actor.body = [this, &worker, &actor] { DaemonActor(*this, worker, actor).sweep_until_the_end(); };
        daemon.threads.push_back(&actor);
    }
}

/// Does a daemon sweep, or would it find somebody to sweep?
bool Simulation::has_work(const Actor& daemon) const {
    if (std::string_view(daemon.operation) != "-") return true;
    for (const auto& process : processes_) {
        const std::uint64_t word = raw(&world_.control().client(process->identity.slot).state, 8);
        if (!process->alive && client_state::phase(word) == ClientPhase::dead) return true;
    }
    return false;
}

/// A successor begins when no daemon that it follows is at work any more.
bool Simulation::may_succeed() const {
    for (const auto& process : processes_)
        if (process->daemon && process->alive && !process->sweeps && !process->succeeds)
            for (const Actor* actor : process->threads)
                if (!actor->done) return false;
    return true;
}

Outcome Simulation::run_decided(std::vector<Decision>& decisions) {
    std::size_t at = 0;
    return run_scripts([&](std::uint32_t options, bool) { return decide(decisions, at, options); });
}

/// Pre-emptions at random steps, as many as the scenario allows: reaches deeper than an enumeration can
/// (after Burckhardt et al. 2010).
Outcome Simulation::run_sampled(std::uint64_t seed) {
    if (script_steps_ == 0) run_scripts([](std::uint32_t, bool) { return 0u; });  // how long it is
    Random random(seed);
    // Where somebody dies, sweeps come on top.
    const bool deaths = scenario_.kills > 0 || scenario_.daemons > 1;
    const auto length = static_cast<std::uint32_t>(script_steps_ + (deaths ? 300 * scenario_.daemons : 20));
    std::vector<std::uint64_t> turns;
    for (std::uint32_t i = 0; i < scenario_.preemptions + scenario_.kills; ++i)
        turns.push_back(random.below(length));
    std::sort(turns.begin(), turns.end());
    std::size_t next = 0;
    const Outcome outcome = run_scripts([&](std::uint32_t options, bool free) {
        const bool turn = next < turns.size() && machine_.now() >= turns[next];
        if (turn && !free) ++next;
        if (free) return random.below(options);
        return turn && options > 1 ? 1 + random.below(options - 1) : 0;
    });
    return outcome;
}

Outcome Simulation::run_scripts(
    const std::function<std::uint32_t(std::uint32_t options, bool free)>& choose) {
    set_up(1);
    start_scripts();
    std::uint32_t preemptions = 0, kills = 0;
    bool someone_died = false;
    machine_.run([&](Actor* last, bool last_can_run) -> Actor* {
        for (;;) {
            for (const auto& process : processes_)
                if (process->dies && process->alive) {
                    someone_died = true;
                    kill_process(*process);
                }
            std::vector<Actor*> can;
            bool clients = false;
            for (const auto& actor : machine_.actors()) {
                if (!actor->can_run(machine_.now())) continue;
                if (actor->process->succeeds && !may_succeed()) continue;
                if (actor->process->sweeps) {
                    if (has_work(*actor)) can.push_back(actor.get());
                } else {
                    can.push_back(actor.get());
                    clients = true;
                }
            }
            if (!clients || can.empty()) return nullptr;
            last_can_run = last != nullptr && last->can_run(machine_.now()) &&
                           (!last->process->sweeps || has_work(*last));
            std::vector<Actor*> options;
            if (last_can_run) options.push_back(last);
            if (!last_can_run || preemptions < scenario_.preemptions)
                for (Actor* actor : can)
                    if (actor != last) options.push_back(actor);
            const auto ways = static_cast<std::uint32_t>(options.size());
            const bool may_kill = last_can_run && kills < scenario_.kills && !last->process->sweeps;
            const std::uint32_t chosen = choose(ways + (may_kill ? 1 : 0), !last_can_run);
            if (chosen == ways) {
                ++kills;
                someone_died = true;
                kill_process(*last->process);
                continue;
            }
            if (last_can_run && options[chosen] != last) ++preemptions;
            machine_.set_burst(0);
            return options[chosen];
        }
    });
    if (script_steps_ == 0) script_steps_ = machine_.now();
    if (!machine_.violated() && someone_died) {  // whoever was left in the middle of a sweep ends it
        finishing_ = true;
        for (const auto& actor : machine_.actors())
            if (!actor->done && !actor->dead && actor->process->sweeps) machine_.run_alone(*actor);
    }
    return conclude();
}

}  // namespace maru::sim
