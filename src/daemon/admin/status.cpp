#include "base/log.hpp"
#include "daemon/admin/answers.hpp"
#include "daemon/domain.hpp"
#include "table/pools.hpp"

namespace maru::daemon {
namespace {

const char* name_of(table::ChecksumMode mode) {
    switch (mode) {
        case table::ChecksumMode::off:
            return "off";
        case table::ChecksumMode::publish:
            return "publish";
        case table::ChecksumMode::verify:
            return "verify";
    }
    return "unknown";
}

std::uint64_t monotonic_ms() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(MonotonicClock::now().time_since_epoch())
            .count());
}

std::uint64_t unit_bytes_of(const table::Control& control) {
    return table::live_units(control) * control.region_unit();
}

/// Counts and times of each kind of request; `buckets` are between the ends in request_bounds_s.
Json json_of_requests(const Measures& measures) {
    Json json = Json::object();
    for (std::size_t kind = 0; kind < request_kinds.size(); ++kind) {
        const auto& request = measures.requests[kind];
        json[request_kinds[kind]] = {{"ok", request.done},
                                     {"refused", request.refused},
                                     {"seconds", request.seconds.sum_s},
                                     {"buckets", request.seconds.counts}};
    }
    return json;
}

Json json_of(const DaemonFacts& facts) {
    const auto now = monotonic_ms();
    const auto& swept = facts.swept;
    Json sweeps{{"first_done", facts.first_sweep_done},
                {"gone", facts.sweeps_gone},
                {"dead", facts.sweeps_dead},
                {"reserved", swept.reserved},
                {"publishing_tentative", swept.publishing_tentative},
                {"publishing_final", swept.publishing_final},
                {"retiring", swept.retiring},
                {"retired", swept.retired},
                {"leases", swept.leases},
                {"key_pins", swept.key_pins},
                {"regions", swept.regions},
                {"expired_key_pins", facts.expired_key_pins}};
    return {{"version", facts.version},
            {"pid", facts.pid},
            {"uptime_s", now > facts.started_monotonic_ms ? (now - facts.started_monotonic_ms) / 1000 : 0},
            {"socket", facts.socket},
            {"event_backend", facts.event_backend},
            {"metrics", facts.metrics.empty() ? Json(nullptr) : Json(facts.metrics)},
            {"host_id", facts.host_id},
            {"log_level", log_level()},
            {"trace", facts.trace},
            {"sessions", facts.sessions},
            {"requests", facts.requests},
            {"refused", facts.refused},
            {"reconnects", facts.reconnects},
            {"sweeps", sweeps},
            {"request_bounds_s", Durations::bounds_s},
            {"requests_by_kind", json_of_requests(facts.measures)}};
}

Json json_of_domain(const table::Control& control, const DaemonFacts& facts) {
    return {{"uuid", control.domain().text()},
            {"coherence", name_of(control.coherence())},
            {"checksum", name_of(control.checksum_mode())},
            {"daemon_generation", control.super().daemon_generation.load(shm::relaxed)},
            {"control_bytes", control.control_bytes()},
            {"control_locked_bytes", facts.control_locked_bytes},
            {"region_unit", control.region_unit()},
            {"page_bytes_max", table::page_bytes_max(control)}};
}

Json json_of_lookups(const table::Control& control) {
    const auto counts = table::count_all(control);
    const auto of = [&](table::Counter counter) { return counts.of[static_cast<int>(counter)]; };
    const auto lookups = of(table::Counter::lookups), hits = of(table::Counter::hits);
    Json json{{"lookups", lookups}, {"hits", hits}};
    const bool has_rate = lookups != 0 && hits <= lookups;  // counters of a damaged domain can say anything
    json["hit_rate"] =
        has_rate ? Json(static_cast<double>(hits) / static_cast<double>(lookups)) : Json(nullptr);
    json["stores"] = of(table::Counter::stores);
    json["duplicates"] = of(table::Counter::duplicates);
    json["deletes"] = of(table::Counter::deletes);
    json["evictions"] = of(table::Counter::evictions);
    json["rescues"] = of(table::Counter::rescues);
    json["contended"] = of(table::Counter::contended);
    json["checksum_failures"] = control.super().checksum_failures.load(shm::relaxed);
    return json;
}

Json json_of_evictions(const table::Control& control) {
    const auto counts = table::count_evictions(control);
    Json json = Json::object();
    for (std::size_t reason = 0; reason < counts.size(); ++reason)
        json[table::name_of(static_cast<table::EvictReason>(reason))] = counts[reason];
    return json;
}

Json json_of_clients(const Subject& subject) {
    std::uint64_t of[5] = {};
    for (std::uint32_t slot = 1; slot < subject.control.client_count(); ++slot) {
        const auto client = table::read_client(subject.control, slot);
        if (client && !client->facts.is_daemon && client->phase <= table::ClientPhase::dead)
            ++of[static_cast<int>(client->phase)];
    }
    return {{"active", of[2]},
            {"connecting", of[1]},
            {"quarantined", of[3]},
            {"dead", of[4]},
            {"slots", slots_for_clients(subject.control)}};
}

}  // namespace

Json answer_status(const Subject& subject) {
    const auto& control = subject.control;
    Sums sums;
    for (const auto& region : subject.tally.regions)
        sums.add(region);
    const auto total = unit_bytes_of(control);
    const auto claimed = sums.units * control.region_unit();
    return {{"daemon", json_of(subject.facts)},
            {"domain", json_of_domain(control, subject.facts)},
            {"objects",
             {{"count", sums.pages.published},
              {"limit", control.record_count() - table::records_per_granule},
              {"value_bytes", sums.pages.value_bytes}}},
            {"counters", json_of_lookups(control)},
            {"evictions", json_of_evictions(control)},
            {"bytes", json_of_bytes(sums.bytes, total, total > claimed ? total - claimed : 0)},
            {"pages", json_of_pages(sums.pages)},
            {"regions", sums.regions},
            {"pins",
             {{"leases", subject.tally.leases},
              {"key_pins", subject.tally.key_pins},
              {"chunks", subject.tally.pin_chunks},
              {"chunks_max", control.chunk_count()}}},
            {"clients", json_of_clients(subject)},
            {"pools", answer_pools(subject)["pools"]},
            {"warnings", warnings_of(subject, sums)}};
}

}  // namespace maru::daemon
