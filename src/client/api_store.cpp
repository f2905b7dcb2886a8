// maru.h: pages, publication, removal.
#include <exception>

#include "client/call.hpp"
#include "shm/bus_guard.hpp"
#include "shm/copy.hpp"
#include "table/poison.hpp"

using maru::Code;
using namespace maru::client;
namespace table = maru::table;

namespace {

/// The table's page behind a handle, and where it lies. False, with the status set, when there is none.
bool find_page(Call& call, const maru_page* page, table::Page* found, std::byte** data, maru_status* status) {
    const auto not_reserved = [&](const char* text) {
        *status = fail(Code::not_reserved, text);
        return false;
    };
    if (page == nullptr) {
        *status = fail(Code::invalid, "the page is NULL");
        return false;
    }
    if (page->token == 0) {
        if (page->data == nullptr)
            return not_reserved("this page handle is empty: it was freed or never allocated");
        if (call.worker().find_reserved(page->region, page->page, found) != Code::ok)
            return not_reserved("this client has not reserved that page");
    } else {
        found->record = static_cast<std::uint32_t>(page->record);
        found->generation = static_cast<std::uint32_t>(table::PinToken::Generation::get(page->token));
        found->token = page->token;
    }
    const auto& control = *call.client().control;
    if (found->record == 0 || found->record >= control.record_count() || page->record >> 32 != 0)
        return not_reserved("this page handle does not name a page");
    if (!control.locate(control.record(found->record), &found->location) ||
        (*data = call.client().memory->address(found->location)) == nullptr) {
        *status = fail(Code::damaged, "the record of this page names a place outside every pool");
        return false;
    }
    return true;
}

bool fits(const maru_page& page, const table::Page& found, std::uint64_t size, maru_status* status) {
    if (size <= page.capacity && size <= found.location.page_bytes()) return true;
    *status =
        fail_with(Code::too_large, "%llu bytes do not fit the %llu bytes that this page was allocated for",
                  static_cast<unsigned long long>(size), static_cast<unsigned long long>(page.capacity));
    return false;
}

maru_status store_one(Call& call, const void* key_data, std::size_t key_size, maru_page* page,
                      std::uint64_t size) {
    maru_status status = MARU_ERR_INVALID;
    table::Page found;
    table::Key key;
    std::byte* data = nullptr;
    if (!make_key(call.client(), key_data, key_size, &key, &status) ||
        !find_page(call, page, &found, &data, &status) || !fits(*page, found, size, &status))
        return status;
    std::uint64_t checksum = 0;
    if (call.client().checksums &&
        !maru::shm::survives_bus_error(data, size, [&] { checksum = checksum_of(data, size); })) [[unlikely]]
        return fail(Code::poisoned,
                    "the memory of this page is bad: free it, and store the value in another page");
    const std::uint64_t token = found.token;
    const Code code = call.worker().publish(key, found, size, checksum);
    if (found.token != token) {
        call.client().page_marks().clear(token);
        call.client().page_marks().set(found.token);
    }
    page->token = found.token;
    page->record = found.record;
    if (code == Code::ok || code == Code::exists) return status_of(code);
    return fail_plainly(code);
}

enum class From { anywhere, held_regions };

Code take_page(Call& call, From from, table::Page* page) {
    Client& client = call.client();
    if (from == From::anywhere) return client.allocate(call.hands(), page);
    if (const Code code = client.keep_to_quota(call.worker()); code != Code::ok) return code;
    const table::PageClass wanted{static_cast<std::uint32_t>(client.page_bytes / table::page_align),
                                  client.name_space};
    if (call.worker().alloc_from(client.held().all(), wanted, page) == Code::ok) return Code::ok;
    (void)fail(Code::full, "the held regions have no free page");
    return Code::full;
}

/// Reserves a page; the caller's to give back.
maru_status reserve(Call& call, std::uint64_t size, From from, table::Page* page, std::byte** data) {
    Client& client = call.client();
    if (size > client.page_bytes)
        return fail_with(
            Code::too_large, "%llu bytes do not fit a page of %llu bytes: connect with a larger page_size",
            static_cast<unsigned long long>(size), static_cast<unsigned long long>(client.page_bytes));
    const Code code = take_page(call, from, page);
    if (code != Code::ok) return code == Code::full ? MARU_ERR_FULL : fail_plainly(code);
    *data = client.memory->address(page->location);
    maru_status status = MARU_ERR_DAMAGED;
    if (*data == nullptr) [[unlikely]]
        *data = client.find_address(page->location, &status);
    if (*data != nullptr && size <= page->location.page_bytes()) return MARU_OK;
    (void)call.worker().free(*page);
    if (status == MARU_MISS) return MARU_ERR_UNAVAILABLE;  // its pool cannot be had now; the text says why
    return fail(Code::damaged, "the record of a free page names a place outside every pool");
}

maru_status alloc_one(Call& call, std::uint64_t size, From from, maru_page* page) {
    table::Page reserved;
    std::byte* data = nullptr;
    const maru_status status = reserve(call, size, from, &reserved, &data);
    if (status != MARU_OK) return status;
    call.client().page_marks().set(reserved.token);
    *page = {data,           size,           reserved.location.region, reserved.location.page_index,
             reserved.token, reserved.record};
    return MARU_OK;
}

maru_status put_one(Call& call, const table::Key& key, const void* data, std::uint64_t size) {
    table::Worker& worker = call.worker();
    if (worker.exists(key)) {  // before a page is taken and filled for nothing
        worker.pins().count(table::Counter::duplicates);
        return MARU_EXISTS;
    }
    table::Page page;
    std::byte* room = nullptr;
    const maru_status reserved = reserve(call, size, From::anywhere, &page, &room);
    if (reserved != MARU_OK) return reserved;
    if (size > 0 && !maru::shm::survives_bus_error(room, size, [&] { maru::shm::copy_in(room, data, size); }))
        [[unlikely]] {
        (void)table::poison_page(worker, page);
        return fail(Code::poisoned,
                    "the memory of a free page is bad: it was taken out of use; store the value again");
    }
    const std::uint64_t checksum = call.client().checksums ? checksum_of(data, size) : 0;
    const Code code = worker.publish(key, page, size, checksum);
    (void)worker.free(page);  // the page, or the lease on it
    if (code == Code::ok || code == Code::exists) return status_of(code);
    return fail_plainly(code);
}

maru_status alloc(maru_client* client, std::uint64_t size, From from, maru_page* page) {
    if (page == nullptr) return fail(Code::invalid, "the place for the page is NULL");
    *page = {};
    Call call(client);
    if (!call || !call.active() || !call.may_write()) return call.status();
    try {
        return alloc_one(call, size, from, page);
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

/// A page that its client's close has kept.
maru_status free_kept(maru_client* client, maru_page* page, maru_status refused) {
    if (client == nullptr || page == nullptr || page->token == 0) return refused;
    try {
        const maru_status status = client->free_late(*page);
        if (status == MARU_OK) *page = {};
        return status;
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

}  // namespace

extern "C" {

maru_status maru_alloc(maru_client* client, uint64_t size, maru_page* page) {
    return alloc(client, size, From::anywhere, page);
}

maru_status maru_alloc_held(maru_client* client, uint64_t size, maru_page* page) {
    return alloc(client, size, From::held_regions, page);
}

maru_status maru_free(maru_client* client, maru_page* page) {
    Call call(client);
    if (!call) return free_kept(client, page, call.status());
    if (!call.active()) return call.status();
    maru_status status = MARU_ERR_INVALID;
    table::Page found;
    std::byte* data = nullptr;
    if (!find_page(call, page, &found, &data, &status)) return status;
    // The mark goes first: once the slot is free another thread may take it for a page of its own.
    call.client().page_marks().clear(found.token);
    const Code code = call.worker().free(found);
    if (code != Code::ok) return fail(code, "this client does not hold that page: it was freed already");
    *page = {};
    return MARU_OK;
}

maru_status maru_store(maru_client* client, const void* key, size_t key_size, maru_page* page,
                       uint64_t size) {
    Call call(client);
    if (!call || !call.active() || !call.may_write()) return call.status();
    return store_one(call, key, key_size, page, size);
}

maru_status maru_put(maru_client* client, const void* key, size_t key_size, const void* data, uint64_t size) {
    Call call(client);
    if (!call || !call.active() || !call.may_write()) return call.status();
    if (data == nullptr && size > 0) return fail(Code::invalid, "the data is NULL");
    maru_status status = MARU_ERR_INVALID;
    table::Key prepared;
    if (!make_key(call.client(), key, key_size, &prepared, &status)) return status;
    try {
        return put_one(call, prepared, data, size);
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

maru_status maru_store_batch(maru_client* client, const maru_key* keys, maru_page* pages,
                             const uint64_t* sizes, maru_status* statuses, size_t count) {
    Call call(client);
    if (!call || !call.active() || !call.may_write()) return call.status();
    if (count > 0 && (keys == nullptr || pages == nullptr || sizes == nullptr || statuses == nullptr))
        return fail(Code::invalid, "keys, pages, sizes or statuses are NULL");
    for (size_t i = 0; i < count; ++i)
        statuses[i] = store_one(call, keys[i].data, keys[i].size, &pages[i], sizes[i]);
    return MARU_OK;
}

maru_status maru_remove(maru_client* client, const void* key, size_t key_size) {
    Call call(client);
    if (!call || !call.active() || !call.may_write()) return call.status();
    maru_status status = MARU_ERR_INVALID;
    table::Key prepared;
    if (!make_key(call.client(), key, key_size, &prepared, &status)) return status;
    switch (call.worker().remove(prepared)) {
        case table::DeleteResult::deleted:
            return MARU_OK;
        case table::DeleteResult::absent:
            return MARU_MISS;
        case table::DeleteResult::pinned:
            return fail(Code::pinned, "the key is pinned: unpin it first");
        case table::DeleteResult::no_pin_slot:
            return fail(Code::full,
                        "no pin slot is left in the domain: release views, or raise control.max_pins");
        case table::DeleteResult::damaged:
            break;
    }
    return fail_plainly(Code::damaged);
}

}  // extern "C"
