#include <sstream>

#include "simulation.hpp"

namespace maru::sim {

using namespace table;

void ClientActor::begin(const char* name, std::uint32_t key) {
    actor_.operation = name;
    actor_.key = static_cast<int>(key);
    actor_.operation_began = sim_.machine_.now();
    actor_.operation_steps = 0;
}

/// Where this process finds a page. Of a pool that it does not map its daemon is asked; nothing when there is
/// none to ask.
Bytes ClientActor::address(const PageLocation& at) {
    Bytes found = process_.pools.find(sim_.world_, at);
    const PoolList* list = sim_.served();
    if (!found.words.empty() || process_.gone || list == nullptr) return found;
    sim_.oracle_.count("pool asked for");
    process_.pools.take_in(sim_.world_, sim_.machine_, process_.identity.slot, PoolList(*list));
    return process_.pools.find(sim_.world_, at);
}

/// What the daemon has told of its pools.
void ClientActor::take_in() {
    if (process_.told.empty() || process_.gone) return;
    begin("take in pools", 0);
    const PoolList list = std::move(process_.told.front());
    process_.told.pop_front();
    process_.pools.take_in(sim_.world_, sim_.machine_, process_.identity.slot, list);
}

bool ClientActor::allocate(Page* page) {
    const PageClass wanted = sim_.world_.page_class(0);
    Code code = Code::full;
    if (random_.below(2) != 0) code = worker_.alloc_from(process_.regions, wanted, page);
    if (code == Code::full) {
        if (process_.wants_region == 0) process_.wants_region = 1;
        code = worker_.alloc_anywhere(wanted, page);
    }
    if (code == Code::full) code = worker_.evict_to_reuse(wanted, page);
    sim_.oracle_.count(code == Code::ok ? "page allocated" : "no page");
    if (code == Code::ok) sim_.oracle_.handed_out(actor_, *page);
    return code == Code::ok;
}

/// False when the page cannot be reached.
bool ClientActor::write(const Page& page, std::uint32_t key) {
    const std::uint64_t value = sim_.oracle_.new_value(key);
    const Bytes bytes = address(page.location);
    for (auto& word : bytes.words) {
        sim_.oracle_.touches(actor_, bytes.memory);
        word.store(Oracle::payload_word(value, key), shm::relaxed);
    }
    return !bytes.words.empty();
}

Code ClientActor::publish(Page& page, std::uint32_t key) {
    Oracle& oracle = sim_.oracle_;
    actor_.placements = 0;
    const Code code = worker_.publish(sim_.world_.key(key), page, words_per_unit * 8);
    const char* const answer = code == Code::ok          ? "stored"
                               : code == Code::exists    ? "duplicate"
                               : code == Code::contended ? "contended"
                                                         : "not stored";
    oracle.count(answer);
    oracle.store_ended(actor_);
    if (code == Code::exists) oracle.present(actor_, key, "store");
    if (code != Code::ok) {
        oracle.reserved_as_before(actor_, page, answer);
        return code;
    }
    Held own;
    own.token = page.token;
    own.hold = oracle.hit(actor_, key, page.record, page.generation, page.token, HoldKind::lease);
    own.bytes = address(page.location);
    read(own, random_.below(3));
    oracle.let_go(own.hold);
    if (worker_.free(page) != Code::ok) sim_.machine_.violate("the writer's lease could not be given back");
    return code;
}

void ClientActor::give_back(const Page& page) {
    if (worker_.free(page) != Code::ok && !process_.gone)
        sim_.machine_.violate("a reserved page was lost under its owner: r" + std::to_string(page.record));
}

Code ClientActor::store(std::uint32_t key) {
    begin("store", key);
    Page page;
    if (!allocate(&page)) return Code::full;
    if (!write(page, key)) {
        give_back(page);
        return Code::full;
    }
    if (random_.one_in(8) && process_.threads.size() > 1 && process_.shared.pages.size() < 2) {
        shm::fence(shm::seq_cst);  // as the lock through which threads hand things over
        process_.shared.pages.push_back(page);
        return Code::miss;
    }
    const Code code = publish(page, key);
    if (code != Code::ok) give_back(page);
    return code;
}

void ClientActor::use_shared_page() {
    if (process_.shared.pages.empty()) return;
    Page page = process_.shared.pages.back();
    process_.shared.pages.pop_back();
    begin("store for other", 0);
    const auto words = address(page.location).words;
    if (words.empty()) return give_back(page);
    const auto key = static_cast<std::uint32_t>(words[0].load(shm::relaxed) & 0xff);
    actor_.key = static_cast<int>(key);
    if (random_.one_in(4) || publish(page, key) != Code::ok) give_back(page);
}

ClientActor::Held ClientActor::held(std::uint32_t key, const View& view) {
    Held held;
    held.view = view;
    held.token = view.token;
    held.hold = sim_.oracle_.hit(actor_, key, view.record, view.generation, view.token, HoldKind::lease);
    held.bytes = address(view.location);
    return held;
}

void ClientActor::read(const Held& held, std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i)
        for (const auto& word : held.bytes.words) {
            sim_.oracle_.touches(actor_, held.bytes.memory);
            sim_.oracle_.read(actor_, held.hold, word.load(shm::relaxed));
        }
}

void ClientActor::drop(Held& held) {
    sim_.oracle_.let_go(held.hold);
    if (worker_.release(held.token) != Code::ok)
        sim_.machine_.violate("a standing lease could not be released");
}

Code ClientActor::get(std::uint32_t key, bool may_keep) {
    begin("get", key);
    View view;
    const Code code = worker_.retrieve(sim_.world_.key(key), &view);
    if (code == Code::miss) {
        sim_.oracle_.miss(actor_, key, "retrieve");
        sim_.oracle_.count("miss");
    }
    if (code != Code::ok) return code;
    sim_.oracle_.count("hit");
    Held one = held(key, view);
    read(one, 1 + random_.below(3));
    if (may_keep && random_.one_in(3) && views_.size() < 3) {
        views_.push_back(one);
    } else if (may_keep && random_.one_in(6) && process_.threads.size() > 1) {
        process_.shared.leases.push_back(one.token);  // another thread releases it
        process_.shared.holds.push_back(one.hold);
    } else {
        drop(one);
    }
    return code;
}

/// A view of whatever lies in a page, without its key.
void ClientActor::page() {
    begin("page", 0);
    actor_.key = -1;
    View view;
    const std::uint32_t region = random_.below(static_cast<std::uint32_t>(sim_.scenario_.pools.size()) * 2);
    if (worker_.lease_page(region, random_.below(3), &view) != Code::ok) return;
    sim_.oracle_.count("page leased");
    Held one = held(sim_.oracle_.key_of(view.record), view);
    read(one, 1 + random_.below(2));
    drop(one);
}

void ClientActor::release_shared() {
    begin("release", 0);
    if (process_.shared.leases.empty()) return;
    Held other;
    other.token = process_.shared.leases.back();
    other.hold = process_.shared.holds.back();
    process_.shared.leases.pop_back();
    process_.shared.holds.pop_back();
    drop(other);
}

void ClientActor::batch() {
    begin("batch", 0);
    actor_.key = -1;
    const std::uint32_t count = sim_.key_count_;
    std::vector<Key> keys;
    std::vector<View> views(count);
    std::vector<Code> codes(count, Code::miss);
    for (std::uint32_t k = 0; k < count; ++k)
        keys.push_back(sim_.world_.key(k));
    worker_.retrieve_batch(keys, views, codes);
    std::vector<Held> got;
    for (std::uint32_t k = 0; k < count; ++k) {
        if (codes[k] == Code::miss) sim_.oracle_.miss(actor_, k, "batch");
        if (codes[k] == Code::ok) got.push_back(held(k, views[k]));
    }
    sim_.oracle_.count("batch");
    for (auto& one : got)
        read(one, 1);
    for (auto& one : got)
        drop(one);
}

void ClientActor::match() {
    begin("match", 0);
    actor_.key = -1;
    const std::uint32_t count = sim_.key_count_;
    std::vector<Key> keys;
    std::vector<View> views(count);
    for (std::uint32_t k = 0; k < count; ++k)
        keys.push_back(sim_.world_.key(k));
    const bool pinned = random_.below(2) != 0;
    const std::size_t matched = worker_.match_prefix(keys, pinned ? views.data() : nullptr);
    std::vector<Held> got;
    for (std::uint32_t k = 0; k < matched; ++k) {
        if (pinned)
            got.push_back(held(k, views[k]));
        else
            sim_.oracle_.present(actor_, k, "match");
    }
    if (matched < count) sim_.oracle_.miss(actor_, static_cast<std::uint32_t>(matched), "match");
    for (auto& one : got)
        read(one, 1);
    for (auto& one : got)
        drop(one);
}

Code ClientActor::pin(std::uint32_t key, bool check) {
    begin("pin", key);
    Oracle& oracle = sim_.oracle_;
    std::uint64_t token = 0;
    std::uint32_t record = 0;
    const std::uint64_t passes = oracle.expiry_pass;
    const std::size_t flushes = oracle.flushes();
    const Code code = worker_.pin_key(sim_.world_.key(key), &token, &record);
    // A pin that a daemon ended before the answer is a miss too.
    if (code == Code::miss && oracle.expiry_pass <= passes + Oracle::expiry_after && !process_.gone)
        oracle.miss(actor_, key, "pin");
    if (code != Code::ok) return code;
    oracle.count("key pinned");
    const std::uint32_t hold =
        oracle.hit(actor_, key, record, static_cast<std::uint32_t>(PinToken::Generation::get(token)), token,
                   HoldKind::key_pin);
    for (std::uint32_t wait = random_.below(sim_.scenario_.pin_steps); wait > 0 && !oracle.expired(hold);
         --wait)
        sim_.machine_.step();
    if (check && !oracle.expired(hold)) {
        begin("pin, get", key);
        View view;
        const Code found = worker_.retrieve(sim_.world_.key(key), &view);
        if (found == Code::ok) {
            Held one = held(key, view);
            read(one, 1);
            drop(one);
        } else if (found == Code::miss && !oracle.expired(hold) && oracle.flushes() == flushes) {
            sim_.machine_.violate("a key pinned by " + actor_.name + " could not be read: key " +
                                  std::to_string(key));
        }
    }
    const bool expired = oracle.expired(hold);
    oracle.let_go(hold);
    if (!worker_.unpin(token) && !expired && !process_.gone &&
        oracle.expiry_pass <= passes + Oracle::expiry_after)
        sim_.machine_.violate("a standing key pin could not be released");
    return code;
}

void ClientActor::exists(std::uint32_t key) {
    begin("exists", key);
    if (worker_.exists(sim_.world_.key(key)))
        sim_.oracle_.present(actor_, key, "exists");
    else
        sim_.oracle_.miss(actor_, key, "exists");
}

DeleteResult ClientActor::remove(std::uint32_t key) {
    begin("delete", key);
    const DeleteResult result = worker_.remove(sim_.world_.key(key));
    if (result == DeleteResult::absent) sim_.oracle_.miss(actor_, key, "delete");
    if (result == DeleteResult::deleted) sim_.oracle_.present(actor_, key, "delete");
    if (result == DeleteResult::pinned) sim_.oracle_.count("delete answered pinned");
    return result;
}

/// What a reader does whose checksum fails: it retires the object under its lease, or when its view has
/// ended, and stores the key again.
void ClientActor::damaged(std::uint32_t key) {
    begin("get damaged", key);
    View view;
    if (worker_.retrieve(sim_.world_.key(key), &view) != Code::ok) return;
    Held one = held(key, view);
    read(one, 1);
    Oracle::Object object = sim_.oracle_.object_of(one.hold);
    const bool ended = random_.one_in(3);
    if (ended) {
        drop(one);
        for (std::uint32_t wait = random_.below(300); wait > 0; --wait)
            sim_.machine_.step();
    }
    begin("retire damaged", key);
    if (!ended) object = sim_.oracle_.object_of(one.hold);
    const bool retired = worker_.retire_damaged(view);
    sim_.oracle_.retired_damaged(actor_, object, retired);
    sim_.oracle_.count(retired ? "damaged object retired" : "damaged object left");
    if (!ended) read(one, 1);
    if (retired) store(key);
    if (ended) return;
    read(one, 1);
    drop(one);
}

void ClientActor::evict() {
    begin("evict", 0);
    actor_.key = -1;
    worker_.evict(sim_.world_.page_class(0), 1 + random_.below(3));
}

void ClientActor::reuse() {
    begin("reuse", 0);
    actor_.key = -1;
    Page page;
    if (worker_.evict_to_reuse(sim_.world_.page_class(0), &page) != Code::ok) return;
    sim_.oracle_.handed_out(actor_, page);
    (void)write(page, 0);
    give_back(page);
}

void ClientActor::operation(const std::string& name, std::uint32_t key) {
    if (name == "store")
        store(key);
    else if (name == "get")
        get(key, true);
    else if (name == "pin")
        pin(key, random_.below(2) != 0);
    else if (name == "exists")
        exists(key);
    else if (name == "delete")
        remove(key);
    else if (name == "damaged")
        damaged(key);
    else if (name == "evict")
        evict();
    else if (name == "reuse")
        reuse();
    else if (name == "batch")
        batch();
    else if (name == "match")
        match();
    else if (name == "hand")
        use_shared_page();
    else if (name == "release")
        release_shared();
    else if (name == "page")
        page();
    else if (name == "retry")
        worker_.retry_retired();
    else
        sim_.machine_.violate("no such operation: " + name);
}

void ClientActor::random_operations(std::uint32_t count) {
    std::uint32_t total = 0;
    for (const auto& [name, weight] : sim_.scenario_.mix)
        total += weight;
    for (std::uint32_t i = 0; i < count; ++i) {
        begin("-", 0);
        if (worker_.fenced()) break;
        if (!process_.told.empty() && random_.below(2) == 0) take_in();
        if (!views_.empty() && random_.below(2) != 0) {
            read(views_.back(), 1);
            drop(views_.back());
            views_.pop_back();
        }
        std::uint32_t at = random_.below(total);
        for (const auto& [name, weight] : sim_.scenario_.mix) {
            if (at >= weight) {
                at -= weight;
                continue;
            }
            operation(name, random_.below(sim_.key_count_));
            break;
        }
    }
    finish();
}

void ClientActor::finish() {
    begin("end", 0);
    actor_.key = -1;
    while (!process_.shared.leases.empty())
        release_shared();
    for (auto& one : views_) {
        read(one, 1);
        drop(one);
    }
    views_.clear();
    begin("end", 0);
    actor_.key = -1;
    worker_.retry_retired();
    worker_.pins().give_back();
}

void ClientActor::script(const std::string& text) {
    std::istringstream words(text);
    for (std::string name; words >> name;) {
        std::uint32_t key = 0;
        words >> key;
        if (name == "epoch") {
            begin("move epoch", 0);
            advance_epoch(worker_.control());
        } else if (name == "flush") {
            begin("flush", 0);
            worker_.control().name_space(0).epoch.fetch_add(1, shm::seq_cst);
        } else if (name == "allocate") {
            begin("allocate", key);
            Page page;
            allocate(&page);
        } else if (name == "hold") {
            begin("hold", key);
            View view;
            if (worker_.retrieve(sim_.world_.key(key), &view) == Code::ok) views_.push_back(held(key, view));
        } else if (name == "die") {
            process_.dies = true;
            sim_.machine_.step();
        } else if (name == "told") {  // also when nothing was said: whoever is back looks for itself
            if (process_.told.empty()) process_.told.emplace_back();
            take_in();
        } else if (name == "get")
            get(key, false);
        else if (name == "pin")
            pin(key, false);
        else
            operation(name, key);
        words >> std::ws;
        if (words.peek() == ',') words.get();
    }
    for (auto& one : views_)
        drop(one);
    actor_.operation = "-";
}

void ClientActor::alone() {
    Oracle& oracle = sim_.oracle_;
    const auto stuck = [this](const std::string& what) {
        sim_.machine_.violate("everybody else has stopped: " + what);
    };
    for (std::uint32_t key = 0; key < sim_.key_count_; ++key)
        for (int round = 0; round < 2; ++round) {
            const std::string name = "key " + std::to_string(key);
            begin("alone: store", key);
            Page page;
            Code stored = Code::full;
            const bool allocated = allocate(&page);
            if (!allocated) oracle.no_page_is_stuck(actor_);
            if (allocated) {
                if (!write(page, key)) stuck("the page of " + name + " cannot be reached");
                stored = publish(page, key);
                if (stored != Code::ok) give_back(page);
                if (stored == Code::contended) stuck("store of " + name + " answers contended");
            }
            const bool there = stored == Code::ok || stored == Code::exists;
            const Code got = get(key, false);
            if (got == Code::full) return;  // no pin slot: others died with all of them
            if (there && got != Code::ok)
                stuck("store of " + name + " succeeds, the read that follows misses");
            if (there && pin(key, false) == Code::miss) stuck("stored " + name + ", pin misses");
            const bool pinned = oracle.key_pinned(key);
            const DeleteResult removed = remove(key);
            if (removed == DeleteResult::pinned && !pinned)
                stuck("delete of " + name + " answers pinned, and nobody pins it");
            if (removed == DeleteResult::deleted || removed == DeleteResult::absent)
                if (get(key, false) == Code::ok) stuck("read of " + name + " hits after its deletion");
        }
    finish();
}

}  // namespace maru::sim
