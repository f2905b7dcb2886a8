// Where pages come from: held regions, claims, regions of others, eviction.
#include <new>

#include "base/fault_point.hpp"
#include "client/client.hpp"
#include "table/namespaces.hpp"
#include "table/regions.hpp"

namespace maru::client {
namespace {

constexpr std::int64_t none_left_pause_ms = 1000;
constexpr int rounds_max = 4;

std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(MonotonicClock::now().time_since_epoch())
        .count();
}

}  // namespace

void Client::note_none_left() {
    no_claim_until_ms_.store(now_ms() + none_left_pause_ms, std::memory_order_relaxed);  // a hint
}

void Client::add_held(std::uint32_t number) {
    const auto region = table::read_region(*control, number);
    if (!region || region->page_4k != page_bytes / table::page_align || region->name_space != name_space)
        return;
    if (!held_->add(number) || !settings_.prefault) return;
    const table::PageLocation first{number, 0, region->page_4k};
    const table::PageLocation last{number, region->page_count - 1, region->page_4k};
    if (region->page_count == 0 || memory->address(first) == nullptr || memory->address(last) == nullptr)
        return;
    prefault_.add({memory->address(first), region->page_count * page_bytes});
    if (connection_) connection_->wake();
}

std::uint64_t Client::adopt(const wire::Claimed& claimed) {
    const std::size_t before = held_->all().size();
    for (const auto& region : claimed.regions)
        add_held(region.region);
    return held_->all().size() - before;
}

void Client::find_held() {
    for (std::uint32_t number = 0; number < control->region_count(); ++number)
        if (control->region(number).holder.load(shm::acquire) ==
            identity_.holder_word())  // pairs with the claim
            add_held(number);
}

Result<wire::Frame> Client::ask(const std::function<wire::Bytes(std::uint32_t)>& encode) {
    return connection_->ask(encode, deadline());
}

/// True when it is worth looking at the held regions again: this thread or another one claimed some.
bool Client::claim_more(Hands&, std::uint64_t* held_before) {
    if (!settings_.expand || claim_unanswered_.load(std::memory_order_relaxed) ||
        now_ms() < no_claim_until_ms_.load(std::memory_order_relaxed))
        return false;
    {
        std::unique_lock lock(claim_mutex_);
        if (claiming_) claim_ended_.wait_until(lock, deadline(), [&] { return !claiming_; });
        const bool others_did = held_->all().size() != *held_before;
        if (claiming_ || others_did) {
            *held_before = held_->all().size();
            return others_did;
        }
        claiming_ = true;
    }
    const std::uint64_t got = claim_once();
    const std::lock_guard lock(claim_mutex_);
    claiming_ = false;
    claim_ended_.notify_all();
    *held_before = held_->all().size();
    return got != 0;
}

namespace {

/// Some granule of page records belongs to no region yet.
bool records_left(const table::Control& control) {
    for (std::uint32_t granule = 1; granule < control.granule_count(); ++granule)
        if (control.granule_claim(granule).load(shm::relaxed) == 0) return true;
    return false;
}

}  // namespace

/// Never throws: others wait for its end.
std::uint64_t Client::claim_once() noexcept {
    std::uint64_t got = 0;
    try {
        const wire::Claim claim{page_bytes, settings_.expand_bytes};
        auto answer = ask([&](std::uint32_t number) { return wire::encode_frame(number, claim); });
        if (answer) {
            if (auto claimed = wire::open<wire::Claimed>(*answer)) got = adopt(*claimed);
        } else if (answer.error().code == Code::timeout) {
            // Not asked again before the daemon has answered this one or was replaced: a stopped daemon costs
            // one time limit, not one for each allocation. Relaxed: a hint.
            claim_unanswered_.store(true, std::memory_order_relaxed);
        }
    } catch (const std::bad_alloc&) {
        got = 0;
    }
    if (got == 0) note_none_left();  // full, or nobody answers: not again for a while
    return got;
}

Code Client::allocate(Hands& hands, table::Page* page) {
    table::Worker& worker = *hands.worker;
    const table::PageClass wanted{static_cast<std::uint32_t>(page_bytes / table::page_align), name_space};
    std::uint64_t held = held_->all().size();
    Code code = keep_to_quota(worker);
    if (code != Code::ok) return code;
    code = worker.alloc_from(held_->all(), wanted, page);
    if (code == Code::ok) return code;
    worker.retry_retired();
    for (int round = 0; round < rounds_max && code == Code::full && claim_more(hands, &held); ++round)
        code = worker.alloc_from(held_->all(), wanted, page);
    fault_point("allocate.held_are_full");
    if (code == Code::full) code = worker.alloc_anywhere(wanted, page);
    if (code == Code::full) code = worker.evict_to_reuse(wanted, page);
    if (code == Code::ok) return code;
    if (code == Code::contended) {
        (void)fail_with(
            Code::full,
            "no pin slot is left in the domain: release views and pages, or raise control.max_pins");
        return Code::full;
    }
    if (table::is_claimed_up(*control, name_space)) {
        fail_at_quota(worker);
        return code;
    }
    const auto is = worker.occupancy(wanted);
    const char* records =
        records_left(*control) ? "" : "; all page records are in use: raise control.max_objects";
    (void)fail_with(
        Code::full,
        "no page of %llu KiB is free, no more can be claimed and nothing can be evicted: of %llu pages "
        "%llu are reserved, %llu published (%llu of them pinned), %llu retired and still read, %llu "
        "quarantined, %llu bad; release views and pins, free pages, or give the domain more memory%s",
        static_cast<unsigned long long>(page_bytes / KiB), static_cast<unsigned long long>(is.pages),
        static_cast<unsigned long long>(is.reserved), static_cast<unsigned long long>(is.published),
        static_cast<unsigned long long>(is.pinned), static_cast<unsigned long long>(is.retired),
        static_cast<unsigned long long>(is.quarantined), static_cast<unsigned long long>(is.bad), records);
    return code;
}

}  // namespace maru::client
