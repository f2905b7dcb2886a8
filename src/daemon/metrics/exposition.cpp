#include "daemon/metrics/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <map>

#include "daemon/admin/answers.hpp"
#include "table/hosts.hpp"

namespace maru::daemon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
  public:
    /// The rows of `counter` and `gauge` that follow are this metric's.
    void begin(const char* name, const char* help, MetricType type) {
        list_.push_back({name, help, type, {}});
    }
    /// Rows that read the same are one: a scraper takes no text with two of them.
    void row(Labels labels, std::uint64_t value) {
        auto& rows = list_.back().metric;
        auto same = std::find_if(rows.begin(), rows.end(),
                                 [&](const ClientMetric& metric) { return metric.label == labels; });
        if (same == rows.end()) {
            same = rows.emplace(rows.end());
            same->label = std::move(labels);
        }
        const bool counter = list_.back().type == MetricType::Counter;
        (counter ? same->counter.value : same->gauge.value) += static_cast<double>(value);
    }
    void histogram(Labels labels, const Durations& durations) {
        ClientMetric metric;
        metric.label = std::move(labels);
        auto& made = metric.histogram;
        for (std::size_t i = 0; i < durations.counts.size(); ++i) {
            made.sample_count += durations.counts[i];
            made.bucket.push_back({made.sample_count, i < durations.bounds_s.size()
                                                          ? durations.bounds_s[i]
                                                          : std::numeric_limits<double>::infinity()});
        }
        made.sample_sum = durations.sum_s;
        list_.back().metric.push_back(std::move(metric));
    }
    std::string text() {
        std::erase_if(list_, [](const MetricFamily& family) { return family.metric.empty(); });
        return prometheus::TextSerializer().Serialize(list_);
    }

  private:
    std::vector<MetricFamily> list_;
};

std::string lower(std::string text) {
    for (char& letter : text)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
    return text;
}

// -- memory

void add_pools(const Exposition& from, Families* families) {
    const auto& control = from.control;
    std::vector<Sums> sums(control.pool_count());
    std::map<std::pair<std::uint32_t, table::RegionPhase>, std::uint64_t> regions;
    for (const auto& region : from.tally.regions) {
        if (region.view.pool >= sums.size()) continue;
        sums[region.view.pool].add(region);
        ++regions[{region.view.pool, region.view.phase}];
    }
    const auto each_pool = [&](auto&& visit) {
        for (std::uint32_t number = 0; number < control.pool_count(); ++number) {
            const auto& entry = control.pool(number);
            // Relaxed: a number for people.
            const auto state = static_cast<table::PoolState>(entry.state.load(shm::relaxed));
            if (state == table::PoolState::active || state == table::PoolState::draining)
                visit(number, wire::printable(entry.name.get()));
        }
    };
    families->begin(
        "maru_pool_bytes",
        "Bytes of a pool by what they are good for. What is left of a region behind its last page "
        "is in none of the states.",
        MetricType::Gauge);
    each_pool([&](std::uint32_t number, const std::string& pool) {
        const std::uint64_t units = control.pool(number).unit_count.load(shm::relaxed);
        const auto& sum = sums[number];
        const auto unclaimed = units > sum.units ? (units - sum.units) * control.region_unit() : 0;
        families->row({{"pool", pool}, {"state", "free"}}, sum.bytes.free + unclaimed);
        families->row({{"pool", pool}, {"state", "reserved"}}, sum.bytes.reserved);
        families->row({{"pool", pool}, {"state", "published"}}, sum.bytes.published);
        families->row({{"pool", pool}, {"state", "retired"}}, sum.bytes.retired);
        families->row({{"pool", pool}, {"state", "quarantined"}}, sum.bytes.quarantined);
    });
    families->begin("maru_pool_pinned_bytes",
                    "Bytes of published and retired pages that a lease or a key pin holds: not evictable.",
                    MetricType::Gauge);
    each_pool([&](std::uint32_t number, const std::string& pool) {
        families->row({{"pool", pool}}, sums[number].bytes.pinned);
    });
    families->begin("maru_regions", "Regions of a pool by phase.", MetricType::Gauge);
    each_pool([&](std::uint32_t number, const std::string& pool) {
        for (const auto phase : {table::RegionPhase::formatting, table::RegionPhase::held,
                                 table::RegionPhase::draining, table::RegionPhase::sealing})
            families->row({{"pool", pool}, {"state", lower(table::name_of(phase))}},
                          regions[{number, phase}]);
    });
}

void add_objects(const Exposition& from, Families* families) {
    const auto& control = from.control;
    std::vector<std::uint64_t> objects(control.namespace_count()), used(control.namespace_count());
    for (const auto& region : from.tally.regions) {
        if (region.view.name_space >= objects.size()) continue;
        const auto& pages = region.pages;
        objects[region.view.name_space] += pages.published;
        used[region.view.name_space] += (pages.pages() - pages.free - pages.sealed) * region.page_bytes();
    }
    const auto each_namespace = [&](auto&& visit) {
        for (std::uint32_t number = 0; number < control.namespace_count(); ++number)
            if (const auto view = table::read_namespace(control, number))
                visit(*view, wire::printable(view->name));
    };
    families->begin("maru_objects", "Published objects of a namespace.", MetricType::Gauge);
    each_namespace([&](const table::NamespaceView& view, const std::string& name) {
        families->row({{"namespace", name}}, objects[view.id]);
    });
    families->begin("maru_namespace_used_bytes", "Bytes of a namespace's pages that are not free.",
                    MetricType::Gauge);
    each_namespace([&](const table::NamespaceView& view, const std::string& name) {
        families->row({{"namespace", name}}, used[view.id]);
    });
    families->begin("maru_namespace_quota_bytes", "Quota of a namespace; those without one are not listed.",
                    MetricType::Gauge);
    each_namespace([&](const table::NamespaceView& view, const std::string& name) {
        if (view.policy.quota != 0) families->row({{"namespace", name}}, view.policy.quota);
    });
    families->begin("maru_pins", "Pins that hold objects: leases of views, and pins by key.",
                    MetricType::Gauge);
    families->row({{"kind", "lease"}}, from.tally.leases);
    families->row({{"kind", "key"}}, from.tally.key_pins);
}

// -- who takes part

void add_hosts(const Exposition& from, Families* families) {
    const auto& control = from.control;
    std::map<table::HostPhase, std::uint64_t> hosts;
    std::vector<std::map<table::ClientPhase, std::uint64_t>> clients(control.host_count());
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const auto client = table::read_client(control, slot);
        if (client && !client->facts.is_daemon && client->facts.host < clients.size())
            ++clients[client->facts.host][client->phase];
    }
    families->begin("maru_clients", "Clients of a host by state.", MetricType::Gauge);
    for (std::uint32_t number = 0; number < control.host_count(); ++number) {
        const auto host = table::read_host(control, number);
        if (!host) continue;
        ++hosts[host->phase];
        if (host->phase == table::HostPhase::joining) continue;  // its name is not there yet
        for (const auto phase : {table::ClientPhase::connecting, table::ClientPhase::active,
                                 table::ClientPhase::quarantined, table::ClientPhase::dead})
            families->row(
                {{"host", wire::printable(host->facts.name)}, {"state", lower(table::name_of(phase))}},
                clients[number][phase]);
    }
    families->begin("maru_hosts", "Hosts of the domain by state; fenced: silent for longer than host.grace.",
                    MetricType::Gauge);
    for (const auto phase : {table::HostPhase::joining, table::HostPhase::active, table::HostPhase::fenced,
                             table::HostPhase::left})
        families->row({{"state", lower(table::name_of(phase))}}, hosts[phase]);
}

// -- what was done

void add_lookups(const Exposition& from, Families* families) {
    families->begin("maru_lookups_total",
                    "Keys looked up by this host's instances since the daemon started; instance \"other\": "
                    "all but the 64 busiest.",
                    MetricType::Counter);
    for (const auto& row : from.instances)
        families->row({{"namespace", row.name_space}, {"instance", row.instance}}, row.lookups);
    families->begin("maru_hits_total", "Those of maru_lookups_total that found their object.",
                    MetricType::Counter);
    for (const auto& row : from.instances)
        families->row({{"namespace", row.name_space}, {"instance", row.instance}}, row.hits);
    std::map<std::string, std::uint64_t> expired;
    for (const auto& row : from.instances)
        expired[row.instance] += row.expired_key_pins;
    families->begin("maru_expired_key_pins_total",
                    "Pins by key that were older than control.key_pin_ttl, since the daemon started.",
                    MetricType::Counter);
    for (const auto& [instance, count] : expired)
        families->row({{"instance", instance}}, count);
}

void add_domain_counters(const Exposition& from, Families* families) {
    const auto counts = table::count_all(from.control);
    const auto counter = [&](const char* name, const char* help, table::Counter which, Labels labels = {}) {
        families->begin(name, help, MetricType::Counter);
        families->row(std::move(labels), counts.of[static_cast<int>(which)]);
    };
    counter("maru_domain_lookups_total",
            "Keys looked up in this domain since it was formatted, by all hosts.", table::Counter::lookups);
    counter("maru_domain_hits_total", "Those of maru_domain_lookups_total that found their object.",
            table::Counter::hits);
    counter("maru_stores_total", "Objects stored in this domain since it was formatted, by all hosts.",
            table::Counter::stores);
    counter("maru_duplicates_total", "Stores of a key that was there already.", table::Counter::duplicates);
    counter("maru_deletes_total", "Objects removed by key.", table::Counter::deletes,
            {{"result", "removed"}});
    families->begin(
        "maru_evictions_total",
        "Objects evicted; reason \"demand\": a store or a claim needed their pages, "
        "\"watermark\": less than eviction.low_free was free, \"admin\": maructl evict, or a pool "
        "that was removed.",
        MetricType::Counter);
    const auto evictions = table::count_evictions(from.control);
    for (const auto reason :
         {table::EvictReason::demand, table::EvictReason::watermark, table::EvictReason::admin})
        families->row({{"reason", table::name_of(reason)}}, evictions[static_cast<std::size_t>(reason)]);
    counter("maru_rescues_total", "Publications and removals of others that were completed for them.",
            table::Counter::rescues);
    families->begin("maru_checksum_failures_total",
                    "Objects that a reader found changed since they were stored, with checksum.mode verify.",
                    MetricType::Counter);
    families->row({}, from.control.super().checksum_failures.load(shm::relaxed));
}

void add_daemon_counters(const Exposition& from, Families* families) {
    const auto& facts = from.facts;
    families->begin(
        "maru_sweeps_total",
        "Sweeps of clients: gone (left without a goodbye), dead, goodbye (ended in order), and of "
        "hosts that were fenced.",
        MetricType::Counter);
    families->row({{"cause", "gone"}}, facts.sweeps_gone);
    families->row({{"cause", "dead"}}, facts.sweeps_dead);
    families->row({{"cause", "goodbye"}}, facts.measures.goodbyes);
    families->row({{"cause", "fenced"}}, facts.hosts_fenced);
    families->begin("maru_sweep_seconds", "How long the sweep of one client took.", MetricType::Histogram);
    families->histogram({}, facts.measures.sweep_seconds);
    families->begin("maru_reclaimed_pages_total",
                    "Pages that sweeps gave back, by the state in which they were found.",
                    MetricType::Counter);
    families->row({{"state", "reserved"}}, facts.swept.reserved);
    families->row({{"state", "publishing"}}, facts.swept.publishing_tentative);
    families->row({{"state", "retired"}}, facts.swept.retired);
    families->begin("maru_requests_total", "Requests over the socket; result ok or refused.",
                    MetricType::Counter);
    for (std::size_t kind = 0; kind < request_kinds.size(); ++kind) {
        const auto& requests = facts.measures.requests[kind];
        families->row({{"kind", request_kinds[kind]}, {"result", "ok"}}, requests.done);
        families->row({{"kind", request_kinds[kind]}, {"result", "refused"}}, requests.refused);
    }
    families->begin("maru_request_seconds", "From a request's arrival in the daemon to its answer.",
                    MetricType::Histogram);
    for (std::size_t kind = 0; kind < request_kinds.size(); ++kind)
        families->histogram({{"kind", request_kinds[kind]}}, facts.measures.requests[kind].seconds);
    families->begin("maru_reconnects_total", "Clients that came back to this daemon in their former slot.",
                    MetricType::Counter);
    families->row({}, facts.reconnects);
}

}  // namespace

std::string expose(const Exposition& exposition) {
    Families families;
    families.begin("maru_build_info", "Which maru this is; always 1.", MetricType::Gauge);
    families.row({{"version", exposition.facts.version}, {"commit", exposition.facts.commit}},
                 std::uint64_t{1});
    add_pools(exposition, &families);
    add_objects(exposition, &families);
    add_hosts(exposition, &families);
    add_lookups(exposition, &families);
    add_domain_counters(exposition, &families);
    add_daemon_counters(exposition, &families);
    return families.text();
}

}  // namespace maru::daemon
