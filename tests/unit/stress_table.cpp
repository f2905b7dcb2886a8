// Many threads, few pages: every operation at once, real bytes under every view, clients that go and are
// swept.
//
// Each thread works under an identity of its own (two of them share one and end each other's views). Values
// are words that say which key and which writer they belong to; a reader that sees any other word has been
// betrayed.
//
//     MARU_STRESS_SEED=7 MARU_STRESS_OPERATIONS=200000 stress_table
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "domain_fixture.hpp"

using namespace maru;
using namespace maru::table;

namespace {

constexpr PageClass pages_of_64k{16, 0};  // 32 of them in a region
constexpr PageClass pages_of_128k{32, 0};
constexpr int key_count = 40;
constexpr std::size_t value_words_max = 96;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// What went wrong, from any thread.
class Complaints {
  public:
    void say(const std::string& text) {
        const std::lock_guard lock(mutex_);
        if (++count_ <= 10) texts_ += text + "\n";
    }
    std::uint64_t count() const {
        const std::lock_guard lock(mutex_);
        return count_;
    }
    std::string texts() const {
        const std::lock_guard lock(mutex_);
        return texts_;
    }

  private:
    mutable std::mutex mutex_;
    std::uint64_t count_ = 0;
    std::string texts_;
};

std::uint64_t mix(std::uint64_t value) {
    value = (value ^ value >> 31) * 0x9E3779B97F4A7C15u;
    return value ^ value >> 29;
}

/// Word `i` of the value that writer `stamp` stored under key number `key`.
std::uint64_t value_word(std::uint64_t key, std::uint64_t stamp, std::size_t i) {
    return mix(key * 1'000'003 + i) ^ stamp;
}

struct Held {
    View view;
    std::uint64_t key = 0;
};

/// Views and pages that threads of one client end for each other.
struct Mailbox {
    std::mutex mutex;
    std::deque<Held> views;
    std::deque<Page> pages;
};

/// Clients whose threads have stopped for good: what an exited process is to a daemon.
struct Graveyard {
    std::mutex mutex;
    std::vector<Identity> dead;
};

struct World {
    explicit World(Domain& of) : domain(of) {}

    Domain& domain;
    Complaints complaints;
    Graveyard graveyard;
    Mailbox mailbox;
    std::mutex identities;         // open_client hands slots out by itself; this guards `active` only
    std::vector<Identity> active;  // whom the doubting daemon may take for gone
    std::vector<std::uint32_t> regions;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> stamps{1}, views_checked{0}, stored{0}, evicted{0}, buried{0}, fenced{0};
};

class Engine {
  public:
    Engine(World& world, std::uint64_t seed, bool shares) : world_(world), random_(seed), shares_(shares) {}

    void run(std::uint64_t operations, Identity identity) {
        join(identity);
        for (std::uint64_t i = 0; i < operations && world_.complaints.count() == 0; ++i) {
            if (worker_->fenced()) {
                world_.fenced.fetch_add(1, std::memory_order_relaxed);
                die();
            } else {
                step();
            }
        }
        leave();
    }

    static Identity open(World& world) {
        for (;;) {
            ClientFacts facts;
            facts.instance_id = "stress";
            const auto identity = open_client(world.domain.control(), facts);
            if (identity && activate_client(world.domain.control(), *identity)) {
                const std::lock_guard lock(world.identities);
                world.active.push_back(*identity);
                return *identity;
            }
            std::this_thread::yield();  // until the daemon has swept one of the dead
        }
    }

  private:
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

    void join(Identity identity) {
        identity_ = identity;
        worker_ = std::make_unique<Worker>(world_.domain.control(), identity);
    }

    Key key(std::uint64_t number) {
        name_ = "key " + std::to_string(number);
        if (number % 5 == 0) name_ += std::string(200, 'x');
        return world_.domain.control().key(0, name_);
    }

    void step() {
        const std::uint64_t dice = below(1000);
        if (dice < 300)
            store();
        else if (dice < 620)
            read();
        else if (dice < 680)
            batch();
        else if (dice < 720)
            prefix();
        else if (dice < 820)
            remove();
        else if (dice < 880)
            pin();
        else if (dice < 900)
            world_.evicted.fetch_add(worker_->evict(pages_of_64k, below(4)), std::memory_order_relaxed);
        else if (dice < 960)
            exchange();
        else if (dice < 990)
            worker_->retry_retired();
        else if (dice < 992 && !shares_)
            die();
        else
            reserve();
        while (held_.size() > 6)
            end_view();
    }

    /// A page of some size, wherever there is one.
    bool alloc(Page* page) {
        const PageClass wanted = below(8) == 0 ? pages_of_128k : pages_of_64k;
        Code code = worker_->alloc_from(world_.regions, wanted, page);
        if (code == Code::full) code = worker_->alloc_anywhere(wanted, page);
        if (code == Code::full) code = worker_->evict_to_reuse(wanted, page);
        return code == Code::ok;
    }

    std::uint64_t* words(const PageLocation& location) {
        auto* bytes = world_.domain.find_bytes(location);
        if (bytes == nullptr) world_.complaints.say("a page lies outside the pool");
        return reinterpret_cast<std::uint64_t*>(bytes);
    }

    void store() {
        Page page;
        if (!alloc(&page)) return;
        store_in(page);
    }

    void store_in(Page& page) {
        std::uint64_t* to = words(page.location);
        if (to == nullptr) return;
        const std::uint64_t number = below(key_count),
                            stamp = world_.stamps.fetch_add(1, std::memory_order_relaxed);
        const std::size_t count = 1 + below(value_words_max);
        for (std::size_t i = 0; i < count; ++i)
            to[i] = value_word(number, stamp, i);
        const Code code = worker_->publish(key(number), page, count * 8);
        if (code == Code::ok) {
            world_.stored.fetch_add(1, std::memory_order_relaxed);
            if (!matches(to, number, count))
                world_.complaints.say("a writer's own bytes changed under its lease");
        } else if (code != Code::exists && code != Code::contended && code != Code::index_full &&
                   code != Code::full) {
            world_.complaints.say("publish answered " + std::string(describe(code)));
        }
        if (shares_ && below(4) == 0) {
            const std::lock_guard lock(world_.mailbox.mutex);
            world_.mailbox.pages.push_back(page);
            return;
        }
        if (worker_->free(page) != Code::ok) world_.complaints.say("a page could not be given back");
    }

    bool matches(const std::uint64_t* value, std::uint64_t number, std::size_t count) {
        const std::uint64_t stamp = value[0] ^ value_word(number, 0, 0);
        for (std::size_t i = 0; i < count; ++i)
            if (value[i] != value_word(number, stamp, i)) return false;
        return true;
    }

    void verify(const Held& held) {
        const std::uint64_t* value = words(held.view.location);
        if (value == nullptr) return;
        world_.views_checked.fetch_add(1, std::memory_order_relaxed);
        if (held.view.length == 0 || held.view.length % 8 != 0 || held.view.length > value_words_max * 8)
            world_.complaints.say("a view of " + std::to_string(held.view.length) + " bytes");
        else if (!matches(value, held.key, held.view.length / 8))
            world_.complaints.say("a view of key " + std::to_string(held.key) +
                                  " shows other bytes, record " + std::to_string(held.view.record));
    }

    void read() {
        Held held;
        held.key = below(key_count);
        const Code code = worker_->retrieve(key(held.key), &held.view);
        if (code == Code::miss || code == Code::full) return;
        if (code != Code::ok)
            return world_.complaints.say("retrieve answered " + std::string(describe(code)));
        verify(held);
        held_.push_back(held);
    }

    void end_view() {
        if (held_.empty()) return;
        const std::size_t at = below(held_.size());
        const Held held = held_[at];
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(at));
        verify(held);  // a second time, long after
        if (shares_ && below(3) == 0) {
            const std::lock_guard lock(world_.mailbox.mutex);
            world_.mailbox.views.push_back(held);
            return;
        }
        if (worker_->release(held.view.token) != Code::ok) world_.complaints.say("a view could not be ended");
    }

    /// Ends what the other thread of this client began.
    void exchange() {
        if (!shares_) return end_view();
        Held held;
        Page page;
        {
            const std::lock_guard lock(world_.mailbox.mutex);
            if (!world_.mailbox.views.empty()) {
                held = world_.mailbox.views.front();
                world_.mailbox.views.pop_front();
            }
            if (!world_.mailbox.pages.empty()) {
                page = world_.mailbox.pages.front();
                world_.mailbox.pages.pop_front();
            }
        }
        if (held.view.token != 0) {
            verify(held);
            if (worker_->release(held.view.token) != Code::ok)
                world_.complaints.say("another thread's view could not be ended");
        }
        if (page.token != 0 && worker_->free(page) != Code::ok)
            world_.complaints.say("another thread's page could not be given back");
    }

    void keys_of_batch(std::size_t count) {
        numbers_.clear();
        names_.clear();
        keys_.clear();
        for (std::size_t i = 0; i < count; ++i)
            numbers_.push_back(below(key_count));
        for (const std::uint64_t number : numbers_) {
            key(number);
            names_.push_back(name_);
        }
        for (const auto& name : names_)
            keys_.push_back(world_.domain.control().key(0, name));
    }

    void batch() {
        keys_of_batch(1 + below(12));
        std::vector<View> views(keys_.size());
        std::vector<Code> codes(keys_.size());
        worker_->retrieve_batch(keys_, views, codes);
        for (std::size_t i = 0; i < keys_.size(); ++i) {
            if (codes[i] != Code::ok) continue;
            const Held held{views[i], numbers_[i]};
            verify(held);
            if (below(2) == 0)
                held_.push_back(held);
            else if (worker_->release(held.view.token) != Code::ok)
                world_.complaints.say("a view of a batch could not be ended");
        }
    }

    void prefix() {
        keys_of_batch(1 + below(6));
        std::vector<View> views(keys_.size());
        const std::size_t matched = worker_->match_prefix(keys_, below(2) == 0 ? views.data() : nullptr);
        if (matched > keys_.size()) return world_.complaints.say("a prefix longer than its keys");
        for (std::size_t i = 0; i < matched && views[i].token != 0; ++i) {
            verify({views[i], numbers_[i]});
            if (worker_->release(views[i].token) != Code::ok)
                world_.complaints.say("a view of a prefix could not be ended");
        }
    }

    void remove() {
        const DeleteResult result = worker_->remove(key(below(key_count)));
        if (result == DeleteResult::damaged) world_.complaints.say("remove answered damaged");
    }

    void pin() {
        std::uint64_t token = 0;
        std::uint32_t record = 0;
        const std::uint64_t number = below(key_count);
        if (worker_->pin_key(key(number), &token, &record) != Code::ok) return;
        bool present = true;
        for (std::uint64_t i = below(4); i > 0; --i) {
            std::this_thread::yield();
            present = present && worker_->exists(key(number));
        }
        // The pin stood until now: it was not expired and its client not taken for gone.
        if (worker_->unpin(token) && !present) world_.complaints.say("a key-pinned object was removed");
    }

    void reserve() {
        Page page;
        if (!alloc(&page)) return;
        if (below(2) == 0) {
            if (worker_->free(page) != Code::ok)
                world_.complaints.say("a reserved page could not be given back");
            if (worker_->free(page) != Code::not_reserved)
                world_.complaints.say("a page was given back twice");
            return;
        }
        store_in(page);
    }

    /// Stops in the middle of everything: reserved pages, leases and key pins stay for the sweep.
    void die() {
        if (shares_) return quit_shared();
        std::uint64_t token = 0;
        std::uint32_t record = 0;
        worker_->pin_key(key(below(key_count)), &token, &record);
        Page page;
        if (alloc(&page))
            if (std::uint64_t* to = words(page.location)) to[0] = below(1000);
        for (const Held& held : held_)
            verify(held);
        held_.clear();
        worker_.reset();
        {
            const std::lock_guard lock(world_.identities);
            std::erase_if(world_.active, [&](const Identity& one) { return one.slot == identity_.slot; });
        }
        {
            const std::lock_guard lock(world_.graveyard.mutex);
            world_.graveyard.dead.push_back(identity_);
        }
        join(open(world_));
    }
    void quit_shared() {}  // the client with two threads is never doubted and never dies

    void leave() {
        while (!held_.empty()) {
            verify(held_.back());
            if (worker_->release(held_.back().view.token) != Code::ok)
                world_.complaints.say("a view could not be ended at the end");
            held_.pop_back();
        }
        worker_->retry_retired();
        if (!shares_) worker_->pins().give_back();
        const std::lock_guard lock(world_.identities);
        std::erase_if(world_.active, [&](const Identity& one) { return one.slot == identity_.slot; });
    }

    World& world_;
    std::mt19937_64 random_;
    const bool shares_;
    Identity identity_;
    std::unique_ptr<Worker> worker_;
    std::string name_;
    std::vector<std::string> names_;
    std::vector<std::uint64_t> numbers_;
    std::vector<Key> keys_;
    std::vector<Held> held_;
};

/// The daemon's part: epochs, expiry, burials, wrong verdicts, and a region that changes its page size.
void serve(World& world, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Worker& daemon = world.domain.daemon();
    const Control& control = world.domain.control();
    KeyPinExpiry expiry(control);
    std::uint64_t now = 0;
    std::uint32_t changing = control.region_count();
    while (true) {
        const bool last = world.stop.load(std::memory_order_acquire);
        advance_epoch(control);
        if (random() % 16 == 0) expiry.pass(now++, 3, nullptr);
        std::vector<Identity> dead;
        {
            const std::lock_guard lock(world.graveyard.mutex);
            dead.swap(world.graveyard.dead);
        }
        for (const Identity& identity : dead) {
            if (!declare_dead(control, identity))
                world.complaints.say("a dead client could not be declared dead");
            sweep_dead(daemon, identity);
            sweep_dead(daemon, identity);  // and a late second one
            world.buried.fetch_add(1, std::memory_order_relaxed);
        }
        if (last && dead.empty()) break;
        if (random() % 64 == 0 && !last) {
            const std::lock_guard lock(world.identities);
            if (!world.active.empty()) sweep_gone(daemon, world.active[random() % world.active.size()]);
        }
        if (random() % 32 == 0) {
            if (changing < control.region_count() && dissolve_region(daemon, changing, random() % 2 == 0))
                changing = control.region_count();
            if (changing == control.region_count()) {
                const PageClass wanted = random() % 2 == 0 ? pages_of_64k : pages_of_128k;
                const auto region = claim_region(daemon, wanted, 0, false, nullptr);
                if (region) changing = region->number;
            }
        }
        daemon.evict({0, 0}, random() % 3);
        std::this_thread::yield();
    }
}

void everything_adds_up(Domain& domain) {
    const CheckReport report = check(domain.control(), 0);
    CHECK_MESSAGE(report.findings_total == 0, describe(report));
    CHECK(domain.pages_in(Phase::reserved) == 0);
    CHECK(domain.pages_in(Phase::publishing) == 0);
    CHECK(domain.pages_in(Phase::retiring_evict) == 0);
    CHECK(domain.pages_in(Phase::retiring_delete) == 0);
    CHECK(report.objects == domain.pages_in(Phase::published));
    CHECK(report.slots == report.objects);

    Worker& daemon = domain.daemon();
    SweepReport finished;
    for (std::uint32_t from = 0;;)
        if ((from = sweep_records(daemon, from, 100, owner_is_dead, &finished)) == 0) break;
    while (daemon.evict({0, 0}, 100) > 0) {
    }
    std::uint64_t pages = 0;
    for (std::uint32_t r = 0; r < domain.control().region_count(); ++r)
        if (const auto region = read_region(domain.control(), r)) pages += region->page_count;
    CHECK(domain.pages_in(Phase::free) == pages);  // nobody pins anything: all of it could be evicted
    const CheckReport after = look(domain.control());
    CHECK_MESSAGE(after.findings_total == 0, describe(after));
    CHECK(after.slots == 0);
    CHECK(after.pins == 0);
}

}  // namespace

TEST_CASE("threads under separate identities: bytes are right under every view, at the end all adds up") {
    const std::uint64_t seed = setting("MARU_STRESS_SEED", 1);
    const std::uint64_t operations = setting("MARU_STRESS_OPERATIONS", 20'000);
    MESSAGE("seed " << seed << ", " << operations << " operations a thread");

    Domain domain({.records = 512, .pins = 32 * pins_per_chunk, .clients = 10});
    Client& owner = domain.reader();
    domain.claim(owner, pages_of_64k.page_4k);
    World world(domain);
    world.regions = owner.regions;

    const Identity shared = Engine::open(world);
    world.active.clear();  // the client with two threads is never taken for gone
    std::vector<std::thread> engines;
    for (int thread = 0; thread < 4; ++thread)
        engines.emplace_back([&world, thread, seed, operations, shared] {
            const bool shares = thread >= 2;
            Engine engine(world, seed * 10 + static_cast<std::uint64_t>(thread), shares);
            engine.run(operations, shares ? shared : Engine::open(world));
        });
    std::thread daemon([&world, seed] { serve(world, seed * 10 + 9); });
    for (auto& engine : engines)
        engine.join();
    // What the two threads left for each other, and their chunks
    Worker last(domain.control(), shared);
    for (const Held& held : world.mailbox.views)
        CHECK(last.release(held.view.token) == Code::ok);
    for (const Page& page : world.mailbox.pages)
        CHECK(last.free(page) == Code::ok);
    {
        const std::lock_guard lock(world.graveyard.mutex);
        world.graveyard.dead.push_back(shared);
    }
    world.stop.store(true, std::memory_order_release);
    daemon.join();

    CHECK_MESSAGE(world.complaints.count() == 0, world.complaints.texts());
    MESSAGE(world.views_checked.load()
            << " views, " << world.stored.load() << " stores, " << world.buried.load() << " clients buried, "
            << world.fenced.load() << " fenced");
    CHECK(world.views_checked.load() > operations / 4);
    CHECK(world.stored.load() > operations / 20);
    CHECK(world.buried.load() > 1);
    everything_adds_up(domain);
}
