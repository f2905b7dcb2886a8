#include "daemon/admin/answers.hpp"
#include "daemon/domain.hpp"
#include "table/hosts.hpp"
#include "table/pools.hpp"

namespace maru::daemon {
namespace {

constexpr std::uint64_t warnings_of_a_kind_max = 8;

class Warnings {
  public:
    void add(const char* kind, const std::string& text, const std::string& remedy) {
        list_.push_back({{"kind", kind}, {"text", text}, {"remedy", remedy}});
    }
    Json take() { return std::move(list_); }

  private:
    Json list_ = Json::array();
};

std::string percent(std::uint64_t part, std::uint64_t whole) {
    return std::to_string(whole == 0 ? 0 : part * 100 / whole) + "%";
}

bool is_over(std::uint64_t part, std::uint64_t whole, std::uint64_t percent_of_whole) {
    return whole > 0 && part * 100 >= whole * percent_of_whole;
}

void warn_of_quarantine(const Subject& subject, Warnings* warnings) {
    std::uint64_t named = 0;
    for (std::uint32_t slot = 1; slot < subject.tally.clients.size(); ++slot) {
        const auto& tally = subject.tally.clients[slot];
        if (tally.phase != table::ClientPhase::quarantined || tally.reserved_bytes == 0) continue;
        const auto client = table::read_client(subject.control, slot);
        if (!client || client->identity.generation != tally.generation) continue;
        if (named++ == warnings_of_a_kind_max) return;
        const auto pid = std::to_string(client->facts.pid);
        warnings->add("quarantined",
                      format_size(tally.reserved_bytes) + " are quarantined: client \"" +
                          wire::printable(client->facts.instance_id) + "\" (slot " + std::to_string(slot) +
                          ", pid " + pid + ") is gone, but not proven dead",
                      "they come back when process " + pid + " ends; end it if it is not meant to go on");
    }
}

void warn_of_hosts(const Subject& subject, Warnings* warnings) {
    for (std::uint32_t number = 0; number < subject.control.host_count(); ++number) {
        const auto host = table::read_host(subject.control, number);
        if (!host || host->phase != table::HostPhase::fenced) continue;
        const auto name =
            "host " + std::to_string(number) + " (\"" + wire::printable(host->facts.name) + "\")";
        warnings->add("fenced",
                      name +
                          " was silent for longer than host.grace and is fenced: what its clients "
                          "hold is quarantined",
                      "start its daemon again; if that machine is off for good, `maructl host release " +
                          std::to_string(number) + "`");
    }
}

void warn_of_space(const Subject& subject, const Sums& sums, Warnings* warnings) {
    const std::uint64_t total = table::live_units(subject.control) * subject.control.region_unit();
    const auto claimed = sums.units * subject.control.region_unit();
    const auto free = sums.bytes.free + (total > claimed ? total - claimed : 0);
    if (total == 0 || static_cast<double>(free) * 100 > static_cast<double>(total) * 2) return;
    const std::string text =
        "pools are full: " + format_size(free) + " of " + format_size(total) + " are free";
    if (subject.config.eviction.policy == "none") {
        warnings->add("full", text + " and eviction.policy is none, so that stores are refused",
                      "remove objects, add a [[pool]], or set eviction.policy = \"clock\"");
        return;
    }
    const auto pinned = std::min(sums.bytes.pinned, sums.bytes.published);
    if (is_over(sums.bytes.published - pinned, total, 10)) return;
    warnings->add("full",
                  text + " and little can be evicted: " + format_size(pinned) + " are pinned, " +
                      format_size(sums.bytes.reserved) + " reserved, " + format_size(sums.bytes.quarantined) +
                      " quarantined",
                  "release views and pins (`maructl clients` shows whose they are), or add a [[pool]]");
}

void warn_of_tables(const Subject& subject, Warnings* warnings) {
    const auto& control = subject.control;
    const std::uint32_t slots = slots_for_clients(control);
    std::uint64_t used = 0;
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const auto client = table::read_client(control, slot);
        used += client && !client->facts.is_daemon;
    }
    if (is_over(used, slots, 90))
        warnings->add(
            "client_slots", std::to_string(used) + " of " + std::to_string(slots) + " client slots are taken",
            "close clients that are not needed, or format the domain with a larger control.max_clients");
    if (is_over(subject.tally.pin_chunks, control.chunk_count(), 90))
        warnings->add(
            "pins", percent(subject.tally.pin_chunks, control.chunk_count()) + " of the pin slots are taken",
            "release views, or format the domain with a larger control.max_pins");
}

void warn_of_regions(const Subject& subject, const Sums& sums, Warnings* warnings) {
    std::uint64_t short_regions = 0, missing = 0;
    for (const auto& region : subject.tally.regions) {
        if (region.page_bytes() == 0) continue;
        const auto fit =
            std::uint64_t{region.view.unit_count} * subject.control.region_unit() / region.page_bytes();
        if (region.view.page_count >= fit) continue;
        ++short_regions;
        missing += (fit - region.view.page_count) * region.page_bytes();
    }
    if (short_regions > 0)
        warnings->add("objects",
                      format_size(missing) + " in " + std::to_string(short_regions) +
                          " region(s) have no page records: control.max_objects is " +
                          std::to_string(subject.control.record_count() - table::records_per_granule),
                      "use larger pages, or format the domain with a larger control.max_objects");
    if (sums.pages.bad > 0)
        warnings->add("bad_pages",
                      std::to_string(sums.pages.bad) + " page(s), " + format_size(sums.bytes.bad) +
                          ", are out of use: their memory reported errors",
                      "look for memory errors in the kernel's log, and replace the device");
}

}  // namespace

Json warnings_of(const Subject& subject, const Sums& sums) {
    Warnings warnings;
    warn_of_hosts(subject, &warnings);
    warn_of_quarantine(subject, &warnings);
    warn_of_space(subject, sums, &warnings);
    warn_of_tables(subject, &warnings);
    warn_of_regions(subject, sums, &warnings);
    if (!subject.facts.first_sweep_done)
        warnings.add("sweep", "what earlier clients left is still being swept",
                     "none needed: free space grows until the sweep is done");
    if (!subject.facts.control_not_locked.empty())
        warnings.add(
            "memory_lock", subject.facts.control_not_locked,
            "raise the daemon's limit of locked memory (LimitMEMLOCK= in its unit, ulimit -l), or turn "
            "swap off");
    if (subject.config.daemon.event_backend == "auto" && subject.facts.event_backend == "epoll")
        warnings.add(
            "event_backend", "io_uring is not to be had here: the daemon runs on epoll",
            "allow io_uring (sysctl kernel.io_uring_disabled, the container's seccomp profile), or set "
            "daemon.event_backend = \"epoll\" if this is meant");
    return warnings.take();
}

}  // namespace maru::daemon
