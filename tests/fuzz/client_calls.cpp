// The C interface against a real daemon: an input is a sequence of calls of two clients, with good and bad
// arguments, stale handles and doubled releases. A model says what each call may answer.
//
// The daemon is the program that $MARU_FUZZ_DAEMON names, started once for all inputs; between them every key
// is removed.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "maru/maru.h"
#include "target.hpp"

using maru::fuzz::fail;
using maru::fuzz::Input;
using maru::fuzz::require;

namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::size_t clients_count = 2, keys_count = 12;
constexpr int steps_max = 128;

/// One daemon with a pool of its own, both gone with this process.
class RealDaemon {
  public:
    RealDaemon() {
        const char* program = std::getenv("MARU_FUZZ_DAEMON");
        require(program != nullptr && program[0] != 0,
                "MARU_FUZZ_DAEMON names no daemon: tests/fuzz/run sets it");
        folder_ = "/dev/shm/maru-fuzz.XXXXXX";  // a pool wants a tmpfs
        require(::mkdtemp(folder_.data()) != nullptr, "no folder for a daemon");
        socket_ = folder_ + "/maru.sock";
        const std::string config = folder_ + "/maru.toml";
        std::FILE* file = std::fopen(config.c_str(), "w");
        require(file != nullptr, "no config for a daemon");
        std::fprintf(
            file,
            "[daemon]\nsocket = \"%s\"\nlog_level = \"error\"\n[control]\nmax_clients = 8\nmax_pins = 1024\n"
            "max_objects = 256\nregion_size = \"64KiB\"\n[eviction]\nlow_free = 0\n[[pool]]\nname = "
            "\"fuzz\"\nkind = \"shm\"\n"
            "path = \"%s/pool\"\nsize = \"1MiB\"\nprefault = \"none\"\n",
            socket_.c_str(), folder_.c_str());
        std::fclose(file);
        process_ = ::fork();
        require(process_ >= 0, "no process for a daemon");
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);
            ::execl(program, program, "--config", config.c_str(), nullptr);
            std::_Exit(127);
        }
    }
    ~RealDaemon() {
        ::kill(process_, SIGTERM);
        ::waitpid(process_, nullptr, 0);
    }
    /// Takes every name away: what is open stays in use, and a crash leaves nothing behind.
    void unlink_all() const {
        for (const char* name : {"/maru.sock", "/maru.sock.lock", "/maru.toml", "/pool", "/pool.lock"})
            ::unlink((folder_ + name).c_str());
        require(::rmdir(folder_.c_str()) == 0, "the daemon has made a file that nobody expects");
    }
    const std::string& socket() const { return socket_; }
    void require_alive() const {
        int status = 0;
        require(::waitpid(process_, &status, WNOHANG) == 0, "the daemon has ended");
    }

  private:
    std::string folder_, socket_;
    pid_t process_ = -1;
};

maru_client* connect(const RealDaemon& daemon, const char* name) {
    maru_options options = MARU_OPTIONS_INIT;
    options.server = daemon.socket().c_str();
    options.instance_id = name;
    options.page_size = page_bytes;
    options.pool_size = 4 * page_bytes;
    options.no_prefault = 1;
    options.timeout_ms = 10'000;
    maru_client* client = nullptr;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (maru_connect(&options, &client) != MARU_OK) {
        daemon.require_alive();
        if (std::chrono::steady_clock::now() > deadline)
            fail(std::string("no connection: ") + maru_detail(nullptr));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return client;
}

/// What a page holds: its key and which store of it, in every byte.
std::string content_of(std::size_t key, std::uint32_t store, std::size_t size) {
    std::string bytes(size, static_cast<char>(key * 16 + store % 16));
    if (size >= 4) std::memcpy(bytes.data(), &store, 4);
    return bytes;
}

struct Object {  // as the model knows a key
    bool may_be_there = false;
    std::string content;
    int pins = 0;  // by all clients of the model: while any stands it cannot go
};

struct HeldView {
    std::size_t client;
    maru_view view;
    std::string content;
};
struct HeldPage {
    std::size_t client;
    maru_page page;
    bool is_published = false;  // a lease now
};

/// The clients of all inputs, and a model that begins anew with each.
class Session {
  public:
    explicit Session(const RealDaemon& daemon) {
        for (std::size_t c = 0; c < clients_count; ++c)
            clients_[c] = connect(daemon, c == 0 ? "first" : "second");
        daemon.unlink_all();
    }
    ~Session() {
        for (maru_client* client : clients_)
            (void)maru_close(client);
    }

    void play(Input& input) {
        for (int step = 0; step < steps_max && !input.empty(); ++step)
            this->step(input);
        clear();
    }

  private:
    static std::string name_of(std::size_t key) {
        if (key == keys_count - 1) return std::string(4096, 'k');
        if (key == keys_count - 2) return std::string("\0\xff\n", 3);
        return "key-" + std::to_string(key);
    }

    void step(Input& input) {
        const std::uint8_t kind = input.byte(), choice = input.byte();
        const std::size_t c = choice % clients_count, key = choice / 2 % keys_count;
        maru_client* client = clients_[c];
        switch (kind % 20) {
            case 0:
            case 1:
                return put(client, key, input.half() % (page_bytes + 1));
            case 2:
                return get(client, key);
            case 3:
            case 4:
                return retrieve(c, key);
            case 5:
                return release(input.byte());
            case 6:
                return remove(client, key);
            case 7:
                return alloc(c, input.half() % (page_bytes + 64), kind >= 128);
            case 8:
                return store(input.byte(), key, input.half());
            case 9:
                return free_page(input.byte());
            case 10:
                return pin(c, key);
            case 11:
                return unpin(c, key);
            case 12:
                return exists(client, key);
            case 13:
                return batch(client, input);
            case 14:
                return stale(c, input);
            case 15:
                return lease(c, input.byte());
            case 16:
                return bad_arguments(client, choice);
            case 17:
                return pin_batch(c, key);
            case 18:
                return describe(client, input);
            default:
                if (kind >= 240) require(maru_ping(client) == MARU_OK, "a ping was not answered");
        }
    }

    // -- what may be

    static void is_one_of(maru_status status, std::initializer_list<maru_status> allowed, const char* call) {
        if (std::find(allowed.begin(), allowed.end(), status) != allowed.end()) return;
        fail(std::string(call) + " answered " + std::to_string(status) + " (" + maru_strerror(status) +
             "): " + maru_detail(nullptr));
    }

    /// A miss of something that may have been evicted, but nothing else.
    void missed(std::size_t key, const char* call) {
        Object& object = objects_[key];
        if (object.pins > 0) fail(std::string(call) + ": a pinned key is not there");
        object.may_be_there = false;
    }
    void hit(std::size_t key, const char* call) const {
        if (!objects_[key].may_be_there) fail(std::string(call) + " found a key that nobody stored");
    }

    // -- calls

    void put(maru_client* client, std::size_t key, std::size_t size) {
        const std::string name = name_of(key), content = content_of(key, ++stores_, size);
        const maru_status status = maru_put(client, name.data(), name.size(), content.data(), content.size());
        is_one_of(status, {MARU_OK, MARU_EXISTS, MARU_ERR_FULL}, "maru_put");
        stored(key, content, status);
    }

    void stored(std::size_t key, const std::string& content, maru_status status) {
        Object& object = objects_[key];
        if (status == MARU_EXISTS) hit(key, "a store");
        if (status != MARU_OK) return;
        if (object.pins > 0) fail("a store replaced a pinned key");
        object.may_be_there = true;
        object.content = content;
    }

    void get(maru_client* client, std::size_t key) {
        const std::string name = name_of(key);
        std::array<char, page_bytes> bytes;
        std::uint64_t size = 0;
        const maru_status status =
            maru_get(client, name.data(), name.size(), bytes.data(), bytes.size(), &size);
        is_one_of(status, {MARU_OK, MARU_MISS, MARU_ERR_FULL}, "maru_get");
        if (status == MARU_MISS) missed(key, "maru_get");
        if (status != MARU_OK) return;
        hit(key, "maru_get");
        require(size == objects_[key].content.size() &&
                    std::memcmp(bytes.data(), objects_[key].content.data(), size) == 0,
                "maru_get gave other bytes than were stored");
    }

    void hold(std::size_t c, std::size_t key, const maru_view& view) {
        hit(key, "a retrieval");
        const std::string& content = objects_[key].content;
        require(view.size == content.size() && std::memcmp(view.data, content.data(), view.size) == 0,
                "a view has other bytes than were stored");
        views_.push_back({c, view, content});
    }

    void retrieve(std::size_t c, std::size_t key) {
        const std::string name = name_of(key);
        maru_view view;
        const maru_status status = maru_retrieve(clients_[c], name.data(), name.size(), &view);
        is_one_of(status, {MARU_OK, MARU_MISS, MARU_ERR_FULL}, "maru_retrieve");
        if (status == MARU_MISS) missed(key, "maru_retrieve");
        if (status == MARU_OK) hold(c, key, view);
    }

    void check_bytes(const HeldView& held) const {
        require(held.view.size == held.content.size() &&
                    std::memcmp(held.view.data, held.content.data(), held.content.size()) == 0,
                "bytes changed under a view");
    }

    void release(std::size_t which) {
        if (views_.empty()) return;
        which %= views_.size();
        HeldView held = views_[which];
        views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(which));
        check_bytes(held);
        last_view_ = held.view;
        is_one_of(maru_release(clients_[held.client], &held.view), {MARU_OK}, "maru_release");
    }

    void remove(maru_client* client, std::size_t key) {
        const std::string name = name_of(key);
        const maru_status status = maru_remove(client, name.data(), name.size());
        is_one_of(status, {MARU_OK, MARU_MISS, MARU_ERR_PINNED, MARU_ERR_FULL}, "maru_remove");
        Object& object = objects_[key];
        if (status == MARU_OK) {
            hit(key, "maru_remove");
            if (object.pins > 0) fail("maru_remove removed a pinned key");
            object.may_be_there = false;
        }
        if (status == MARU_MISS) missed(key, "maru_remove");
        if (status == MARU_ERR_PINNED && object.pins == 0)
            fail("maru_remove: a key that nobody pins is pinned");
    }

    void alloc(std::size_t c, std::uint64_t size, bool only_held) {
        if (pages_.size() >= 40) return;
        maru_page page;
        const maru_status status =
            only_held ? maru_alloc_held(clients_[c], size, &page) : maru_alloc(clients_[c], size, &page);
        is_one_of(status, {MARU_OK, MARU_ERR_FULL, MARU_ERR_TOO_LARGE}, "maru_alloc");
        require((status == MARU_ERR_TOO_LARGE) == (size > page_bytes), "maru_alloc judged a size wrongly");
        if (status != MARU_OK) return;
        require(page.capacity == size && page.data != nullptr,
                "maru_alloc gave another page than was asked for");
        std::memset(page.data, 0xee, size);
        pages_.push_back({c, page});
    }

    void store(std::size_t which, std::size_t key, std::uint64_t size) {
        if (pages_.empty()) return;
        HeldPage& held = pages_[which % pages_.size()];
        const std::string name = name_of(key);
        const std::uint64_t fits = held.page.capacity == 0 ? 0 : size % (held.page.capacity + 1);
        const std::string content = content_of(key, ++stores_, fits);
        if (!held.is_published) content.copy(static_cast<char*>(held.page.data), content.size());
        const maru_status status =
            maru_store(clients_[held.client], name.data(), name.size(), &held.page, fits);
        if (held.is_published)
            return is_one_of(status, {MARU_ERR_NOT_RESERVED}, "maru_store of a published page");
        is_one_of(status, {MARU_OK, MARU_EXISTS, MARU_ERR_FULL}, "maru_store");
        if (status == MARU_OK) held.is_published = true;
        stored(key, content, status);
        const maru_status too_much =
            maru_store(clients_[held.client], name.data(), name.size(), &held.page, held.page.capacity + 1);
        is_one_of(too_much, {MARU_ERR_TOO_LARGE, MARU_ERR_NOT_RESERVED}, "maru_store of too much");
    }

    void free_page(std::size_t which) {
        if (pages_.empty()) return;
        which %= pages_.size();
        HeldPage held = pages_[which];
        pages_.erase(pages_.begin() + static_cast<std::ptrdiff_t>(which));
        last_page_ = held.page;
        is_one_of(maru_free(clients_[held.client], &held.page), {MARU_OK}, "maru_free");
        maru_page empty{};
        is_one_of(maru_free(clients_[held.client], &empty), {MARU_ERR_NOT_RESERVED},
                  "maru_free of an empty handle");
    }

    void pin(std::size_t c, std::size_t key) {
        const std::string name = name_of(key);
        const maru_status status = maru_pin(clients_[c], name.data(), name.size());
        is_one_of(status, {MARU_OK, MARU_MISS, MARU_ERR_FULL}, "maru_pin");
        pinned(c, key, status);
    }
    void pinned(std::size_t c, std::size_t key, maru_status status) {
        if (status == MARU_MISS) missed(key, "maru_pin");
        if (status != MARU_OK) return;
        hit(key, "maru_pin");
        ++objects_[key].pins;
        ++pins_[c][key];
    }

    void unpin(std::size_t c, std::size_t key) {
        const std::string name = name_of(key);
        const maru_status status = maru_unpin(clients_[c], name.data(), name.size());
        is_one_of(status, {MARU_OK, MARU_MISS}, "maru_unpin");
        require((status == MARU_OK) == (pins_[c][key] > 0), "maru_unpin counts otherwise than was pinned");
        if (status != MARU_OK) return;
        --objects_[key].pins;
        --pins_[c][key];
    }

    void exists(maru_client* client, std::size_t key) {
        const std::string name = name_of(key);
        const maru_status status = maru_exists(client, name.data(), name.size());
        is_one_of(status, {MARU_OK, MARU_MISS}, "maru_exists");
        if (status == MARU_OK) hit(key, "maru_exists");
        if (status == MARU_MISS) missed(key, "maru_exists");
    }

    void batch(maru_client* client, Input& input) {
        std::array<std::string, 6> names;
        std::array<maru_key, 6> keys;
        std::array<std::size_t, 6> numbers;
        std::array<maru_status, 6> statuses;
        std::array<maru_view, 6> views{};
        for (std::size_t k = 0; k < keys.size(); ++k) {
            numbers[k] = input.byte() % keys_count;
            names[k] = name_of(numbers[k]);
            keys[k] = {names[k].data(), names[k].size()};
        }
        const bool bad = input.byte() % 8 == 0;
        if (bad) keys[3] = {nullptr, 5};
        is_one_of(maru_exists_batch(client, keys.data(), statuses.data(), keys.size()), {MARU_OK},
                  "maru_exists_batch");
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (bad && k == 3)
                is_one_of(statuses[k], {MARU_ERR_INVALID}, "maru_exists_batch of no key");
            else if (statuses[k] == MARU_OK)
                hit(numbers[k], "maru_exists_batch");
        is_one_of(maru_retrieve_batch(client, keys.data(), views.data(), statuses.data(), keys.size()),
                  {MARU_OK}, "maru_retrieve_batch");
        for (std::size_t k = 0; k < keys.size(); ++k) {
            if (statuses[k] != MARU_OK) continue;
            hit(numbers[k], "maru_retrieve_batch");
            check_bytes({0, views[k], objects_[numbers[k]].content});
            is_one_of(maru_release(client, &views[k]), {MARU_OK}, "maru_release");
        }
        std::size_t matched = 99;
        const maru_status status =
            maru_match_prefix(client, keys.data(), keys.size(), views.data(), &matched);
        is_one_of(status, {bad ? MARU_ERR_INVALID : MARU_OK}, "maru_match_prefix");
        require(matched <= keys.size(), "more keys matched than there were");
        for (std::size_t k = 0; k < matched; ++k)
            hit(numbers[k], "maru_match_prefix");
        is_one_of(maru_release_batch(client, views.data(), matched), {MARU_OK}, "maru_release_batch");
    }

    void pin_batch(std::size_t c, std::size_t first) {
        std::array<std::string, 3> names;
        std::array<maru_key, 3> keys;
        std::array<maru_status, 3> statuses;
        for (std::size_t k = 0; k < keys.size(); ++k) {
            names[k] = name_of((first + k) % keys_count);
            keys[k] = {names[k].data(), names[k].size()};
        }
        is_one_of(maru_pin_batch(clients_[c], keys.data(), statuses.data(), keys.size()), {MARU_OK},
                  "maru_pin_batch");
        bool stopped = false;
        for (std::size_t k = 0; k < keys.size(); ++k) {
            is_one_of(statuses[k], {MARU_OK, MARU_MISS, MARU_ERR_FULL}, "maru_pin_batch");
            require(!stopped || statuses[k] != MARU_OK, "maru_pin_batch pinned behind a miss");
            if (!stopped) pinned(c, (first + k) % keys_count, statuses[k]);
            stopped = stopped || statuses[k] != MARU_OK;
        }
    }

    /// Tokens that name nothing any more, or never did. One that a later lease or page has again is left out:
    /// who releases twice may hit it, as the contract says "once".
    void stale(std::size_t c, Input& input) {
        const std::uint8_t how = input.byte();
        maru_view view = how % 2 == 0 ? last_view_ : maru_view{};
        if (how % 4 == 1) view.token = input.long_word();
        if (how % 4 == 3) view.token = last_view_.token ^ std::uint64_t{1} << (how / 4);
        for (const HeldView& held : views_)
            if (held.view.token == view.token) return;
        for (const HeldPage& held : pages_)
            if (held.page.token == view.token) return;
        is_one_of(maru_release(clients_[c], &view), {MARU_ERR_INVALID}, "maru_release of a stale view");
        maru_page page = last_page_;
        if (how % 4 != 0) page.record = input.long_word();
        if (how % 4 == 2) page.token = input.long_word();
        for (const HeldPage& held : pages_)
            if (held.page.token == page.token) return;
        for (const HeldView& held : views_)
            if (held.view.token == page.token) return;
        if (page.token == 0) return;  // then the place counts, and it may be a page that is held
        is_one_of(maru_free(clients_[c], &page), {MARU_ERR_NOT_RESERVED, MARU_ERR_INVALID, MARU_ERR_DAMAGED},
                  "maru_free of a stale page");
        is_one_of(maru_store(clients_[c], "key-0", 5, &page, 0),
                  {MARU_ERR_NOT_RESERVED, MARU_ERR_INVALID, MARU_ERR_DAMAGED}, "maru_store of a stale page");
    }

    void lease(std::size_t c, std::size_t which) {
        if (views_.empty()) {
            maru_view view;
            is_one_of(maru_lease(clients_[c], static_cast<std::uint32_t>(which * 7),
                                 static_cast<std::uint32_t>(which), &view),
                      {MARU_OK, MARU_MISS, MARU_ERR_FULL}, "maru_lease");
            if (view.token != 0) is_one_of(maru_release(clients_[c], &view), {MARU_OK}, "maru_release");
            return;
        }
        const HeldView& held = views_[which % views_.size()];
        maru_view view;
        const maru_status status = maru_lease(clients_[c], held.view.region, held.view.page, &view);
        is_one_of(status, {MARU_OK, MARU_MISS, MARU_ERR_FULL}, "maru_lease");  // a miss: its key was removed
        if (status == MARU_OK) views_.push_back({c, view, held.content});
        if (status == MARU_OK) check_bytes(views_.back());
    }

    static void bad_arguments(maru_client* client, std::uint8_t which) {
        const std::string long_key(4097, 'x');
        maru_view view;
        maru_page page;
        std::size_t count = 0;
        maru_status statuses[1];
        switch (which % 12) {
            case 0:
                return is_one_of(maru_put(client, nullptr, 3, "abc", 3), {MARU_ERR_INVALID},
                                 "maru_put without a key");
            case 1:
                return is_one_of(maru_put(client, "k", 0, "abc", 3), {MARU_ERR_INVALID},
                                 "maru_put of an empty key");
            case 2:
                return is_one_of(maru_put(client, long_key.data(), long_key.size(), "abc", 3),
                                 {MARU_ERR_TOO_LARGE}, "maru_put of a long key");
            case 3:
                return is_one_of(maru_put(client, "k", 1, nullptr, 3), {MARU_ERR_INVALID},
                                 "maru_put of nothing");
            case 4:
                return is_one_of(maru_retrieve(client, "k", 1, nullptr), {MARU_ERR_INVALID},
                                 "maru_retrieve to nowhere");
            case 5:
                return is_one_of(maru_retrieve(nullptr, "k", 1, &view), {MARU_ERR_INVALID},
                                 "maru_retrieve of no client");
            case 6:
                return is_one_of(maru_alloc(client, ~0ull, &page), {MARU_ERR_TOO_LARGE},
                                 "maru_alloc of everything");
            case 7:
                return is_one_of(maru_alloc(client, 1, nullptr), {MARU_ERR_INVALID}, "maru_alloc to nowhere");
            case 8:
                return is_one_of(maru_exists_batch(client, nullptr, statuses, 1), {MARU_ERR_INVALID},
                                 "maru_exists_batch of no keys");
            case 9:
                return is_one_of(maru_match_prefix(client, nullptr, 0, nullptr, &count), {MARU_OK},
                                 "maru_match_prefix of nothing");
            case 10:
                return is_one_of(maru_release(client, nullptr), {MARU_ERR_INVALID},
                                 "maru_release of no view");
            default:
                return is_one_of(maru_get(client, "k", 1, nullptr, 9, nullptr), {MARU_ERR_INVALID},
                                 "maru_get to nowhere");
        }
    }

    static void describe(maru_client* client, Input& input) {
        maru_statistics statistics{};
        statistics.size = input.byte() % 2 == 0 ? sizeof statistics : input.byte() % sizeof statistics;
        is_one_of(maru_stats(client, &statistics), {MARU_OK, MARU_ERR_INVALID}, "maru_stats");
        maru_domain_statistics domain{};
        domain.size = sizeof domain;
        is_one_of(maru_domain_stats(client, &domain), {MARU_OK}, "maru_domain_stats");
        maru_region_description region{};
        region.size = sizeof region;
        is_one_of(maru_region_info(client, input.byte(), &region), {MARU_OK, MARU_MISS}, "maru_region_info");
        maru_client_description other{};
        other.size = sizeof other;
        is_one_of(maru_client_info(client, input.byte() % 16, &other), {MARU_OK, MARU_MISS, MARU_ERR_INVALID},
                  "maru_client_info");
        maru_pool_description pool{};
        pool.size = sizeof pool;
        is_one_of(maru_pool_info(client, input.byte() % 4, &pool), {MARU_OK, MARU_MISS}, "maru_pool_info");
        std::uint32_t regions[2];
        std::size_t count = 0;
        is_one_of(maru_held_regions(client, regions, 2, &count), {MARU_OK}, "maru_held_regions");
    }

    /// Everything is given back and every key is removed: what is left is what the next input begins with.
    void clear() {
        while (!views_.empty())
            release(0);
        while (!pages_.empty())
            free_page(0);
        for (std::size_t c = 0; c < clients_count; ++c)
            for (std::size_t key = 0; key < keys_count; ++key)
                while (pins_[c][key] > 0)
                    unpin(c, key);
        for (std::size_t key = 0; key < keys_count; ++key) {
            remove(clients_[0], key);
            exists(clients_[1], key);
            if (objects_[key].may_be_there) fail("a key that was removed is there");
        }
        objects_ = {};
        maru_domain_statistics left{};
        left.size = sizeof left;
        is_one_of(maru_domain_stats(clients_[0], &left), {MARU_OK}, "maru_domain_stats");
        require(left.objects == 0 && left.reserved_pages == 0 && left.pinned_pages == 0,
                "objects, reserved or pinned pages are left over");
    }

    std::array<maru_client*, clients_count> clients_{};
    std::array<Object, keys_count> objects_;
    std::array<std::array<int, keys_count>, clients_count> pins_{};
    std::vector<HeldView> views_;
    std::vector<HeldPage> pages_;
    maru_view last_view_{};
    maru_page last_page_{};
    std::uint32_t stores_ = 0;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const RealDaemon daemon;
    static Session session(daemon);
    Input input(data, size);
    session.play(input);
    daemon.require_alive();
    return 0;
}
