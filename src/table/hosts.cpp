#include "table/hosts.hpp"

#include <algorithm>

namespace maru::table {
namespace {

HostFacts facts_of(const HostEntry& entry) {
    HostFacts facts;
    for (int h = 0; h < 2; ++h) {
        facts.id[h] = entry.host_id[h].load(shm::relaxed);
        facts.boot[h] = entry.boot_id[h].load(shm::relaxed);
    }
    facts.name = entry.name.get();
    return facts;
}

/// The entry is ours: JOINING or ACTIVE in our generation.
void fill(HostEntry& entry, const HostFacts& facts) {
    for (int h = 0; h < 2; ++h) {
        entry.host_id[h].store(facts.id[h], shm::relaxed);
        entry.boot_id[h].store(facts.boot[h], shm::relaxed);
    }
    entry.name.set(std::string_view(facts.name).substr(0, host_name_max));
    entry.beat.fetch_add(1, shm::relaxed);  // whoever watched the former host starts anew
}

bool move(const Control& control, const HostView& host, HostPhase from, HostPhase to) {
    if (host.number >= control.host_count()) return false;
    return control.host(host.number)
        .state.compare_exchange(host_state::pack(from, host.generation),
                                host_state::pack(to, host.generation));
}

template <class Visit>
void each_client_of(const Control& control, std::uint32_t host, Visit&& visit) {
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot)
        if (const auto view = read_client(control, slot); view && view->facts.host == host) visit(*view);
}

}  // namespace

std::optional<HostView> read_host(const Control& control, std::uint32_t number) {
    if (number >= control.host_count()) return {};
    const HostEntry& entry = control.host(number);
    const std::uint64_t state = entry.state.load(shm::acquire);  // pairs with what follows a fill
    if (host_state::phase(state) == HostPhase::free) return {};
    return HostView{number, host_state::phase(state), host_state::generation(state),
                    entry.beat.load(shm::relaxed), facts_of(entry)};
}

std::optional<HostView> find_host(const Control& control, const HostFacts& facts) {
    for (std::uint32_t number = 0; number < control.host_count(); ++number) {
        auto view = read_host(control, number);
        if (view && view->phase != HostPhase::joining && view->facts.same_id(facts)) return view;
    }
    return {};
}

Result<HostView> join_host(const Control& control, const HostFacts& facts) {
    for (std::uint32_t number = 0; number < control.host_count(); ++number) {
        HostEntry& entry = control.host(number);
        const std::uint64_t state = entry.state.load(shm::acquire);
        if (host_state::phase(state) != HostPhase::free) continue;
        const std::uint32_t generation = host_state::generation(state) + 1;
        if (!entry.state.compare_exchange(state, host_state::pack(HostPhase::joining, generation))) continue;
        fill(entry, facts);
        HostView view{number, HostPhase::active, generation, entry.beat.load(shm::relaxed), facts};
        if (!move(control, view, HostPhase::joining, HostPhase::active)) continue;
        return view;
    }
    return Error{Code::full, "all " + std::to_string(control.host_count()) +
                                 " host entries of the domain are taken: give one back that will not return "
                                 "(maructl hosts, maructl host release), or raise control.max_hosts and "
                                 "format the domain anew"};
}

Result<HostView> take_over_host(const Control& control, const HostView& was, const HostFacts& facts) {
    HostView now{was.number, HostPhase::active, was.generation + 1, was.beat, facts};
    HostEntry& entry = control.host(was.number);
    if (!entry.state.compare_exchange(host_state::pack(was.phase, was.generation),
                                      host_state::pack(HostPhase::active, now.generation)))
        return Error{Code::contended, "host entry " + std::to_string(was.number) +
                                          " changed while this daemon took it over: start it again"};
    fill(entry, facts);
    now.beat = entry.beat.load(shm::relaxed);
    return now;
}

bool is_active(const Control& control, const HostView& host) {
    return host.number < control.host_count() && control.host(host.number).state.load(shm::acquire) ==
                                                     host_state::pack(HostPhase::active, host.generation);
}

void beat(const Control& control, const HostView& host) {
    control.host(host.number).beat.fetch_add(1, shm::relaxed);  // only compared with what it was
}

bool fence_host(const Control& control, const HostView& silent) {
    if (silent.phase == HostPhase::joining) return move(control, silent, HostPhase::joining, HostPhase::free);
    return move(control, silent, HostPhase::active, HostPhase::fenced);
}

bool leave_host(const Control& control, const HostView& host) {
    return move(control, host, HostPhase::active, HostPhase::left);
}

bool free_host(const Control& control, const HostView& host) {
    return move(control, host, HostPhase::fenced, HostPhase::free) ||
           move(control, host, HostPhase::left, HostPhase::free);
}

SweepReport quarantine_clients_of(Worker& sweeper, std::uint32_t host) {
    SweepReport report;
    each_client_of(sweeper.control(), host, [&](const ClientView& client) {
        if (client.phase == ClientPhase::connecting &&
            take_back_connecting(sweeper.control(), client.identity))
            report.add(sweep_dead(sweeper, client.identity));
        else if (client.phase == ClientPhase::active || client.phase == ClientPhase::connecting)
            report.add(sweep_gone(sweeper, client.identity));
    });
    return report;
}

std::size_t sweep_clients_of(Worker& sweeper, std::uint32_t host, SweepReport* report) {
    std::size_t swept = 0;
    each_client_of(sweeper.control(), host, [&](const ClientView& client) {
        (void)declare_dead(sweeper.control(), client.identity);  // false: it was DEAD already
        report->add(sweep_dead(sweeper, client.identity));
        ++swept;
    });
    return swept;
}

}  // namespace maru::table
