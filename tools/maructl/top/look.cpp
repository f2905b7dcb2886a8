#include "top/look.hpp"

#include <algorithm>
#include <ctime>
#include <map>

#include "fields.hpp"

namespace maru::ctl::top {
namespace {

Device device_of(const Json& pool) {
    Device device{text(pool, "name"), text(pool, "kind"), text(pool, "path"), number(pool, "bytes", "total"),
                  number(pool, "bytes", "free") + number(pool, "bytes", "unclaimed")};
    device.free = std::min(device.free, device.total);
    device.used = device.total - device.free;
    return device;
}

Instance instance_of(const Json& client) {
    Instance instance;
    instance.slot = number(client, "slot");
    instance.generation = number(client, "generation");
    instance.name = text(client, "instance_id");
    instance.name_space = text(client, "namespace");
    instance.state = text(client, "state");
    instance.pid = number(client, "pid");
    instance.uid = number(client, "uid");
    instance.connected_s = number(client, "connected_s");
    instance.regions = number(client, "regions");
    instance.allocated = number(client, "region_bytes");
    instance.leases = number(client, "leases");
    instance.key_pins = number(client, "key_pins");
    instance.lookups = number(client, "counters", "lookups");
    instance.hits = number(client, "counters", "hits");
    instance.stores = number(client, "counters", "stores");
    instance.duplicates = number(client, "counters", "duplicates");
    instance.deletes = number(client, "counters", "deletes");
    instance.evictions = number(client, "counters", "evictions");
    return instance;
}

const Instance* same_instance(const Instance& instance, const Look* look) {
    if (look == nullptr) return nullptr;
    const auto found =
        std::find_if(look->instances.begin(), look->instances.end(), [&](const Instance& other) {
            return other.slot == instance.slot && other.generation == instance.generation;
        });
    return found == look->instances.end() ? nullptr : &*found;
}

std::uint64_t growth(std::uint64_t now, std::uint64_t before) {
    return now > before ? now - before : 0;
}

}  // namespace

std::uint64_t Look::total() const {
    std::uint64_t bytes = 0;
    for (const auto& device : devices)
        bytes += device.total;
    return bytes;
}

std::uint64_t Look::free() const {
    std::uint64_t bytes = 0;
    for (const auto& device : devices)
        bytes += device.free;
    return bytes;
}

Result<Look> look_at(Daemon& daemon) {
    Look look;
    auto status = daemon.ask_complete("status", Json::object());
    if (!status) return status.error();
    look.status = std::move(*status);
    look.time = std::chrono::system_clock::now();
    look.at = MonotonicClock::now();
    for (const auto& pool : field(look.status, "pools"))
        look.devices.push_back(device_of(pool));
    // Bytes of pages that are in use, by the client slot that holds their region.
    std::map<std::uint64_t, std::uint64_t> used;
    const auto regions = daemon.ask_list("regions", "regions", Json::object(), [&](const Json& rows) {
        for (const auto& region : rows)
            if (field(region, "holder").is_object())
                used[number(region, "holder", "slot")] +=
                    number(region, "page_bytes") *
                    growth(number(region, "pages", "total"), number(region, "pages", "free"));
        return true;
    });
    if (!regions) return regions.error();
    const auto clients = daemon.ask_list("clients", "clients", Json::object(), [&](const Json& rows) {
        for (const auto& client : rows)
            if (field(client, "is_daemon") != Json(true)) look.instances.push_back(instance_of(client));
        return true;
    });
    if (!clients) return clients.error();
    for (auto& instance : look.instances) {
        instance.used = std::min(used[instance.slot], instance.allocated);
        instance.slack = instance.allocated - instance.used;
    }
    return look;
}

Pace pace_of(const Instance& instance, const Look& now, const Look* before) {
    const Instance* earlier = same_instance(instance, before);
    const Instance nothing;
    const Instance& from = earlier == nullptr ? nothing : *earlier;
    const double seconds = earlier == nullptr ? static_cast<double>(instance.connected_s)
                                              : std::chrono::duration<double>(now.at - before->at).count();
    Pace pace;
    const auto operations = growth(instance.operations(), from.operations());
    // Connected less than a second ago: as if it were one.
    pace.operations_a_second =
        static_cast<double>(operations) / (earlier == nullptr ? std::max(1.0, seconds) : seconds);
    const auto lookups = growth(instance.lookups, from.lookups), hits = growth(instance.hits, from.hits);
    if (lookups > 0)
        pace.hit_percent =
            100.0 * static_cast<double>(std::min(hits, lookups)) / static_cast<double>(lookups);
    return pace;
}

std::int64_t change_of(const Device& device, const Look* before) {
    if (before == nullptr) return 0;
    for (const auto& earlier : before->devices)
        if (earlier.name == device.name)
            return static_cast<std::int64_t>(device.used) - static_cast<std::int64_t>(earlier.used);
    return 0;
}

std::string text_of(std::chrono::system_clock::time_point time) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[32];
    const auto length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return std::string(text, length);
}

}  // namespace maru::ctl::top
