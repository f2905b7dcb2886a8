#include "daemon/reaper.hpp"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/life.hpp"

namespace maru::daemon {
namespace {

// The kernel closes a dying process's connection a moment before its pidfd becomes readable: within this span
// the end of a connection says nothing yet.
constexpr std::chrono::milliseconds linger_span{100};
constexpr std::uint32_t records_per_slice = 16 * 1024;
constexpr std::chrono::milliseconds slice_pause{1};

std::string name_of_client(const table::Control& control, table::Identity identity) {
    const auto view = table::read_client(control, identity.slot);
    std::string text = "client slot " + std::to_string(identity.slot);
    if (view) text += " ('" + view->facts.instance_id + "', process " + std::to_string(view->facts.pid) + ")";
    return text;
}

std::string summary(const table::SweepReport& report) {
    std::string text;
    const auto add = [&](std::uint64_t count, const char* what) {
        if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
    };
    add(report.reserved, "reserved");
    add(report.publishing_tentative, "publishing (tentative)");
    add(report.publishing_final, "publishing (final)");
    add(report.retiring, "retiring");
    add(report.retired, "retired");
    add(report.leases, "leases");
    add(report.key_pins, "key pins");
    add(report.chunks, "pin chunks");
    add(report.overflow_claims, "overflow claims");
    add(report.regions, "regions");
    return text.empty() ? "nothing held" : text;
}

}  // namespace

Reaper::Reaper(Loop& loop, table::Worker& worker, const LockFile& lock, DaemonFacts& facts)
    : loop_(loop), worker_(worker), control_(worker.control()), lock_(lock), facts_(facts) {}

Reaper::~Reaper() {
    loop_.cancel(slicing_);
    while (!watched_.empty())
        forget(watched_.begin()->first);
}

void Reaper::take_over(bool rebooted) {
    std::vector<table::ClientView> found;
    for (std::uint32_t slot = 1; slot < control_.client_count(); ++slot) {
        if (slot == worker_.identity().slot) continue;
        // Another host's clients are that host's daemon's to judge; their processes cannot be seen from here.
        if (auto view = table::read_client(control_, slot); view && view->facts.host == facts_.host)
            found.push_back(std::move(*view));
    }
    for (const auto& view : found)
        take_over_slot(view, rebooted);
    table::recover_regions(worker_, table::owner_is_dead);
    sweep_slice(0);
}

void Reaper::take_over_slot(const table::ClientView& view, bool rebooted) {
    // Whoever served on this host before is dead: this daemon holds the lock.
    if (view.facts.is_daemon) return dead(view.identity, "an earlier daemon");
    if (view.phase == table::ClientPhase::dead) return dead(view.identity, "its sweep was not finished");
    if (rebooted) return dead(view.identity, "the machine was restarted");
    // Its connection ended with the daemon that gave the slot; without the lock it never got its welcome.
    const bool locked = lock_.held(view.identity.slot);
    if (!locked && table::take_back_connecting(control_, view.identity))
        return dead(view.identity, "it never began to work");
    const Life life = life_of(lock_, view);
    if (life == Life::dead)
        return dead(view.identity, runs_another_program(lock_, view) ? "its process runs another program"
                                                                     : "its process has ended");
    Watched watched;
    watched.identity = view.identity;
    const bool visible = view.facts.pid != 0 && view.facts.pid_namespace == own_pid_namespace();
    if (visible) watched.pidfd = open_process(view.facts.pid);
    // The number may belong to another process by now.
    if (watched.pidfd && start_time_of(view.facts.pid) != view.facts.start_time) watched.pidfd.reset();
    Watched& kept = watched_.insert_or_assign(view.identity.slot, std::move(watched)).first->second;
    // A client holds its lock as long as it is one: who runs without it, in a file that is not younger than
    // he, is no client any more, but nothing proves that nobody uses his memory.
    if (life == Life::unknown && !lock_.is_new())
        gone(kept);
    else
        spdlog::info("{} lives and may resume", name_of_client(control_, view.identity));
    watch(kept);
}

void Reaper::watch(Watched& watched) {
    if (!watched.pidfd || watched.polling != 0) return;
    const std::uint32_t slot = watched.identity.slot;
    watched.polling = loop_.when_readable(watched.pidfd.get(), [this, slot] {
        const auto found = watched_.find(slot);
        if (found == watched_.end()) return;
        Watched& seen = found->second;
        seen.polling = 0;
        // A watch that the kernel had no memory for completes too: only the pidfd itself is proof.
        if (has_ended(seen.pidfd.get())) return dead(seen.identity, "its process has ended");
        seen.polling = loop_.after(linger_span, [this, slot] {
            const auto later = watched_.find(slot);
            if (later == watched_.end()) return;
            later->second.polling = 0;
            watch(later->second);
        });
    });
}

void Reaper::connected(table::Identity identity, Descriptor pidfd) {
    Watched& watched = watched_[identity.slot];
    watched.identity = identity;
    watched.is_connected = true;
    loop_.cancel(std::exchange(watched.lingering, 0));
    if (pidfd && !watched.pidfd) watched.pidfd = std::move(pidfd);
    watch(watched);
}

void Reaper::disconnected(table::Identity identity) {
    const auto found = watched_.find(identity.slot);
    if (found == watched_.end() || found->second.identity.generation != identity.generation) return;
    Watched& watched = found->second;
    watched.is_connected = false;
    if (watched.pidfd && has_ended(watched.pidfd.get())) return dead(identity, "its process has ended");
    linger(watched);
}

Result<void> Reaper::disconnect(table::Identity identity, bool kill) {
    const auto found = watched_.find(identity.slot);
    if (found == watched_.end() || found->second.identity.generation != identity.generation) return {};
    Watched& watched = found->second;
    watched.is_connected = false;
    loop_.cancel(std::exchange(watched.lingering, 0));
    if (table::take_back_connecting(control_, identity)) {
        dead(identity, "it was disconnected before it began to work");
        return {};
    }
    gone(watched);
    if (!kill) return {};
    const std::string name = name_of_client(control_, identity);
    if (!watched.pidfd)
        return Error{Code::unavailable,
                     name +
                         " is fenced, but its process cannot be seen from here, so that it "
                         "was not killed: end it where it runs"};
    if (!kill_process(watched.pidfd.get()))
        return Error{
            errno == EPERM ? Code::denied : Code::unavailable,
            name + " is fenced, but was not killed: " + std::strerror(errno) + "; kill it as its user"};
    return {};
}

void Reaper::linger(Watched& watched) {
    const std::uint32_t slot = watched.identity.slot;
    loop_.cancel(watched.lingering);
    watched.lingering = loop_.after(linger_span, [this, slot] { judge(slot); });
}

void Reaper::judge(std::uint32_t slot) {
    const auto found = watched_.find(slot);
    if (found == watched_.end()) return;
    Watched& watched = found->second;
    watched.lingering = 0;
    const bool unlocked = !watched.pidfd && !lock_.held(slot);
    if (watched.pidfd ? has_ended(watched.pidfd.get()) : unlocked)
        return dead(watched.identity, unlocked ? "its lock is free" : "its process has ended");
    if (said_goodbye(watched.identity)) return dead(watched.identity, "it ended while nobody listened");
    if (table::take_back_connecting(control_, watched.identity))
        return dead(watched.identity, "it never began to work");
    gone(watched);
}

bool Reaper::said_goodbye(table::Identity identity) const {
    // Acquire: what the client did before it gave itself up happened before its sweep.
    const std::uint64_t state = control_.client(identity.slot).state.load(shm::acquire);
    return table::client_state::phase(state) == table::ClientPhase::dead &&
           table::client_state::generation(state) == identity.generation;
}

template <class Sweep>
table::SweepReport Reaper::timed(Sweep sweep) {
    const auto began = MonotonicClock::now();
    const auto report = sweep();
    facts_.measures.sweep_seconds.add(MonotonicClock::now() - began);
    facts_.swept.add(report);
    return report;
}

void Reaper::gone(const Watched& watched) {
    const auto report = timed([&] { return table::sweep_gone(worker_, watched.identity); });
    ++facts_.sweeps_gone;
    spdlog::warn("{} left without a goodbye and its process still runs: fenced until that ends; {}",
                 name_of_client(control_, watched.identity), summary(report));
}

void Reaper::dead(table::Identity identity, const char* proof) {
    const std::string name = name_of_client(control_, identity);
    forget(identity.slot);
    if (on_dead) on_dead(identity);
    (void)table::declare_dead(control_, identity);  // false: it was DEAD already
    if (facts_.leaving) facts_.leaving(identity);
    const auto report = timed([&] { return table::sweep_dead(worker_, identity); });
    ++facts_.sweeps_dead;
    spdlog::info("{} is dead, {}: {}", name, proof, summary(report));
}

void Reaper::goodbye(table::Identity identity) {
    forget(identity.slot);
    (void)table::declare_dead(control_, identity);
    if (facts_.leaving) facts_.leaving(identity);
    timed([&] { return table::sweep_dead(worker_, identity); });
    ++facts_.measures.goodbyes;
}

void Reaper::forget(std::uint32_t slot) {
    const auto found = watched_.find(slot);
    if (found == watched_.end()) return;
    loop_.cancel(found->second.polling);
    loop_.cancel(found->second.lingering);
    watched_.erase(found);
}

void Reaper::fence_all() {
    for (const auto& [slot, watched] : watched_)
        gone(watched);
}

void Reaper::look_at_locks() {
    std::vector<std::pair<table::Identity, const char*>> found;
    for (const auto& [slot, watched] : watched_) {
        if (watched.is_connected || watched.lingering != 0) continue;
        if (said_goodbye(watched.identity))
            found.emplace_back(watched.identity, "it ended while nobody listened");
        else if (!watched.pidfd && !lock_.is_new() && !lock_.held(slot))
            found.emplace_back(watched.identity, "its lock is free");
        else if (const auto view = table::read_client(control_, slot);
                 view && runs_another_program(lock_, *view))
            found.emplace_back(watched.identity, "its process runs another program");
    }
    for (const auto& [identity, proof] : found)
        dead(identity, proof);
}

void Reaper::sweep_slice(std::uint32_t from) {
    slicing_ = 0;
    const std::uint32_t next =
        table::sweep_records(worker_, from, records_per_slice, table::owner_is_dead, &facts_.swept);
    if (next == 0) {
        facts_.first_sweep_done = true;
        spdlog::debug("the full pass over {} records is complete", control_.record_count());
        return;
    }
    slicing_ = loop_.after(slice_pause, [this, next] { sweep_slice(next); });
}

}  // namespace maru::daemon
