// Memory for clients: claiming regions and giving them back.
#include <algorithm>

#include "daemon/requests.hpp"

namespace maru::daemon {

Result<void> Requests::check_client(const Session& session) const {
    if (!session.client)
        return Error{Code::invalid, "a request of a client without a hello or resume before it"};
    using namespace table;
    // Acquire: pairs with the sweep that fences a client.
    const std::uint64_t state = control_.client(session.client->slot).state.load(shm::acquire);
    const ClientPhase phase = client_state::phase(state);
    if (client_state::generation(state) == session.client->generation &&
        (phase == ClientPhase::active || phase == ClientPhase::connecting))
        return {};
    return Error{Code::fenced, "client slot " + std::to_string(session.client->slot) +
                                   " was given up: close this client and connect anew"};
}

bool Requests::holds_a_region(table::Identity identity) const {
    for (std::uint32_t number = 0; number < control_.region_count(); ++number)
        // Relaxed: only this thread gives regions out.
        if (control_.region(number).holder.load(shm::relaxed) == identity.holder_word()) return true;
    return false;
}

/// The namespace may claim more, after what is of no use to it there was given up.
bool Requests::has_room_in_quota(table::PageClass wanted, bool may_evict) {
    if (control_.name_space(wanted.name_space).quota.load(shm::relaxed) == 0) return true;
    table::recount_claimed(control_, wanted.name_space);
    while (table::is_claimed_up(control_, wanted.name_space)) {
        if (!table::make_room_in_namespace(parts_.worker, wanted, may_evict)) return false;
        table::recount_claimed(control_, wanted.name_space);
    }
    return true;
}

Result<table::RegionView> Requests::claim_one(table::PageClass wanted, std::uint64_t holder, bool may_evict,
                                              std::string* warning) {
    if (!has_room_in_quota(wanted, may_evict)) {
        if (auto region = table::adopt_region(control_, wanted, holder)) return *region;
        const auto& entry = control_.name_space(wanted.name_space);
        *warning = "namespace '" + entry.name.get() + "' has " +
                   format_size(entry.claimed.load(shm::relaxed)) + ", its quota is " +
                   format_size(entry.quota.load(shm::relaxed)) +
                   ": it gets no more memory (maructl namespace set raises the quota)";
        return Error{Code::full, *warning};
    }
    auto region = table::claim_region(parts_.worker, wanted, holder, may_evict, warning);
    if (region) table::recount_claimed(control_, wanted.name_space);
    return region;
}

Result<void> Requests::claim(Session& session, const wire::Frame& frame) {
    const auto asked = wire::open<wire::Claim>(frame);
    if (!asked) return asked.error();
    if (auto client = check_client(session); !client) return client;
    if (control_.client(session.client->slot).read_only.load(shm::relaxed) != 0)
        return Error{Code::denied, "this client only reads in its namespace: it gets no memory to write to"};
    parts_.maintenance.wake();
    const auto page_4k = page_4k_of(asked->page_bytes);
    if (!page_4k) return page_4k.error();
    const table::PageClass wanted{*page_4k, session.name_space};
    const std::uint64_t holder = session.client->holder_word();
    wire::Claimed claimed;
    std::uint64_t covered = 0;
    bool may_evict = false;
    while (covered < asked->bytes && claimed.regions.size() < control_.region_count()) {
        auto region = claim_one(wanted, holder, may_evict, &claimed.warning);
        if (!region && region.error().code != Code::full) return region.error();
        if (!region && (may_evict || !claimed.regions.empty() || holds_a_region(*session.client))) break;
        if (!region) {
            if (parts_.config.eviction.policy == "none") break;
            may_evict =
                true;  // a client without any memory may take some from those that are not here any more
            continue;
        }
        const std::uint64_t page_bytes = std::uint64_t{region->page_4k} * table::page_align;
        claimed.regions.push_back({region->number, region->page_count, page_bytes});
        covered += region->page_count * page_bytes;
        if (may_evict) break;
    }
    session.send(wire::encode_frame(frame.request, claimed));
    return {};
}

Result<void> Requests::give_back(Session& session, const wire::Frame& frame) {
    const auto asked = wire::open<wire::GiveBack>(frame);
    if (!asked) return asked.error();
    if (auto client = check_client(session); !client) return client;
    const std::uint64_t holder = session.client->holder_word();
    for (const std::uint32_t number : asked->regions) {
        if (number < control_.region_count() && control_.region(number).holder.load(shm::relaxed) == holder)
            continue;
        return Error{Code::invalid, "region " + std::to_string(number) + " is not held by this client"};
    }
    for (const std::uint32_t number : asked->regions)
        table::release_region(parts_.worker, number, holder);
    session.send(wire::encode_frame(frame.request, wire::Type::done));
    return {};
}

}  // namespace maru::daemon
