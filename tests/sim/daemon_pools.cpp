// A daemon that adds, drains and removes pools, in the order of src/daemon/pools.cpp.
#include "simulation.hpp"
#include "table/pools.hpp"

namespace maru::sim {

using namespace table;

namespace {

constexpr std::chrono::hours no_limit{1};  // a pass ends by its work alone: a seed is a schedule

}  // namespace

void DaemonActor::tell() {
    sim_.tell_clients(process_.opened);
}

/// At its start, before it serves: what its predecessor left, then its clients come back.
void DaemonActor::take_over_pools() {
    begin("take over pools");
    table::take_over_pools(worker_, [](const PoolView&) {});
    for (std::uint32_t p = 0; p < worker_.control().pool_count(); ++p)
        if (const auto pool = read_pool(worker_.control(), p); pool && is_live(pool->state))
            process_.opened.push_back(pool->uuid);
    process_.serves = true;
    sim_.tell_clients({});
}

std::optional<std::uint32_t> DaemonActor::pick_pool(PoolState state) {
    std::vector<std::uint32_t> can;
    for (std::uint32_t p = 0; p < worker_.control().pool_count(); ++p)
        if (const auto pool = read_pool(worker_.control(), p); pool && pool->state == state) can.push_back(p);
    if (can.empty()) return {};
    return can[random_.below(static_cast<std::uint32_t>(can.size()))];
}

void DaemonActor::add_pool(bool may_fail, std::uint32_t wait) {
    const Control& c = worker_.control();
    const auto uuid = sim_.world_.next_pool();
    if (!uuid) return;
    begin("add pool");
    NewPool pool;
    pool.uuid = *uuid;
    pool.name = "more";
    pool.bytes = sim_.scenario_.grow.pick(random_) * c.region_unit();
    const auto number = join_pool(c, pool);
    if (!number) return;
    sim_.world_.pool_had();
    if (may_fail && random_.one_in(6)) return undo_join(c, *number);  // its memory cannot be made
    process_.opened.push_back(*uuid);
    tell();
    for (; wait > 0; --wait)  // clients read it meanwhile
        sim_.machine_.step();
    if (activate_pool(c, *number)) sim_.oracle_.count("pool added");
}

void DaemonActor::drain_pool(std::uint32_t number) {
    begin("drain pool");
    begin_drain(worker_, number);
}

void DaemonActor::drain_pools(bool evict) {
    for (std::uint32_t p = 1; p < worker_.control().pool_count(); ++p)
        drain_pass(worker_, p, 0, evict, deadline_after(no_limit));
}

void DaemonActor::remove_pool(std::uint32_t number) {
    const Control& c = worker_.control();
    begin("remove pool");
    drain_pass(worker_, number, 0, true, deadline_after(no_limit));
    if (!leave_pool(c, number, "file")) return sim_.oracle_.count("pool could not be removed yet");
    std::erase(process_.opened, read_pool(c, number)->uuid);
    finish_leaving(c, number);
    tell();
    sim_.oracle_.count("pool removed");
}

/// Nobody uses anything: every drain comes to its end, and what left is free again.
void DaemonActor::pools_at_the_end() {
    const Control& c = worker_.control();
    begin("take over pools");
    table::take_over_pools(worker_, [](const PoolView&) {});
    for (std::uint32_t p = 1; p < c.pool_count(); ++p) {
        begin("remove pool");
        if (const auto pool = read_pool(c, p); pool && pool->state == PoolState::draining) {
            drain_pass(worker_, p, 0, true, deadline_after(no_limit));
            if (leave_pool(c, p, ""))
                finish_leaving(c, p);
            else
                sim_.machine_.violate("pool " + std::to_string(p) +
                                      " cannot be removed although nobody uses it");
        }
        const auto pool = read_pool(c, p);
        if (!pool || pool->state == PoolState::active) continue;
        if (pool->state != PoolState::removed)
            sim_.machine_.violate("pool " + std::to_string(p) + " is " + name_of(pool->state) +
                                  " after the last daemon has taken over");
        else if (!slots_behind(c, c.pool(p).left_epoch.load(shm::relaxed)).empty())
            sim_.machine_.violate("the units of removed pool " + std::to_string(p) +
                                  " are kept for somebody who is not there");
    }
}

}  // namespace maru::sim
