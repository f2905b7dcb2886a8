// Every schedule of a small scenario with at most so many pre-emptions and kills.
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

/// The scripts' processes, and with kills a daemon that sweeps.
void Simulation::start_scripts() {
    std::vector<Process*> clients;
    for (const std::string& text : scenario_.scripts) {
        const auto colon = text.find(':');
        const auto client = static_cast<std::size_t>(std::stoul(text.substr(0, colon)));
        while (clients.size() <= client)
            clients.push_back(&open_process(false));
        Process& process = *clients[client];
        Worker& worker = new_worker(process);
        Actor& actor = machine_.add(
            "c" + std::to_string(client) + "." + std::to_string(process.threads.size()), &process, {}, 1);
        const std::string script = text.substr(colon + 1);
        actor.body = [this, &process, &worker, &actor, script] {
            ClientActor(*this, process, worker, actor).script(script);
        };
        process.threads.push_back(&actor);
    }
    if (scenario_.kills == 0) return;
    Process& daemon = open_process(true);
    Worker& worker = new_worker(daemon);
    Actor& actor = machine_.add("daemon", &daemon, {}, 1);
    actor.body = [this, &daemon, &worker, &actor] {
        DaemonActor(*this, daemon, worker, actor).sweep_until_the_end();
    };
    daemon.threads.push_back(&actor);
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

Outcome Simulation::run_decided(std::vector<Decision>& decisions) {
    set_up(1);
    start_scripts();
    std::size_t at = 0;
    std::uint32_t preemptions = 0, kills = 0;
    bool someone_died = false;
    machine_.run([&](Actor* last, bool last_can_run) -> Actor* {
        for (;;) {
            std::vector<Actor*> can;
            bool clients = false;
            for (const auto& actor : machine_.actors()) {
                if (!actor->can_run(machine_.now())) continue;
                if (actor->process->daemon) {
                    if (has_work(*actor)) can.push_back(actor.get());
                } else {
                    can.push_back(actor.get());
                    clients = true;
                }
            }
            if (!clients || can.empty()) return nullptr;
            last_can_run = last != nullptr && last->can_run(machine_.now()) &&
                           (!last->process->daemon || has_work(*last));
            std::vector<Actor*> options;
            if (last_can_run) options.push_back(last);
            if (!last_can_run || preemptions < scenario_.preemptions)
                for (Actor* actor : can)
                    if (actor != last) options.push_back(actor);
            const auto ways = static_cast<std::uint32_t>(options.size());
            const bool may_kill = last_can_run && kills < scenario_.kills && !last->process->daemon;
            const std::uint32_t chosen = decide(decisions, at, ways + (may_kill ? 1 : 0));
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
    if (!machine_.violated() && someone_died) {  // whoever was left in the middle of a sweep ends it
        finishing_ = true;
        for (const auto& actor : machine_.actors())
            if (!actor->done && !actor->dead && actor->process->daemon) machine_.run_alone(*actor);
    }
    return conclude();
}

}  // namespace maru::sim
