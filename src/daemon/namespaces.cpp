#include "daemon/namespaces.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/fault_point.hpp"
#include "base/size.hpp"
#include "table/clients.hpp"
#include "table/regions.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds flush_slice{5}, flush_at_once{0}, flush_retry_pause{1000};
constexpr std::uint32_t flush_step_records = 512;

std::string quota_text(std::uint64_t quota) {
    return quota == 0 ? "no quota" : "a quota of " + format_size(quota);
}

/// Takes apart what is empty and held by nobody, so that others get it.
void give_empty_regions_back(table::Worker& worker, std::uint32_t id) {
    const auto& control = worker.control();
    for (std::uint32_t number = 0; number < control.region_count(); ++number) {
        const auto view = table::read_region(control, number);
        if (!view || view->name_space != id || view->holder != 0 || view->phase != table::RegionPhase::held)
            continue;
        const auto pages = table::count_pages(control, *view);
        const auto of = [&](table::Phase phase) { return pages.of[static_cast<int>(phase)]; };
        if (of(table::Phase::free) + of(table::Phase::sealed) + of(table::Phase::retired) == view->page_count)
            table::dissolve_region(worker, number, false);
    }
}

}  // namespace

Namespaces::~Namespaces() {
    parts_.loop.cancel(timer_);
}

// -- the config

void Namespaces::take_over() {
    for (const auto& wanted : parts_.config.namespaces)
        put_in_force(wanted);
    for (std::uint32_t id = 0; id < control_.namespace_count(); ++id) {
        const auto view = table::read_namespace(control_, id);
        if (!view) continue;
        table::recount_claimed(control_, id);
        if (!view->flushing && !view->removing) continue;
        spdlog::info("namespace '{}': an earlier daemon began to {} it, going on", view->name,
                     view->removing ? "remove" : "flush");
        jobs_[id].removes = view->removing;
    }
    if (!jobs_.empty()) arm(flush_at_once);
}

void Namespaces::take_config(const Config& fresh) {
    for (const auto& wanted : fresh.namespaces)
        put_in_force(wanted);
    parts_.config.namespaces = fresh.namespaces;
}

void Namespaces::put_in_force(const NamespaceConfig& wanted) {
    const auto id = table::find_namespace(control_, wanted.name);
    if (!id) {
        if (const auto made = table::make_namespace(control_, wanted.name, wanted.policy); !made)
            spdlog::warn("[[namespace]] '{}' of the config is not made: {}", wanted.name, made.error().text);
        return;
    }
    const auto view = table::read_namespace(control_, *id);
    if (!view) return;
    const auto& now = view->policy;
    const bool same = now.quota == wanted.policy.quota && now.rules == wanted.policy.rules;
    if (same && !now.by_administrator) return;
    if (!same && now.by_administrator)
        spdlog::warn(
            "namespace '{}': what maructl namespace set ({}, {} users and groups) gives way to the config "
            "({}, "
            "{} users and groups); to keep it, write it there",
            wanted.name, quota_text(now.quota), now.rules.members(), quota_text(wanted.policy.quota),
            wanted.policy.rules.members());
    table::set_policy(control_, *id, wanted.policy);
    settle_all(*id);
}

// -- who may do what

Result<Namespaces::Entry> Namespaces::enter(const std::string& name, const Peer& peer) const {
    const auto id = find_or_make_namespace(control_, name);
    if (!id) return id.error();
    const auto view = table::read_namespace(control_, *id);
    if (!view || view->removing)
        return Error{Code::unavailable, "namespace '" + name + "' is being removed: connect again"};
    const Access access = access_of(view->policy.rules, peer);
    if (access == Access::none)
        return Error{Code::denied,
                     "user " + std::to_string(peer.uid) + " may not use namespace '" + view->name +
                         "': neither its uids nor its gids name this user (an administrator can: "
                         "maructl namespace set)"};
    return Entry{*id, access == Access::read};
}

void Namespaces::settle(Session& session) const {
    const auto view = table::read_namespace(control_, session.name_space);
    if (!view || !session.client) return;
    table::set_read_only(control_, *session.client,
                         access_of(view->policy.rules, session.peer()) != Access::write);
}

void Namespaces::settle_all(std::uint32_t id) const {
    parts_.each_client([&](Session& session) {
        if (session.name_space == id) settle(session);
    });
}

// -- flushes and removals

void Namespaces::begin(std::uint32_t id, bool removes, Answer later) {
    Job& job = jobs_[id];
    if (removes) {
        const auto view = table::read_namespace(control_, id);
        table::mark_namespace(control_, id, view && view->flushing, true);
        fault_point("namespace.remove.marked");
        job.removes = true;
    }
    table::begin_flush(control_, id);
    // From the beginning: what the pass under way has passed may be old now.
    const auto seen = std::exchange(job.seen, {});
    if (job.waiting.empty()) job.all = {};
    job.all.gone += seen.gone;
    job.all.gone_bytes += seen.gone_bytes;
    job.region = job.page = 0;
    job.waiting.push_back(std::move(later));
    arm(flush_at_once);
}

void Namespaces::arm(std::chrono::milliseconds pause) {
    parts_.loop.cancel(std::exchange(timer_, 0));
    timer_ = parts_.loop.after(pause, [this] { work_on(); });
}

void Namespaces::work_on() {
    timer_ = 0;
    const Deadline deadline = deadline_after(flush_slice);
    for (auto at = counts_.begin(); at != counts_.end();) {
        if (!pass(at->first, &at->second, deadline)) break;
        auto counted = counts_.extract(at++);
        counted.mapped().all = counted.mapped().seen;
        for (const auto& answer : counted.mapped().waiting)
            answer(describe(counted.key(), counted.mapped()));
    }
    for (auto at = jobs_.begin(); at != jobs_.end();) {
        if (!pass(at->first, &at->second, deadline)) break;
        at = end_pass(at->first, &at->second) ? jobs_.erase(at) : std::next(at);
    }
    // Who waits is served now; what somebody still reads is looked at again later.
    const bool hurry = !counts_.empty() || std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
        return !job.second.waiting.empty() || job.second.region != 0 || job.second.page != 0;
    });
    if (hurry || !jobs_.empty()) arm(hurry ? flush_at_once : flush_retry_pause);
}

/// One look at every page of the namespace, up to the deadline. True: the look is whole.
bool Namespaces::pass(std::uint32_t id, Job* job, Deadline deadline) {
    for (std::uint32_t step = 1; job->region < control_.region_count(); ++step) {
        const auto view = table::read_region(control_, job->region);
        const bool ours = view && view->name_space == id && job->page < view->page_count;
        if (ours) {
            const std::uint32_t count = std::min(flush_step_records, view->page_count - job->page);
            table::flush_records(parts_.worker, id, view->first_record + job->page, count, job->dry,
                                 &job->seen);
            job->page += count;
            if (!job->dry) fault_point("namespace.flush.step");
        } else {
            ++job->region;
            job->page = 0;
        }
        if ((ours || step % 256 == 0) && MonotonicClock::now() >= deadline) return false;
    }
    return true;
}

bool Namespaces::end_pass(std::uint32_t id, Job* job) {
    const auto seen = std::exchange(job->seen, {});
    job->all.gone += seen.gone;
    job->all.gone_bytes += seen.gone_bytes;
    job->all.held = seen.held;
    job->all.held_bytes = seen.held_bytes;
    job->region = job->page = 0;
    give_empty_regions_back(parts_.worker, id);
    const std::uint64_t claimed = table::recount_claimed(control_, id);
    Result<std::string> answer = describe(id, *job);
    if (job->removes && (job->all.held != 0 || claimed != 0 || !clients_of(id).empty())) {
        answer = not_removed(id, *job);
        table::mark_namespace(control_, id, job->all.held != 0, false);
        job->removes = false;
    } else if (job->removes) {
        fault_point("namespace.remove.emptied");
        const auto view = table::read_namespace(control_, id);
        if (view) spdlog::info("namespace '{}' is removed", view->name);
        table::forget_namespace(control_, id);
    } else if (job->all.held == 0) {
        table::mark_namespace(control_, id, false, false);
    }
    const bool over = job->removes || job->all.held == 0;
    for (const auto& waiting : std::exchange(job->waiting, {}))
        waiting(answer);
    return over && job->waiting.empty();  // who was answered may have asked again at once
}

std::vector<std::string> Namespaces::clients_of(std::uint32_t id) const {
    std::vector<std::string> names;
    for (std::uint32_t slot = 1; slot < control_.client_count(); ++slot) {
        const auto view = table::read_client(control_, slot);
        if (view && !view->facts.is_daemon && view->facts.name_space == id)
            names.push_back("'" + view->facts.instance_id + "' (slot:" + std::to_string(slot) + ")");
    }
    return names;
}

}  // namespace maru::daemon
