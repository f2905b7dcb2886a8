// Clients of several hosts that publish, read and remove objects, and a daemon on each host that hands pages
// over and gives back what dead processes held.
#include <array>
#include <cstring>

#include "duty.hpp"
#include "owner.hpp"
#include "scenario.hpp"
#include "shm/across_hosts.hpp"

namespace maru::caches {
namespace {

constexpr int hosts_here = 3, clients_per_host = 2, pages_here = 3;

struct World {
    Owner owner;
    bool pins = false, kills = false, stops = false;
};
World world;

std::byte* address_of(int page) {
    return hosts().address(static_cast<std::size_t>(page) * lines_per_page);
}
sim::Random& random() {
    return hosts().random();
}

/// What a reader asks after a copy.
struct Check {
    const Owner::Object& object;
    bool checksum;
    bool still_there() {
        return hosts().message([&] {
            const bool there = world.owner.still_there(object);
            hosts().note("page %d %s", object.page, there ? "still there" : "moved");
            return there;
        });
    }
    bool bytes_match(const void* bytes, std::size_t size) {
        hosts().step();  // others go on before the bytes are looked at
        hosts().use_loads();
        return !checksum || is_content(object.seed, static_cast<const std::byte*>(bytes), size);
    }
};

void get(int actor, int key) {
    const Owner::Object object = hosts().message([&] { return world.owner.look_up(actor, key); });
    if (!object) return;
    std::array<std::byte, page_bytes> copy;
    Check check{object, random().one_in(2)};
    const shm::Reading reading =
        shm::read_payload(copy.data(), address_of(object.page), object.length, check);
    hosts().use_loads();
    if (reading == shm::Reading::whole) {
        ++hosts().met()["read"];
        if (!is_content(object.seed, copy.data(), object.length))
            hosts().violate("a reader got bytes that are not the object's");
    } else if (reading == shm::Reading::torn) {
        hosts().violate("an object that stands could not be read");
    } else {
        ++hosts().met()["read too late"];
        if (world.pins) hosts().violate("an object was replaced under its pin");
    }
    if (!world.pins) return;
    const auto unpin = [&] {
        return hosts().message([&] { return world.owner.unpin(actor, object), true; });
    };
    if (broken(Duty::reader_leaves_lines))
        unpin();
    else
        shm::give_up_page(address_of(object.page), page_bytes, unpin);
}

/// An engine that writes its object in place, in pieces and out of order, and more of the page than it
/// publishes.
void write_in_place(int page, const std::byte* bytes, std::size_t length) {
    std::byte* at = address_of(page);
    const std::size_t half = length / 2;
    shm::line::store(at + half, bytes + half, length - half);
    if (half > 0) shm::line::store(at, bytes, half);
    if (length < page_bytes && random().one_in(2)) {
        std::array<std::byte, page_bytes> more;
        more.fill(std::byte{0x5a});
        shm::line::store(at + length, more.data(), page_bytes - length);
    }
}

void put(int actor, int key) {
    const int page = hosts().message([&] { return world.owner.allocate(actor); });
    if (page < 0) return;
    const std::size_t length = random().one_in(8)   ? 0
                               : random().one_in(3) ? page_bytes
                                                    : random().below(page_bytes);
    const std::uint64_t seed = random().bits();
    std::array<std::byte, page_bytes> bytes;
    for (std::size_t i = 0; i < length; ++i)
        bytes[i] = content(seed, i);
    const auto publish = [&] {
        return hosts().message([&] { return world.owner.publish(actor, page, key, length, seed); });
    };
    const std::uint32_t way = random().below(4);
    if (way == 0) {
        shm::publish_payload(address_of(page), bytes.data(), length, publish, shm::Copy::cached);
    } else if (way == 1) {
        shm::publish_payload(address_of(page), bytes.data(), length, publish, shm::Copy::streamed);
    } else {
        write_in_place(page, bytes.data(), length);
        if (way == 2)
            shm::publish_in_place(address_of(page), length, publish);
        else
            hosts().message([&] { return world.owner.abandon(actor, page), true; });
    }
}

void client(int actor) {
    for (;;) {
        const int key = static_cast<int>(random().below(keys_max));
        const std::uint32_t what = random().below(10);
        if (what < 4)
            put(actor, key);
        else if (what < 8)
            get(actor, key);
        else
            hosts().message([&] { return world.owner.remove(key), true; });
    }
}

void host_daemon(int actor) {
    const int host = hosts().host_of(actor);
    for (;;) {
        const Owner::Task task = hosts().message([&] { return world.owner.next_task(host); });
        if (task.work == Owner::Work::none) continue;
        const auto finish = [&] { return hosts().message([&] { return world.owner.finish(task); }); };
        const bool of_the_dead = task.work != Owner::Work::surrender;
        if (of_the_dead && broken(Duty::dead_process_not_flushed))
            finish();
        else if (broken(Duty::object_only_given_up))
            shm::give_up_page(address_of(task.page), page_bytes / 2, finish);
        else
            shm::give_up_page(address_of(task.page), page_bytes, finish);
    }
}

}  // namespace

void set_up_payload(const Scenario& scenario, std::uint64_t seed) {
    world.pins = scenario.clean_writes;
    world.kills = scenario.process_kills;
    world.stops = scenario.host_stops;
    world.owner.begin(pages_here, world.pins);
    Hosts::Config config{hosts_here, pages_here * lines_per_page, scenario.clean_writes};
    hosts().begin(seed, config, &world.owner);
    for (int host = 0; host < hosts_here; ++host) {
        for (int i = 0; i < clients_per_host; ++i)
            hosts().add(host, client);
        hosts().add(host, host_daemon);
    }
}

/// By chance: a process dies and another takes its place, a daemon dies, a host stops and is fenced later.
void payload_faults() {
    if (world.kills && random().one_in(150)) {
        const int actor = static_cast<int>(random().below(hosts_here * (clients_per_host + 1)));
        if (!hosts().stopped(hosts().host_of(actor))) {
            hosts().kill(actor);
            world.owner.process_died(actor);
            hosts().restart(actor);
        }
    }
    if (!world.stops) return;
    for (int host = 0; host < hosts_here; ++host) {
        if (!hosts().stopped(host)) {
            if (!random().one_in(2500)) continue;
            hosts().stop_host(host);
            world.owner.host_stopped(host);
        } else if (random().one_in(300)) {
            hosts().fence_host(host);
            world.owner.host_fenced(host);
            for (int actor = 0; actor < hosts_here * (clients_per_host + 1); ++actor)
                if (hosts().host_of(actor) == host) hosts().restart(actor);
        }
    }
}

void payload_end() {
    hosts().write_everything_back();
    world.owner.look_at_memory();
}

}  // namespace maru::caches
