#include "table/clients.hpp"

namespace maru::table {
namespace {

/// Moves a client slot of this generation from one phase to another.
bool move(const Control& control, Identity identity, ClientPhase from, ClientPhase to) {
    if (identity.slot == 0 || identity.slot >= control.client_count()) return false;
    Word64& place = control.client(identity.slot).state;
    std::uint64_t expected = client_state::pack(from, identity.generation);
    if (from ==
        ClientPhase::connecting)  // with the host's number, which stays for as long as it is CONNECTING
        expected |= client_state::connecting(0, client_state::connecting_host(place.load(shm::acquire)));
    return place.compare_exchange(expected, client_state::pack(to, identity.generation));
}

void fill(ClientEntry& entry, const ClientFacts& facts, const Superblock& super) {
    // Relaxed: the entry is ours while CONNECTING; readers take what they see for information.
    entry.host.store(facts.host, shm::relaxed);
    entry.pid.store(facts.pid, shm::relaxed);
    entry.pid_namespace.store(facts.pid_namespace, shm::relaxed);
    entry.start_time.store(facts.start_time, shm::relaxed);
    entry.exec_stamp.store(facts.exec_stamp, shm::relaxed);
    entry.random.store(facts.random, shm::relaxed);
    entry.uid.store(facts.uid, shm::relaxed);
    entry.gid.store(facts.gid, shm::relaxed);
    entry.name_space.store(facts.name_space, shm::relaxed);
    entry.is_daemon.store(facts.is_daemon ? 1 : 0, shm::relaxed);
    entry.connected_tick.store(super.tick.load(shm::relaxed), shm::relaxed);
    // It will be told of the pools that are there now: of what left before it maps nothing.
    entry.pools_seen.store(super.pools_epoch.load(shm::acquire), shm::relaxed);
    entry.read_only.store(facts.read_only ? 1 : 0, shm::relaxed);
    entry.instance_id.set(facts.instance_id);
}

}  // namespace

Result<Identity> open_client(const Control& control, const ClientFacts& facts) {
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        ClientEntry& entry = control.client(slot);
        const std::uint64_t state = entry.state.load(shm::acquire);
        if (client_state::phase(state) != ClientPhase::free) continue;
        // Generation 0 would make a free slot's first owner look like nobody's.
        std::uint32_t generation = client_state::generation(state);
        if (generation == 0) generation = 1;
        if (!entry.state.compare_exchange(state, client_state::connecting(generation, facts.host))) continue;
        fill(entry, facts, control.super());
        return Identity{slot, generation};
    }
    return Error{Code::full,
                 "all " + std::to_string(control.client_count() - 1) +
                     " client slots are in use: raise control.max_clients and format the domain anew, "
                     "or disconnect a client"};
}

void set_read_only(const Control& control, Identity identity, bool read_only) {
    if (identity.slot == 0 || identity.slot >= control.client_count()) return;
    // Relaxed: nothing is ordered by it, a call under way may still end as it began.
    control.client(identity.slot).read_only.store(read_only ? 1 : 0, shm::relaxed);
}

bool take_back_connecting(const Control& control, Identity identity) {
    return move(control, identity, ClientPhase::connecting, ClientPhase::dead);
}

bool activate_client(const Control& control, Identity identity) {
    return move(control, identity, ClientPhase::connecting, ClientPhase::active);
}

bool quarantine_client(const Control& control, Identity identity) {
    return move(control, identity, ClientPhase::active, ClientPhase::quarantined);
}

bool declare_dead(const Control& control, Identity identity) {
    for (int round = 0; round < retire_rounds_max; ++round) {  // a client may activate itself meanwhile
        for (const ClientPhase from :
             {ClientPhase::active, ClientPhase::quarantined, ClientPhase::connecting})
            if (move(control, identity, from, ClientPhase::dead)) return true;
        if (identity.slot == 0 || identity.slot >= control.client_count()) return false;
        const std::uint64_t state = control.client(identity.slot).state.load(shm::acquire);
        if (state == client_state::pack(ClientPhase::dead, identity.generation)) return true;
        if (client_state::generation(state) != identity.generation) return false;
    }
    return false;
}

std::optional<ClientView> read_client(const Control& control, std::uint32_t slot) {
    if (slot == 0 || slot >= control.client_count()) return {};
    const ClientEntry& entry = control.client(slot);
    const std::uint64_t state = entry.state.load(shm::acquire);
    if (client_state::phase(state) == ClientPhase::free) return {};
    ClientView view;
    view.identity = {slot, client_state::generation(state)};
    view.phase = client_state::phase(state);
    view.facts.host = view.phase == ClientPhase::connecting ? client_state::connecting_host(state)
                                                            : entry.host.load(shm::relaxed);
    view.facts.pid = entry.pid.load(shm::relaxed);
    view.facts.pid_namespace = entry.pid_namespace.load(shm::relaxed);
    view.facts.start_time = entry.start_time.load(shm::relaxed);
    view.facts.exec_stamp = entry.exec_stamp.load(shm::relaxed);
    view.facts.random = entry.random.load(shm::relaxed);
    view.facts.uid = entry.uid.load(shm::relaxed);
    view.facts.gid = entry.gid.load(shm::relaxed);
    view.facts.name_space = entry.name_space.load(shm::relaxed);
    view.facts.is_daemon = entry.is_daemon.load(shm::relaxed) != 0;
    view.facts.read_only = entry.read_only.load(shm::relaxed) != 0;
    view.facts.instance_id = entry.instance_id.get();
    view.connected_tick = entry.connected_tick.load(shm::relaxed);
    return view;
}

namespace {
void add(Counts& sum, const CounterLine& line) {
    for (int c = 0; c < counter_count; ++c)
        sum.of[c] += line.counts[c].load(shm::relaxed);
    sum.of[static_cast<int>(Counter::lookups)] +=
        line.counts[static_cast<int>(Counter::hits)].load(shm::relaxed);
}
}  // namespace

Counts count_client(const Control& control, Identity identity) {
    Counts sum;
    add(sum, control.client_stats(identity.slot));
    const std::uint64_t mark = control.super().pin_high_water.load(shm::relaxed);
    for (std::uint32_t c = 0; c < control.chunk_count() && c < mark; ++c)
        if (control.chunk(c).owner.load(shm::relaxed) == identity.holder_word())
            add(sum, control.chunk(c).counters);
    return sum;
}

std::vector<Counts> count_each(const Control& control) {
    std::vector<Counts> counts(control.client_count());
    std::vector<std::uint64_t> holders(control.client_count());
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        // Acquire: pairs with who changes the slot's phase.
        const std::uint64_t state = control.client(slot).state.load(shm::acquire);
        if (client_state::phase(state) == ClientPhase::free) continue;
        holders[slot] = Identity{slot, client_state::generation(state)}.holder_word();
        add(counts[slot], control.client_stats(slot));
    }
    const std::uint64_t mark = control.super().pin_high_water.load(shm::relaxed);
    for (std::uint32_t c = 0; c < control.chunk_count() && c < mark; ++c) {
        const std::uint64_t owner = control.chunk(c).owner.load(shm::relaxed);
        const std::uint32_t slot = holder::slot(owner);
        if (owner != 0 && slot < holders.size() && holders[slot] == owner)
            add(counts[slot], control.chunk(c).counters);
    }
    return counts;
}

namespace {
Counts count_clients(const Control& control) {
    Counts sum;
    add(sum, control.client_stats(0));  // of all clients that have left
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot)
        add(sum, control.client_stats(slot));
    const std::uint64_t mark = control.super().pin_high_water.load(shm::relaxed);
    for (std::uint32_t c = 0; c < control.chunk_count() && c < mark; ++c)
        add(sum, control.chunk(c).counters);
    return sum;
}
}  // namespace

Counts count_all(const Control& control) {
    Counts sum = count_clients(control);
    for (int reason = 1; reason < evict_reasons; ++reason)
        sum.of[static_cast<int>(Counter::evictions)] += control.super().evicted[reason].load(shm::relaxed);
    return sum;
}

std::array<std::uint64_t, evict_reasons> count_evictions(const Control& control) {
    std::array<std::uint64_t, evict_reasons> counts{};
    counts[0] = count_clients(control).of[static_cast<int>(Counter::evictions)];
    for (std::size_t reason = 1; reason < counts.size(); ++reason)
        counts[reason] = control.super().evicted[reason].load(shm::relaxed);
    return counts;
}

}  // namespace maru::table
