#include <sstream>

#include "simulation.hpp"
#include "table/regions.hpp"

namespace maru::sim {

using namespace table;

void DaemonActor::begin(const char* name) {
    actor_.operation = name;
    actor_.key = -1;
    actor_.operation_began = sim_.machine_.now();
    actor_.operation_steps = 0;
}

/// Sweeps every client slot that is DEAD; true when there was one.
bool DaemonActor::sweep() {
    const Control& c = worker_.control();
    bool found = false;
    for (std::uint32_t slot = 1; slot < c.client_count(); ++slot) {
        begin("sweep");
        const std::uint64_t word = c.client(slot).state.load(shm::acquire);
        if (client_state::phase(word) != ClientPhase::dead) continue;
        sweep_dead(worker_, {slot, client_state::generation(word)});
        found = true;
    }
    return found;
}

/// Regions that clients have asked for.
void DaemonActor::claims() {
    for (std::size_t p = 0; p < sim_.processes_.size(); ++p) {
        Process& client = *sim_.processes_[p];
        if (client.wants_region == 0 || !client.alive || client.daemon || client.gone) continue;
        begin("claim");
        const std::uint32_t name_space = std::exchange(client.wants_region, 0) - 1;
        auto region = claim_region(worker_, sim_.world_.page_class(name_space), client.identity.holder_word(),
                                   random_.below(2) != 0, nullptr);
        if (region && client.alive) client.regions.push_back(region->number);
        // Who died while its region was formed leaves it to the daemon, as a daemon that answers a closed
        // connection does.
        if (region && (!client.alive || client.gone)) {
            begin("release region");
            release_region(worker_, region->number, client.identity.holder_word());
        }
    }
}

void DaemonActor::duty(const std::string& name) {
    const Control& c = worker_.control();
    if (name == "evict") {
        begin("evict");
        worker_.evict(sim_.world_.page_class(0), 1 + random_.below(2));
    } else if (name == "epoch") {
        begin("move epoch");
        advance_epoch(c);
    } else if (name == "slice") {
        begin("sweep records");
        SweepReport report;
        from_ = sweep_records(worker_, from_, 1 + random_.below(64), owner_is_dead, &report);
    } else if (name == "expire") {
        begin("expire pins");
        ++sim_.oracle_.expiry_pass;
        expiry_->pass(sim_.oracle_.expiry_pass, Oracle::expiry_after, nullptr);
    } else if (name == "recover") {
        begin("recover regions");
        recover_regions(worker_, owner_is_dead);
    } else if (name == "dissolve") {
        begin("dissolve");
        dissolve_region(worker_, random_.below(c.region_count() / 4), random_.below(2) != 0);
    } else if (name == "release") {
        begin("release region");
        const std::uint32_t region = random_.below(c.region_count() / 4);
        release_region(worker_, region, c.region(region).holder.load(shm::relaxed));
    } else if (name == "claim") {
        begin("claim");
        const std::uint32_t name_space = random_.below(sim_.scenario_.namespaces);
        auto region = claim_region(worker_, sim_.world_.page_class(name_space),
                                   worker_.identity().holder_word(), random_.below(2) != 0, nullptr);
        if (region) {
            begin("release region");
            release_region(worker_, region->number, worker_.identity().holder_word());
        }
    } else if (name == "flush") {
        begin("flush");
        c.name_space(0).epoch.fetch_add(1, shm::seq_cst);
    } else if (name == "pool_add") {
        add_pool(true, random_.below(100));
    } else if (name == "pool_drain") {
        if (const auto number = pick_pool(PoolState::active); number && *number != 0) drain_pool(*number);
    } else if (name == "pool_pass") {
        begin("drain on");
        drain_pools(false);
    } else if (name == "pool_cancel") {
        if (const auto number = pick_pool(PoolState::draining)) {
            begin("cancel drain");
            if (cancel_drain(worker_, *number)) sim_.oracle_.count("drain cancelled");
        }
    } else if (name == "pool_remove") {
        if (const auto number = pick_pool(PoolState::draining)) remove_pool(*number);
    } else if (name == "retry") {
        begin("retry");
        worker_.retry_retired();
    }
}

void DaemonActor::serve() {
    expiry_ = std::make_unique<KeyPinExpiry>(worker_.control());
    begin("take over");
    sweep();
    begin("recover regions");
    recover_regions(worker_, owner_is_dead);
    if (sim_.scenario_.grow.most > 0) take_over_pools();
    std::uint32_t total = 0;
    for (const auto& [name, weight] : sim_.scenario_.duties)
        total += weight;
    while (!sim_.finishing_) {
        sweep();
        claims();
        std::uint32_t at = random_.below(total);
        for (const auto& [name, weight] : sim_.scenario_.duties) {
            if (at >= weight) {
                at -= weight;
                continue;
            }
            duty(name);
            break;
        }
        begin("-");
        sim_.machine_.step();
    }
}

/// Of an exhaustive search: "dissolve REGION, recover 0, form 0, claim_for 0" (for the client), and of pools
/// "take_over 0, add_pool 0, drain_pool NUMBER, remove_pool NUMBER".
void DaemonActor::script(const std::string& text) {
    std::istringstream words(text);
    for (std::string name; words >> name;) {
        std::uint32_t number = 0;
        words >> number;
        if (name == "dissolve") {
            begin("dissolve");
            dissolve_region(worker_, number, false);
        } else if (name == "form") {  // a region that nobody holds
            begin("claim");
            (void)claim_region(worker_, sim_.world_.page_class(0), 0, false, nullptr);
        } else if (name == "claim_for") {
            for (const auto& process : sim_.processes_)
                if (!process->daemon && process->alive) process->wants_region = 1;
            claims();
        } else if (name == "take_over") {
            take_over_pools();
        } else if (name == "add_pool") {
            add_pool(false, 1);
        } else if (name == "drain_pool") {
            drain_pool(number);
        } else if (name == "remove_pool") {
            remove_pool(number);
        } else {
            duty(name);
        }
        words >> std::ws;
        if (words.peek() == ',') words.get();
    }
    begin("-");
}

void DaemonActor::sweep_until_the_end() {
    while (!sim_.finishing_) {
        sweep();
        begin("-");
        sim_.machine_.step();
    }
}

/// A flush leaves nothing to be found, and eviction gets every page back.
void DaemonActor::flush_and_evict() {
    duty("flush");
    for (std::uint32_t key = 0; key < sim_.key_count_; ++key) {
        begin("exists");
        if (worker_.exists(sim_.world_.key(key))) sim_.oracle_.present(actor_, key, "exists");
    }
    for (int lap = 0; lap < 3; ++lap) {
        begin("evict");
        worker_.evict(sim_.world_.page_class(0), records_per_granule);
    }
    sim_.oracle_.all_flushed_evicted();
}

/// What a daemon does when the last client has gone: nothing may be left after it.
void DaemonActor::last_pass() {
    while (sweep()) {
    }
    sim_.oracle_.after_sweeps();
    begin("recover regions");
    recover_regions(worker_, owner_is_dead);
    for (int round = 0; round < 2; ++round) {
        begin("sweep records");
        SweepReport report;
        for (std::uint32_t from = sweep_records(worker_, 0, 64, owner_is_dead, &report); from != 0;)
            from = sweep_records(worker_, from, 64, owner_is_dead, &report);
    }
    for (const auto& [name, weight] : sim_.scenario_.duties)
        if (name == "flush") flush_and_evict();
    if (sim_.scenario_.grow.most > 0) pools_at_the_end();
    begin("give back");
    worker_.pins().give_back();
}

}  // namespace maru::sim
