// maru.h: pins by name.
#include <algorithm>

#include "client/call.hpp"

using maru::Code;
using namespace maru::client;
namespace table = maru::table;

namespace {

maru_status pin_one(Call& call, const void* data, std::size_t size) {
    maru_status status = MARU_ERR_INVALID;
    table::Key key;
    if (!make_key(call.client(), data, size, &key, &status)) return status;
    std::uint64_t token = 0;
    std::uint32_t record = 0;
    const Code code = call.worker().pin_key(key, &token, &record);
    if (code == Code::miss) return MARU_MISS;
    if (code == Code::full)
        return fail(code,
                    "no pin slot is left in the domain: release views and pins, or raise control.max_pins");
    if (code != Code::ok) return fail_plainly(code);
    if (call.client().key_pins().add(key, token)) return MARU_OK;
    (void)call.worker().unpin(token);
    return fail(Code::full, "this client holds too many key pins: unpin some");
}

maru_status unpin_one(Call& call, const void* data, std::size_t size) {
    maru_status status = MARU_ERR_INVALID;
    table::Key key;
    if (!make_key(call.client(), data, size, &key, &status)) return status;
    // Pins that the daemon has ended meanwhile do not count; a standing one behind them does.
    while (const std::uint64_t token = call.client().key_pins().take(key))
        if (call.worker().unpin(token)) return MARU_OK;
    return MARU_MISS;
}

}  // namespace

extern "C" {

maru_status maru_pin(maru_client* client, const void* key, size_t key_size) {
    Call call(client);
    if (!call || !call.active() || !call.may_write()) return call.status();
    return pin_one(call, key, key_size);
}

maru_status maru_unpin(maru_client* client, const void* key, size_t key_size) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    return unpin_one(call, key, key_size);
}

maru_status maru_pin_batch(maru_client* client, const maru_key* keys, maru_status* statuses, size_t count) {
    Call call(client);
    if (!call || !call.active() || !call.may_write()) return call.status();
    if (count > 0 && (keys == nullptr || statuses == nullptr))
        return fail(Code::invalid, "keys or statuses are NULL");
    size_t i = 0;
    while (i < count) {
        statuses[i] = pin_one(call, keys[i].data, keys[i].size);
        if (statuses[i++] != MARU_OK) break;
    }
    std::fill(statuses + i, statuses + count, MARU_MISS);
    return MARU_OK;
}

maru_status maru_unpin_batch(maru_client* client, const maru_key* keys, maru_status* statuses, size_t count) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (count > 0 && (keys == nullptr || statuses == nullptr))
        return fail(Code::invalid, "keys or statuses are NULL");
    for (size_t i = 0; i < count; ++i)
        statuses[i] = unpin_one(call, keys[i].data, keys[i].size);
    return MARU_OK;
}

}  // extern "C"
