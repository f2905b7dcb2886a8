// How a client ends: calls first, then pages and pins, then, with the last view, everything.
#include <algorithm>
#include <deque>

#include "base/fault_point.hpp"
#include "client/client.hpp"
#include "table/clients.hpp"

namespace maru::client {
namespace {

constexpr std::size_t shells_max = 1024;
constexpr std::chrono::milliseconds bye_max{1000};

maru_status closed() {
    return fail(Code::invalid, "this client is closed");
}
maru_status forked() {
    return fail(Code::forked,
                "this client belongs to the parent process: a forked child must connect by itself");
}

/// A pin word of this client that holds something, and the token that names it.
template <class Visit>
void for_each_pin(const table::Control& control, table::Identity identity, Visit&& visit) {
    for (std::uint32_t number = 0; number < control.chunk_count(); ++number) {
        auto& chunk = control.chunk(number);
        if (chunk.owner.load(shm::acquire) != identity.holder_word())
            continue;  // pairs with the chunk's claim
        for (std::uint32_t index = 0; index < table::pins_per_chunk; ++index) {
            const std::uint64_t word = chunk.pins[index].load(shm::acquire);  // pairs with the pin's exchange
            if (table::pin::kind(word) != table::PinKind::none) visit(number, index, word);
        }
    }
}

std::uint64_t token_of(std::uint32_t chunk, std::uint32_t index, std::uint64_t word,
                       std::uint32_t generation) {
    using table::PinToken;
    return PinToken::Chunk::put(chunk) | PinToken::Index::put(index) |
           PinToken::Sequence::put(table::pin::Sequence::get(word)) | PinToken::Generation::put(generation);
}

}  // namespace

void bury(maru_client* client) {
    // Never destroyed, so that a call during the end of the process still gets its answer.
    static auto* const mutex = new std::mutex;
    static auto* const shells = new std::deque<maru_client*>;
    maru_client* oldest = nullptr;
    {
        const std::lock_guard lock(*mutex);
        shells->push_back(client);
        if (shells->size() > shells_max) {
            oldest = shells->front();
            shells->pop_front();
        }
    }
    delete oldest;
}

Hands* Client::enter(maru_status* status) noexcept {
    try {
        if (ward.forked.load(std::memory_order_relaxed)) {  // set while the child had one thread
            *status = forked();
            return nullptr;
        }
        const std::uint64_t serial =
            ward.serial.load(std::memory_order_acquire);  // pairs with the release in open
        std::shared_ptr<Roster> roster;
        if (serial != ForkWard::not_open) {
            const std::lock_guard lock(life_mutex_);
            if (life_ == Life::open) roster = roster_;
        }
        Hands* hands = roster ? hands_of_thread(serial, roster) : nullptr;
        if (hands == nullptr) *status = closed();
        return hands;
    } catch (const std::exception& error) {
        *status = fail(Code::unavailable, error.what());
        return nullptr;
    }
}

std::size_t Client::end_pins_and_pages(table::Worker& worker, std::span<const maru_page> kept) {
    std::size_t views = 0;
    // Not by the sequence: a page that was stored while the close began has a newer one.
    const auto same_slot = [](std::uint64_t one, std::uint64_t other) {
        using table::PinToken;
        return PinToken::Chunk::get(one) == PinToken::Chunk::get(other) &&
               PinToken::Index::get(one) == PinToken::Index::get(other) &&
               PinToken::Generation::get(one) == PinToken::Generation::get(other);
    };
    const auto is_kept = [&](std::uint64_t token) {
        return std::any_of(kept.begin(), kept.end(),
                           [&](const auto& page) { return same_slot(page.token, token); });
    };
    for_each_pin(*control, identity_, [&](std::uint32_t chunk, std::uint32_t index, std::uint64_t word) {
        const std::uint32_t number = table::pin::record(word);
        if (number == 0 || number >= control->record_count()) return;
        const auto state = table::State::unpack(control->record(number).state.load(shm::acquire));
        const std::uint64_t token = token_of(chunk, index, word, state.generation);
        if (!table::pin::same_generation(word, state.generation)) return;
        switch (table::pin::kind(word)) {
            case table::PinKind::own: {
                if (is_kept(token)) {
                    ++views;
                    break;
                }
                table::Page page{number, state.generation, token, {}};
                if (control->locate(control->record(number), &page.location)) (void)worker.free(page);
                break;
            }
            case table::PinKind::key:
                (void)worker.unpin(token);
                break;
            case table::PinKind::lease:
                if ((page_marks_->of_chunk(chunk) >> index & 1) != 0 && !is_kept(token))
                    (void)worker.release(token);
                else
                    ++views;
                break;
            case table::PinKind::none:
                break;
        }
    });
    return views;
}

maru_status Client::close(std::span<const maru_page> kept) {
    const Deadline end = deadline_after(settings_.timeout + std::chrono::milliseconds(1000));
    if (ward.forked.load(std::memory_order_relaxed)) return forked();
    {
        const std::lock_guard lock(life_mutex_);
        if (life_ != Life::open) return closed();
        life_ = Life::closing;
        // Relaxed: the barrier in quiesce orders it against calls under way.
        ward.serial.store(ForkWard::not_open, std::memory_order_relaxed);
    }
    prefault_.stop();
    connection_->cancel_requests();
    const bool quiet = roster_->quiesce(end, nullptr);
    {
        const std::lock_guard lock(life_mutex_);
        views_out_ = 0;
        bool first = true;
        roster_->for_each([&](table::Worker& worker) {
            if (memory_->is_lost()) {  // the words have gone: what is remembered of them stays for good
                worker.pins().for_each_lease_mask([&](std::uint32_t chunk, std::uint64_t leases) {
                    views_out_ += (leases & ~page_marks_->of_chunk(chunk)) != 0 ? 1 : 0;
                });
                return;
            }
            if (!std::exchange(first, false)) return;
            worker.retry_retired();
            views_out_ = end_pins_and_pages(worker, kept);
        });
        views_out_ += holds_;
        life_ = Life::closed;
        if (quiet && views_out_ == 0) finish(end);
    }
    if (!quiet)
        return fail(Code::timeout, "a call of another thread did not end; the client stays as a shell");
    return MARU_OK;
}

maru_status Client::release_late(std::uint64_t token) {
    if (ward.forked.load(std::memory_order_relaxed)) return forked();
    const std::lock_guard lock(life_mutex_);
    const bool standing = life_ == Life::closing || life_ == Life::closed;
    if (!standing || !table::release_token(*control, identity_, token, table::PinKind::lease))
        return fail(Code::invalid, "this view does not name a standing lease, and its client is closed");
    one_view_less();
    return MARU_OK;
}

void Client::one_view_less() {
    // While the close is still waiting for other calls it has not counted yet.
    if (life_ == Life::closed && views_out_ > 0 && --views_out_ == 0) finish(deadline());
}

maru_status Client::free_late(const maru_page& page) {
    if (ward.forked.load(std::memory_order_relaxed)) return forked();
    const std::lock_guard lock(life_mutex_);
    if (life_ != Life::closing && life_ != Life::closed) return closed();
    const table::Page kept{static_cast<std::uint32_t>(page.record),
                           static_cast<std::uint32_t>(table::PinToken::Generation::get(page.token)),
                           page.token,
                           {}};
    bool freed = false, first = true;
    roster_->for_each([&](table::Worker& worker) {
        if (std::exchange(first, false)) freed = worker.free(kept) == Code::ok;
    });
    if (!freed) return closed();
    one_view_less();
    return MARU_OK;
}

maru_status Client::hold() {
    if (ward.forked.load(std::memory_order_relaxed)) return forked();
    const std::lock_guard lock(life_mutex_);
    if (life_ != Life::open) return closed();
    ++holds_;
    return MARU_OK;
}

maru_status Client::let_go() {
    if (ward.forked.load(std::memory_order_relaxed)) return forked();
    const std::lock_guard lock(life_mutex_);
    if (holds_ == 0) return fail(Code::invalid, "this client's memory is not held");
    --holds_;
    one_view_less();
    return MARU_OK;
}

void Client::finish(Deadline end) {
    life_ = Life::finished;
    roster_->for_each([](table::Worker& worker) { (void)worker.pins().give_back(); });
    roster_->end();
    memory_->leave_entry();
    fault_point("close.before_bye");
    if (!connection_->say_bye(std::min(end, deadline_after(bye_max)))) {
        // No daemon to tell: the next one finds the slot marked and sweeps what little is left.
        (void)table::declare_dead(*control, identity_);
    }
    connection_->stop();
    connection_.reset();
    {
        const std::lock_guard gate(fork_gate());
        ward.lock.store(-1, std::memory_order_relaxed);  // read by a fork, which takes the gate
        lock_.reset();
    }
    unregister_ward(ward);
    event_.reset();
    key_pins_.reset();
    page_marks_.reset();
    held_.reset();
    roster_.reset();
    control = nullptr;
    memory = nullptr;
    memory_.reset();
    bury(static_cast<maru_client*>(this));
}

}  // namespace maru::client
