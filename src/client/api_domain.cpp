// maru.h: what the whole domain holds, and what its clients did.
#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "client/call.hpp"
#include "client/describe.hpp"
#include "table/regions.hpp"

using maru::Code;
using namespace maru::client;
namespace table = maru::table;
namespace shm = maru::shm;

namespace {

/// Objects that a lease or a key pin names, each once.
std::vector<std::uint32_t> pinned_records(const table::Control& control) {
    std::vector<std::uint32_t> records;
    const auto chunks =
        std::min<std::uint64_t>(control.chunk_count(), control.super().pin_high_water.load(shm::relaxed));
    for (std::uint32_t number = 0; number < chunks; ++number) {
        const auto& chunk = control.chunk(number);
        if (chunk.owner.load(shm::relaxed) == 0) continue;
        for (std::uint32_t index = 0; index < table::pins_per_chunk; ++index) {
            const std::uint64_t word = chunk.pins[index].load(shm::relaxed);  // a count, not a promise
            const auto kind = table::pin::kind(word);
            if (kind == table::PinKind::lease || kind == table::PinKind::key)
                records.push_back(table::pin::record(word));
        }
    }
    std::sort(records.begin(), records.end());
    records.erase(std::unique(records.begin(), records.end()), records.end());
    return records;
}

void count_region(const table::Control& control, const table::RegionView& region,
                  maru_domain_statistics& sums) {
    if (region.first_record >= control.record_count()) return;
    const std::uint64_t page_bytes = region.page_4k * table::page_align;
    const std::uint32_t pages = std::min(region.page_count, control.record_count() - region.first_record);
    ++sums.regions;
    sums.page_bytes += pages * page_bytes;
    for (std::uint32_t page = 0; page < pages; ++page) {
        const auto& record = control.record(region.first_record + page);
        const auto state = table::State::unpack(record.state.load(shm::relaxed));
        if (table::is_live(state.phase) && state.phase != table::Phase::publishing) {
            ++sums.objects;
            sums.object_bytes += std::min<std::uint64_t>(record.length.load(shm::relaxed), page_bytes);
        } else if (state.phase == table::Phase::free) {
            ++sums.free_pages;
        } else if (state.phase == table::Phase::reserved || state.phase == table::Phase::publishing) {
            const bool quarantined =
                state.owner.slot < control.client_count() &&
                table::client_state::phase(control.client(state.owner.slot).state.load(shm::relaxed)) ==
                    table::ClientPhase::quarantined;
            ++(quarantined ? sums.quarantined_pages : sums.reserved_pages);
            sums.reserved_bytes += page_bytes;
        } else if (state.phase == table::Phase::retired) {
            ++sums.retired_pages;
        }
    }
}

maru_domain_statistics count_domain(const table::Control& control) {
    maru_domain_statistics sums{};
    for (std::uint32_t number = 0; number < control.region_count(); ++number)
        if (const auto region = table::read_region(control, number)) count_region(control, *region, sums);
    for (const std::uint32_t number : pinned_records(control)) {
        if (number == 0 || number >= control.record_count()) continue;
        const auto state = table::State::unpack(control.record(number).state.load(shm::relaxed));
        if (table::is_live(state.phase)) ++sums.pinned_pages;
    }
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const auto client = table::read_client(control, slot);
        if (client && client->phase == table::ClientPhase::active && !client->facts.is_daemon) ++sums.clients;
    }
    sums.evictions = table::count_all(control).of[static_cast<int>(table::Counter::evictions)];
    return sums;
}

maru_status describe_client(const Client& client, std::uint32_t slot, maru_client_description* to) {
    const auto found = table::read_client(*client.control, slot);
    if (!found || found->phase != table::ClientPhase::active || found->facts.is_daemon) return MARU_MISS;
    maru_client_description filled{};
    std::memcpy(filled.instance_id, found->facts.instance_id.data(),
                std::min(found->facts.instance_id.size(), sizeof filled.instance_id - 1));
    filled.self = found->identity.holder_word() == client.identity().holder_word() ? 1 : 0;
    const auto counts = table::count_client(*client.control, found->identity);
    fill_counts(counts, filled);
    return give(filled, to);
}

}  // namespace

extern "C" {

maru_status maru_domain_stats(maru_client* client, maru_domain_statistics* statistics) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (statistics == nullptr || statistics->size < sizeof statistics->size)
        return fail(Code::invalid, "set statistics->size first");
    try {
        return give(count_domain(*call.client().control), statistics);
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

maru_status maru_client_info(maru_client* client, uint32_t slot, maru_client_description* description) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    if (description == nullptr || description->size < sizeof description->size)
        return fail(Code::invalid, "set description->size first");
    if (slot >= call.client().control->client_count())
        return fail_with(Code::invalid, "there are client slots up to %u, not %u",
                         call.client().control->client_count() - 1, slot);
    if (slot == 0) return MARU_MISS;
    try {
        return describe_client(call.client(), slot, description);
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

}  // extern "C"
