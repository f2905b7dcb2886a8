// maru.h: regions, pools, statistics.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>

#include "client/call.hpp"
#include "client/describe.hpp"
#include "table/regions.hpp"

using maru::Code;
using namespace maru::client;
namespace table = maru::table;

namespace {

template <class Description>
bool has_size(const Description* to, maru_status* status) {
    if (to != nullptr && to->size >= sizeof to->size) return true;
    *status = fail(Code::invalid, to == nullptr ? "the description is NULL" : "set description->size first");
    return false;
}

bool is_held(const Client& client, const table::RegionView& region) {
    return region.holder == client.identity().holder_word();
}

maru_status describe_region(const Client& client, std::uint32_t number, maru_region_description* to) {
    const auto region =
        number < client.control->region_count() ? table::read_region(*client.control, number) : std::nullopt;
    if (!region) return MARU_MISS;
    maru_region_description filled{};
    filled.region = number;
    filled.pool = region->pool;
    filled.offset = region->offset;
    filled.bytes = region->unit_count * client.control->region_unit();
    filled.page_size = region->page_4k * table::page_align;
    filled.page_count = region->page_count;
    filled.held = is_held(client, *region) ? 1 : 0;
    filled.base = client.memory->region_address(number);
    return give(filled, to);
}

void count_memory(Client& client, maru_statistics& filled) {
    for (const std::uint32_t number : client.held().all()) {
        const auto region = table::read_region(*client.control, number);
        if (!region || !is_held(client, *region)) continue;
        const auto pages = table::count_pages(*client.control, *region);
        ++filled.held_regions;
        filled.held_bytes += region->unit_count * client.control->region_unit();
        filled.pages += region->page_count;
        filled.free_pages += pages.of[static_cast<int>(table::Phase::free)];
    }
    for (std::uint32_t number = 0; number < client.memory->pool_count(); ++number)
        filled.pool_bytes += client.memory->pool(number)->bytes;
    filled.unclaimed_bytes = table::free_unit_bytes(*client.control);
}

maru_statistics count_all(Client& client) {
    maru_statistics filled{};
    const auto counts = table::count_client(*client.control, client.identity());
    fill_counts(counts, filled);
    filled.page_size = client.page_bytes;
    filled.reconnects = client.connection().reconnects();
    filled.connected = client.connection().connected() ? 1 : 0;
    filled.damaged = client.damaged_count();
    count_memory(client, filled);
    return filled;
}

}  // namespace

extern "C" {

maru_status maru_region_info(maru_client* client, uint32_t region, maru_region_description* description) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    maru_status status = MARU_ERR_INVALID;
    return has_size(description, &status) ? describe_region(call.client(), region, description) : status;
}

maru_status maru_held_regions(maru_client* client, uint32_t* regions, size_t capacity, size_t* count) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (count == nullptr || (capacity > 0 && regions == nullptr))
        return fail(Code::invalid, "the place for the regions or their count is NULL");
    *count = 0;
    for (const std::uint32_t number : call.client().held().all()) {
        const auto region = table::read_region(*call.client().control, number);
        if (!region || !is_held(call.client(), *region)) continue;
        if (*count < capacity) regions[*count] = number;
        ++*count;
    }
    return MARU_OK;
}

maru_status maru_pool_info(maru_client* client, uint32_t pool, maru_pool_description* description) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    maru_status status = MARU_ERR_INVALID;
    if (!has_size(description, &status)) return status;
    const auto* known = call.client().memory->pool(pool);
    if (known == nullptr) return MARU_MISS;
    maru_pool_description filled{};
    filled.bytes = known->bytes;
    filled.name = known->name.c_str();
    filled.path = known->path.c_str();
    filled.kind = known->kind;
    filled.base = known->base;
    return give(filled, description);
}

maru_status maru_stats(maru_client* client, maru_statistics* statistics) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    maru_status status = MARU_ERR_INVALID;
    if (!has_size(statistics, &status)) return status;
    try {
        return give(count_all(call.client()), statistics);
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

}  // extern "C"
