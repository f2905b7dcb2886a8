// What a namespace may hold, as its clients keep to it.
//
// The daemon gives no region to a namespace that has as much as its quota. Only where the last region reaches
// beyond, or the quota was lowered, pages are counted, before each allocation. Nobody is locked out
// meanwhile: as many pages too many may be taken as threads allocate at one time.
#include <algorithm>
#include <cstring>

#include "client/client.hpp"
#include "table/namespaces.hpp"

namespace maru::client {
namespace {

constexpr std::uint64_t victims_max = 8;  // of one allocation beyond the quota
constexpr std::uint64_t victims_part =
    32;  // of a large quota so many parts go at once, for one look at the pins

/// The namespace's name for a message; no call of the fast path allocates.
struct NameText {
    explicit NameText(const table::NamespaceEntry& entry) {
        for (std::size_t w = 0; w < sizeof entry.name / 8; ++w) {
            const std::uint64_t bits = entry.name.words[w].load(shm::relaxed);
            std::memcpy(text + 8 * w, &bits, 8);
        }
    }
    char text[sizeof(table::NamespaceEntry::name) + 1] = {};
};

unsigned long long number(std::uint64_t value) {
    return value;
}

}  // namespace

bool Client::may_write() const {
    return control->client(identity_.slot).read_only.load(shm::relaxed) == 0;
}

maru_status Client::refuse_write() const {
    return fail_with(Code::denied,
                     "this client may look up and read in namespace '%s', and no more: its user is in "
                     "readonly_gids there, or may not enter it any more (maructl namespaces)",
                     NameText(control->name_space(name_space)).text);
}

bool Client::reaches_beyond_quota() const {
    const auto& entry = control->name_space(name_space);
    const std::uint64_t quota = entry.quota.load(shm::relaxed);
    return quota != 0 && entry.claimed.load(shm::relaxed) > quota;
}

Code Client::keep_to_quota(table::Worker& worker) {
    if (!reaches_beyond_quota()) [[likely]]
        return Code::ok;
    const std::uint64_t quota = control->name_space(name_space).quota.load(shm::relaxed);
    std::uint64_t wanted = table::used_bytes(*control, name_space) + page_bytes;
    if (wanted <= quota) return Code::ok;
    worker.retry_retired();
    const bool may_evict = control->super().eviction.load(shm::relaxed) !=
                           static_cast<std::uint64_t>(table::EvictionPolicy::none);
    if (may_evict && page_bytes <= quota) {
        const std::uint64_t pages = (wanted - quota + page_bytes - 1) / page_bytes;
        const auto victims = static_cast<std::size_t>(
            std::min(std::max(pages, quota / page_bytes / victims_part), victims_max));
        const table::PageClass same{static_cast<std::uint32_t>(page_bytes / table::page_align), name_space};
        if (worker.evict(same, victims) > 0) return Code::ok;  // above a quota that was lowered it sinks
        (void)worker.evict({0, name_space}, victims);          // pages of other sizes
    }
    wanted = table::used_bytes(*control, name_space) + page_bytes;
    if (wanted <= quota) return Code::ok;
    fail_at_quota(worker);
    return Code::full;
}

void Client::fail_at_quota(const table::Worker& worker) const {
    const auto& entry = control->name_space(name_space);
    const auto is =
        worker.occupancy({static_cast<std::uint32_t>(page_bytes / table::page_align), name_space});
    const bool none = control->super().eviction.load(shm::relaxed) ==
                      static_cast<std::uint64_t>(table::EvictionPolicy::none);
    (void)fail_with(
        Code::full,
        "the quota of namespace '%s' is used up: %llu of %llu bytes, and a page of %llu bytes is wanted; %s: "
        "of "
        "%llu such pages %llu are reserved, %llu published (%llu of them pinned), %llu retired and still "
        "read, "
        "%llu quarantined; release views and pins, free pages, or raise it (maructl namespace set)",
        NameText(entry).text, number(table::used_bytes(*control, name_space)),
        number(entry.quota.load(shm::relaxed)), number(page_bytes),
        none ? "eviction.policy is none" : "nothing in it can be evicted", number(is.pages),
        number(is.reserved), number(is.published), number(is.pinned), number(is.retired),
        number(is.quarantined));
}

}  // namespace maru::client
