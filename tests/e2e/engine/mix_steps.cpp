// The steps of a mix: each records what it did, verifies what it saw, and may keep it for a while.
#include <cstdio>

#include "mix.hpp"
#include "payload.hpp"

namespace engine {

template <class Call>
maru_status Mixer::timed(const char* name, Call&& call) {
    const std::uint64_t start_ns = now_ns();
    const maru_status status = call();
    const std::uint64_t end_ns = now_ns(), spent_ns = end_ns - start_ns;
    history_.note(start_ns, end_ns);
    if (spent_ns > report_.slowest_ns) {
        report_.slowest_ns = spent_ns;
        report_.slowest_call = name;
    }
    ++report_.statuses[status];
    if (status == MARU_ERR_FENCED && plan_.stop_when_fenced) stop_ = true;
    if (status == MARU_ERR_DAMAGED || status == MARU_ERR_INVALID)
        violation(std::string(name) + ": " + maru_strerror(status) + ": " + maru_detail(client_));
    return status;
}

/// Verifies bytes against the key and, when it is known, the id they must carry; returns the id they carry.
std::uint64_t Mixer::see(const void* data, std::uint64_t size, std::uint32_t key, std::uint64_t id,
                         const char* where) {
    const Verdict verdict = verify(data, keys_[key], size);
    report_.verified_bytes += size;
    if (!verdict.right || (id != 0 && verdict.id != id)) {
        char text[256];
        std::snprintf(
            text, sizeof text,
            "%s: key %u size %llu id %llx, expected id %llx; wrong at %llu: found %llx, expected %llx", where,
            key, static_cast<unsigned long long>(size), static_cast<unsigned long long>(verdict.id),
            static_cast<unsigned long long>(id), static_cast<unsigned long long>(verdict.offset),
            static_cast<unsigned long long>(verdict.found),
            static_cast<unsigned long long>(verdict.expected));
        violation(text);
    }
    return verdict.id;
}

void Mixer::hold_view(const maru_view& view, std::uint32_t key, std::uint64_t id) {
    views_.push_back({view, key, id});
    while (views_.size() > plan_.hold)
        let_go();
}

void Mixer::hold_page(const maru_page& page, std::uint32_t key, std::uint64_t size, std::uint64_t id,
                      bool published) {
    pages_.push_back({page, key, size, id, published});
    while (pages_.size() > plan_.hold)
        let_go();
}

std::vector<std::uint32_t> Mixer::run_of_keys(std::size_t count) {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t first = some_key(); numbers.size() < count; ++first)
        numbers.push_back(first % plan_.keys);
    return numbers;
}

std::vector<maru_key> Mixer::borrow(const std::vector<std::uint32_t>& numbers) const {
    std::vector<maru_key> keys;
    for (const auto number : numbers)
        keys.push_back({keys_[number].data(), keys_[number].size()});
    return keys;
}

void Mixer::put() {
    const auto key = some_key();
    const auto size = some_size(), id = new_id();
    fill(buffer_.data(), keys_[key], id, size);
    const auto event = history_.begin(Operation::store, key, id);
    const auto status = timed(
        "put", [&] { return maru_put(client_, keys_[key].data(), keys_[key].size(), buffer_.data(), size); });
    history_.end(event, status);
}

void Mixer::reserve() {
    maru_page page{};
    const auto size = some_size();
    if (timed("alloc", [&] { return maru_alloc(client_, size, &page); }) != MARU_OK) return;
    const auto key = some_key();
    const auto id = new_id();
    fill(page.data, keys_[key], id, size);
    hold_page(page, key, size, id, false);
}

void Mixer::store() {
    maru_page page{};
    const auto key = some_key();
    const auto size = some_size(), id = new_id();
    if (timed("alloc", [&] { return maru_alloc(client_, size, &page); }) != MARU_OK) return;
    fill(page.data, keys_[key], id, size);
    const auto event = history_.begin(Operation::store, key, id);
    const auto status = timed(
        "store", [&] { return maru_store(client_, keys_[key].data(), keys_[key].size(), &page, size); });
    history_.end(event, status);
    hold_page(page, key, size, id, status == MARU_OK);
}

void Mixer::store_batch() {
    const auto keys = run_of_keys(3);
    std::vector<maru_page> pages;
    std::vector<std::uint64_t> sizes, ids;
    for (const auto key : keys) {
        maru_page page{};
        const auto size = some_size(), id = new_id();
        if (timed("alloc", [&] { return maru_alloc(client_, size, &page); }) != MARU_OK) break;
        fill(page.data, keys_[key], id, size);
        pages.push_back(page);
        sizes.push_back(size);
        ids.push_back(id);
    }
    std::vector<std::uint64_t> events;
    const auto start_ns = now_ns();
    for (std::size_t n = 0; n < pages.size(); ++n)
        events.push_back(history_.begin_at(Operation::store, keys[n], start_ns, ids[n]));
    std::vector<maru_status> statuses(pages.size(), MARU_ERR_INVALID);
    timed("store_batch", [&] {
        return maru_store_batch(client_, borrow(keys).data(), pages.data(), sizes.data(), statuses.data(),
                                pages.size());
    });
    for (std::size_t n = 0; n < pages.size(); ++n)
        history_.end(events[n], statuses[n]);
    for (std::size_t n = 0; n < pages.size(); ++n)
        hold_page(pages[n], keys[n], sizes[n], ids[n], statuses[n] == MARU_OK);
}

void Mixer::retrieve() {
    maru_view view{};
    const auto key = some_key();
    const auto event = history_.begin(Operation::retrieve, key);
    const auto status = timed(
        "retrieve", [&] { return maru_retrieve(client_, keys_[key].data(), keys_[key].size(), &view); });
    const auto id = status == MARU_OK ? see(view.data, view.size, key, 0, "retrieve") : 0;
    history_.end(event, status, id);
    if (status == MARU_OK) hold_view(view, key, id);
}

void Mixer::retrieve_batch() {
    const auto keys = run_of_keys(4);
    std::vector<maru_view> views(keys.size());
    std::vector<maru_status> statuses(keys.size(), MARU_ERR_INVALID);
    std::vector<std::uint64_t> events;
    const auto start_ns = now_ns();
    for (const auto key : keys)
        events.push_back(history_.begin_at(Operation::retrieve, key, start_ns));
    timed("retrieve_batch", [&] {
        return maru_retrieve_batch(client_, borrow(keys).data(), views.data(), statuses.data(), keys.size());
    });
    for (std::size_t n = 0; n < keys.size(); ++n) {
        const bool hit = statuses[n] == MARU_OK;
        const auto id = hit ? see(views[n].data, views[n].size, keys[n], 0, "retrieve_batch") : 0;
        history_.end(events[n], statuses[n], id);
        if (hit) hold_view(views[n], keys[n], id);
    }
}

void Mixer::match() {
    const auto keys = run_of_keys(5);
    std::vector<maru_view> views(keys.size());
    std::size_t matched = 0;
    const auto start_ns = now_ns();
    const auto status = timed("match_prefix", [&] {
        return maru_match_prefix(client_, borrow(keys).data(), keys.size(), views.data(), &matched);
    });
    if (status < 0) return;
    for (std::size_t n = 0; n < keys.size() && n <= matched; ++n) {
        const auto event = history_.begin_at(Operation::retrieve, keys[n], start_ns);
        const bool hit = n < matched;
        const auto id = hit ? see(views[n].data, views[n].size, keys[n], 0, "match_prefix") : 0;
        history_.end(event, hit ? MARU_OK : MARU_MISS, id);
        if (hit) hold_view(views[n], keys[n], id);
    }
}

void Mixer::get() {
    const auto key = some_key();
    std::uint64_t size = 0;
    const auto event = history_.begin(Operation::retrieve, key);
    const auto status = timed("get", [&] {
        return maru_get(client_, keys_[key].data(), keys_[key].size(), buffer_.data(), buffer_.size(), &size);
    });
    history_.end(event, status, status == MARU_OK ? see(buffer_.data(), size, key, 0, "get") : 0);
}

void Mixer::exists() {
    const auto key = some_key();
    const auto event = history_.begin(Operation::exists, key);
    history_.end(event,
                 timed("exists", [&] { return maru_exists(client_, keys_[key].data(), keys_[key].size()); }));
}

void Mixer::exists_batch() {
    const auto keys = run_of_keys(4);
    std::vector<maru_status> statuses(keys.size(), MARU_ERR_INVALID);
    std::vector<std::uint64_t> events;
    const auto start_ns = now_ns();
    for (const auto key : keys)
        events.push_back(history_.begin_at(Operation::exists, key, start_ns));
    timed("exists_batch",
          [&] { return maru_exists_batch(client_, borrow(keys).data(), statuses.data(), keys.size()); });
    for (std::size_t n = 0; n < keys.size(); ++n)
        history_.end(events[n], statuses[n]);
}

void Mixer::pin() {
    if (!plan_.pins || pins_.size() >= plan_.hold) return;
    const auto key = some_key();
    const auto event = history_.begin(Operation::pin, key);
    const auto status = timed("pin", [&] { return maru_pin(client_, keys_[key].data(), keys_[key].size()); });
    history_.end(event, status);
    if (status == MARU_OK) pins_.push_back(key);
}

void Mixer::unpin() {
    if (pins_.empty()) return;
    const std::size_t which = random_() % pins_.size();
    const auto key = pins_[which];
    pins_[which] = pins_.back();
    pins_.pop_back();
    const auto event = history_.begin(Operation::unpin, key);
    const auto status =
        timed("unpin", [&] { return maru_unpin(client_, keys_[key].data(), keys_[key].size()); });
    history_.end(event, status);
    if (status != MARU_OK && !stop_)
        violation("unpin of key " + std::to_string(key) +
                  " that this thread has pinned: " + maru_strerror(status));
}

void Mixer::remove() {
    const auto key = some_key();
    const auto event = history_.begin(Operation::remove, key);
    history_.end(event,
                 timed("remove", [&] { return maru_remove(client_, keys_[key].data(), keys_[key].size()); }));
}

/// Ends one view or page, after another look at its bytes.
void Mixer::let_go() {
    if (!views_.empty() && (pages_.empty() || views_.size() > plan_.hold || random_() % 2 == 0)) {
        const std::size_t which = random_() % views_.size();
        HeldView held = views_[which];
        views_[which] = views_.back();
        views_.pop_back();
        see(held.view.data, held.view.size, held.key, held.id, "held view");
        if (timed("release", [&] { return maru_release(client_, &held.view); }) != MARU_OK && !stop_)
            violation(std::string("release of a held view: ") + maru_detail(client_));
        return;
    }
    if (pages_.empty()) return;
    const std::size_t which = random_() % pages_.size();
    HeldPage held = pages_[which];
    pages_[which] = pages_.back();
    pages_.pop_back();
    see(held.page.data, held.size, held.key, held.id, held.published ? "published page" : "reserved page");
    if (timed("free", [&] { return maru_free(client_, &held.page); }) != MARU_OK && !stop_)
        violation(std::string("free of a held page: ") + maru_detail(client_));
}

void Mixer::let_go_of_all() {
    while (!views_.empty() || !pages_.empty())
        let_go();
    while (!pins_.empty())
        unpin();
}

}  // namespace engine
