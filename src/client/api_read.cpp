// maru.h: views, copies out, presence.
#include <algorithm>
#include <cstring>

#include "client/call.hpp"
#include "shm/bus_guard.hpp"
#include "table/poison.hpp"

using maru::Code;
using namespace maru::client;
namespace table = maru::table;

namespace {

// Keys of one piece of a batch: on the stack, so that a batch of any length allocates nothing.
constexpr std::size_t piece_max = 128;

const char* const no_pin_slot = "no pin slot is left in the domain: release views, or raise control.max_pins";

maru_status not_found(Code code) {
    if (code == Code::miss) return MARU_MISS;
    if (code == Code::full) return fail(code, no_pin_slot);
    return fail_plainly(code);
}

/// The valid keys among the next ones, and where each stood; the others get their status.
struct Piece {
    table::Key keys[piece_max];
    std::size_t at[piece_max];
    std::size_t count = 0;

    void gather(const Client& client, const maru_key* from, maru_status* statuses, std::size_t begin,
                std::size_t end) {
        count = 0;
        for (std::size_t i = begin; i < end; ++i) {
            if (!make_key(client, from[i].data, from[i].size, &keys[count], &statuses[i])) continue;
            at[count++] = i;
        }
    }
};

maru_status release_one(Call& call, maru_view* view) {
    // Also a fenced client gives its leases back: a sweep that found them would only do the same.
    if (view->token == 0 || call.worker().release(view->token) != Code::ok) [[unlikely]] {
        if (call.active())
            return fail(Code::invalid, "this view does not name a standing lease: it was released already");
        // The word has gone with the control region; that the view has come back counts at the close.
        table::PinSlot slot;
        auto& pins = call.worker().pins();
        if (call.client().memory->is_lost() && pins.find(view->token, &slot)) pins.clear(slot);
        return call.status();
    }
    view->token = 0;
    view->data = nullptr;
    return MARU_OK;
}

maru_status check_keys(const maru_key* keys, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        if (keys[i].data != nullptr && keys[i].size - 1 < table::key_length_max) continue;
        return keys[i].size > table::key_length_max
                   ? fail_with(Code::too_large, "key %zu has %zu bytes, at most %u are possible", i,
                               keys[i].size, table::key_length_max)
                   : fail_with(Code::invalid, "key %zu has no bytes", i);
    }
    return MARU_OK;
}

/// The object's memory cannot be read: no reader meets it again.
maru_status report_poison(Call& call, const table::View& found) {
    call.client().count_damaged();
    const bool gone = table::poison_object(call.worker(), found);
    return fail(Code::poisoned,
                gone ? "the memory of this value is bad: its page was taken out of use, and the "
                       "key can be stored again"
                     : "the memory of this value is bad, and it is pinned or has gone");
}

/// Hands out the views of a matched prefix; those behind one that turned out damaged are let go.
std::size_t hand_out_prefix(Call& call, const table::View* found, std::size_t count, maru_view* views) {
    std::size_t good = 0;
    while (good < count && hand_out(call, found[good], &views[good]) == MARU_OK)
        ++good;
    for (std::size_t i = good + 1; i < count; ++i)
        (void)call.worker().release(found[i].token);
    return good;
}

}  // namespace

namespace maru::client {

maru_status hand_out(Call& call, const table::View& found, maru_view* view) {
    Client& client = call.client();
    const std::byte* data = client.memory->address(found.location);
    maru_status why = MARU_ERR_DAMAGED;
    if (data == nullptr) [[unlikely]]
        data = client.find_address(found.location, &why);
    if (client.memory->is_lost()) [[unlikely]]
        return fail_lost();  // length and place may be zeroes that were read in its stead
    if (data == nullptr || found.length > found.location.page_bytes()) [[unlikely]] {
        (void)call.worker().release(found.token);
        if (data == nullptr) return why;
        return fail(Code::damaged,
                    "the record of this key names a place outside its pool, or a length beyond its page");
    }
    std::uint64_t checksum = found.checksum;
    if (client.verify && !maru::shm::survives_bus_error(data, found.length, [&] {
            checksum = checksum_of(data, found.length);
        })) [[unlikely]] {
        const maru_status status = report_poison(call, found);
        (void)call.worker().release(found.token);
        return status;
    }
    if (checksum != found.checksum) [[unlikely]] {
        client.count_damaged();
        call.worker().control().super().checksum_failures.fetch_add(1, maru::shm::relaxed);  // a mere count
        (void)call.worker().retire_damaged(found);
        (void)call.worker().release(found.token);
        (void)fail(Code::damaged,
                   "the value's checksum did not match: the object was retired and can be stored again");
        return MARU_MISS;
    }
    *view = {data, found.length, found.location.region, found.location.page_index, found.token};
    return MARU_OK;
}

}  // namespace maru::client

extern "C" {

maru_status maru_retrieve(maru_client* client, const void* key, size_t key_size, maru_view* view) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    maru_status status = MARU_ERR_INVALID;
    if (view == nullptr) return fail(Code::invalid, "the place for the view is NULL");
    *view = {};
    table::Key prepared;
    if (!make_key(call.client(), key, key_size, &prepared, &status)) return status;
    table::View found;
    const Code code = call.worker().retrieve(prepared, &found);
    return code == Code::ok ? hand_out(call, found, view) : not_found(code);
}

maru_status maru_lease(maru_client* client, uint32_t region, uint32_t page, maru_view* view) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (view == nullptr) return fail(Code::invalid, "the place for the view is NULL");
    *view = {};
    table::View found;
    const Code code = call.worker().lease_page(region, page, &found);
    return code == Code::ok ? hand_out(call, found, view) : not_found(code);
}

maru_status maru_release(maru_client* client, maru_view* view) {
    if (view == nullptr) return fail(Code::invalid, "the view is NULL");
    Call call(client);
    if (call) [[likely]]
        return release_one(call, view);
    if (client == nullptr) return call.status();
    try {
        const maru_status status = client->release_late(view->token);
        if (status == MARU_OK) *view = {};
        return status;
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

maru_status maru_retrieve_batch(maru_client* client, const maru_key* keys, maru_view* views,
                                maru_status* statuses, size_t count) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (count > 0 && (keys == nullptr || views == nullptr || statuses == nullptr))
        return fail(Code::invalid, "keys, views or statuses are NULL");
    Piece piece;
    table::View found[piece_max];
    Code codes[piece_max];
    for (size_t begin = 0; begin < count; begin += piece_max) {
        const size_t end = std::min(count, begin + piece_max);
        std::fill(views + begin, views + end, maru_view{});
        piece.gather(call.client(), keys, statuses, begin, end);
        call.worker().retrieve_batch({piece.keys, piece.count}, {found, piece.count}, {codes, piece.count});
        for (size_t i = 0; i < piece.count; ++i) {
            const size_t at = piece.at[i];
            statuses[at] = codes[i] == Code::ok ? hand_out(call, found[i], &views[at]) : not_found(codes[i]);
        }
    }
    return MARU_OK;
}

maru_status maru_release_batch(maru_client* client, maru_view* views, size_t count) {
    if (count > 0 && views == nullptr) return fail(Code::invalid, "the views are NULL");
    maru_status worst = MARU_OK;
    {
        Call call(client);
        if (call) {
            for (size_t i = 0; i < count; ++i)
                if (const maru_status status = release_one(call, &views[i]); status != MARU_OK)
                    worst = status;
            return worst;
        }
        if (client == nullptr) return call.status();
    }
    for (size_t i = 0; i < count; ++i)
        if (const maru_status status = maru_release(client, &views[i]); status != MARU_OK) worst = status;
    return worst;
}

maru_status maru_get(maru_client* client, const void* key, size_t key_size, void* data, uint64_t capacity,
                     uint64_t* size) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (size != nullptr) *size = 0;
    if (data == nullptr && capacity > 0) return fail(Code::invalid, "the place for the data is NULL");
    maru_status status = MARU_ERR_INVALID;
    table::Key prepared;
    if (!make_key(call.client(), key, key_size, &prepared, &status)) return status;
    table::View found;
    if (const Code code = call.worker().retrieve(prepared, &found); code != Code::ok) return not_found(code);
    maru_view view;
    if (status = hand_out(call, found, &view); status != MARU_OK) return status;
    if (size != nullptr) *size = view.size;
    if (view.size > capacity)
        status =
            fail_with(Code::too_large, "the value has %llu bytes, there is room for %llu",
                      static_cast<unsigned long long>(view.size), static_cast<unsigned long long>(capacity));
    else if (view.size > 0 && !maru::shm::survives_bus_error(view.data, view.size, [&] {
                 std::memcpy(data, view.data, view.size);
             })) [[unlikely]]
        status = report_poison(call, found);
    (void)call.worker().release(view.token);
    return status;
}

maru_status maru_exists(maru_client* client, const void* key, size_t key_size) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    maru_status status = MARU_ERR_INVALID;
    table::Key prepared;
    if (!make_key(call.client(), key, key_size, &prepared, &status)) return status;
    return call.worker().exists(prepared) ? MARU_OK : MARU_MISS;
}

maru_status maru_exists_batch(maru_client* client, const maru_key* keys, maru_status* statuses,
                              size_t count) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (count > 0 && (keys == nullptr || statuses == nullptr))
        return fail(Code::invalid, "keys or statuses are NULL");
    Piece piece;
    bool present[piece_max];
    for (size_t begin = 0; begin < count; begin += piece_max) {
        piece.gather(call.client(), keys, statuses, begin, std::min(count, begin + piece_max));
        call.worker().exists_batch({piece.keys, piece.count}, {present, piece.count});
        for (size_t i = 0; i < piece.count; ++i)
            statuses[piece.at[i]] = present[i] ? MARU_OK : MARU_MISS;
    }
    return MARU_OK;
}

maru_status maru_match_prefix(maru_client* client, const maru_key* keys, size_t count, maru_view* views,
                              size_t* matched) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (matched == nullptr || (count > 0 && keys == nullptr))
        return fail(Code::invalid, "keys or the place for the count are NULL");
    *matched = 0;
    if (const maru_status status = check_keys(keys, count); status != MARU_OK) return status;
    table::Key prepared[piece_max];
    table::View found[piece_max];
    maru_status ignored = MARU_OK;
    while (*matched < count) {
        const size_t wanted = std::min(count - *matched, piece_max);
        for (size_t i = 0; i < wanted; ++i) {
            const maru_key& key = keys[*matched + i];
            (void)make_key(call.client(), key.data, key.size, &prepared[i], &ignored);
        }
        size_t hits = call.worker().match_prefix({prepared, wanted}, views != nullptr ? found : nullptr);
        if (views != nullptr) hits = hand_out_prefix(call, found, hits, views + *matched);
        *matched += hits;
        if (hits < wanted) break;
    }
    return MARU_OK;
}

}  // extern "C"
