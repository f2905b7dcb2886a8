#include "client/hands.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace maru::client {

constinit thread_local ThreadCache thread_cache;

namespace {

// Calls from destructors that run after ThreadHoldings': what they take goes back with the client.
constinit thread_local bool thread_is_ending = false;

// What this thread holds, of every client it used; gives everything back when the thread ends.
struct ThreadHoldings {
    struct Holding {
        std::uint64_t serial;
        std::shared_ptr<Roster> roster;  // its hands stay as long as this thread may look at their `busy`
        Hands* hands;
    };
    std::vector<Holding> all;

    ~ThreadHoldings() {
        thread_is_ending = true;
        thread_cache = {};
        for (const auto& holding : all)
            holding.roster->give_back(holding.hands);
    }
};
thread_local ThreadHoldings thread_holdings;

constexpr std::uint64_t no_state = ~std::uint64_t{0};  // a phase that no client slot has

long membarrier(int command) {
    return ::syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

Hands* hands_of_thread(std::uint64_t serial, const std::shared_ptr<Roster>& roster) {
    if (thread_is_ending) {
        Hands* const last = roster->take();
        if (last != nullptr) thread_cache = {serial, last};
        return last;
    }
    auto& all = thread_holdings.all;
    std::erase_if(all, [](const auto& holding) { return holding.roster->has_ended(); });
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& holding) { return holding.serial == serial; });
    Hands* hands = found != all.end() ? found->hands : nullptr;
    if (hands == nullptr) {
        all.reserve(all.size() + 1);  // nothing can fail once the hands are taken
        hands = roster->take();
        if (hands == nullptr) return nullptr;
        all.push_back({serial, roster, hands});
    }
    thread_cache = {serial, hands};
    return hands;
}

Hands* Roster::take() {
    const std::lock_guard lock(mutex_);
    if (ended_) return nullptr;
    if (!idle_.empty()) {
        Hands* hands = idle_.back();
        idle_.pop_back();
        return hands;
    }
    auto made = std::make_unique<Hands>();
    made->slot_state = &control_->client(identity_.slot).state;
    made->active =
        fenced_ ? no_state : table::client_state::pack(table::ClientPhase::active, identity_.generation);
    made->worker.emplace(*control_, identity_);
    idle_.reserve(all_.size() + 1);  // so that giving back cannot fail
    all_.push_back(std::move(made));
    return all_.back().get();
}

void Roster::fence() {
    const std::lock_guard lock(mutex_);
    fenced_ = true;
    for (auto& hands : all_)
        hands->active.store(no_state, std::memory_order_relaxed);  // a hint, seen soon
}

bool Roster::has_ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
}

void Roster::give_back(Hands* hands) {
    const std::lock_guard lock(mutex_);
    if (!ended_) idle_.push_back(hands);
}

void prepare_quiesce() {
    (void)membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool Roster::quiesce(Deadline deadline, const Hands* own) {
    // A call stores `busy`, then loads the serial, with no fence between. The barrier makes every running
    // thread pass one: a call that did not see the changed serial is seen as busy. Where the kernel has none,
    // waiting for a while is all that can be done.
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) (void)membarrier(MEMBARRIER_CMD_GLOBAL);
    const std::lock_guard lock(mutex_);
    for (const auto& hands : all_) {
        if (hands.get() == own) continue;
        while (hands->busy.load(std::memory_order_acquire) != 0) {  // pairs with the release that ends a call
            if (MonotonicClock::now() > deadline) return false;
            ::sched_yield();
        }
    }
    return true;
}

void Roster::end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    idle_.clear();
    for (auto& hands : all_)
        hands->worker.reset();
}

}  // namespace maru::client
