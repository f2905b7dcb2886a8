#include "owner.hpp"

#include <algorithm>
#include <utility>

#include "duty.hpp"

namespace maru::caches {

std::byte content(std::uint64_t seed, std::size_t index) {
    std::uint64_t mixed = (seed + index / 8) * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
    return static_cast<std::byte>(mixed >> (8 * (index % 8)));
}

bool is_content(std::uint64_t seed, const std::byte* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
        if (bytes[i] != content(seed, i)) return false;
    return true;
}

void Owner::begin(int pages, bool pins) {
    pages_ = {};
    count_ = pages;
    pins_ = pins;
}

bool Owner::pinned(const Page& page) {
    const auto some = [](int count) { return count > 0; };
    return std::any_of(page.pins.begin(), page.pins.end(), some) ||
           std::any_of(page.pins_of_dead.begin(), page.pins_of_dead.end(), some);
}

void Owner::release(Page& page, int host) {
    page.phase = Phase::free;
    page.writer = page.key = -1;
    page.host = host;
    ++page.object.generation;
}

int Owner::allocate(int actor) {
    const int host = hosts().host_of(actor);
    const int first = static_cast<int>(hosts().random().below(static_cast<std::uint32_t>(count_)));
    int foreign = -1;
    for (int i = 0; i < count_; ++i) {
        const int number = (first + i) % count_;
        Page& mine = page(number);
        if (mine.phase != Phase::free) continue;
        if (mine.host >= 0 && mine.host != host) {
            foreign = number;
            continue;
        }
        mine.phase = Phase::reserved;
        mine.writer = actor;
        mine.host = host;
        ++mine.object.generation;
        hosts().note("allocate page %d", number);
        return number;
    }
    if (foreign >= 0) page(foreign).phase = Phase::surrendering;
    return -1;
}

bool Owner::publish(int actor, int number, int key, std::size_t length, std::uint64_t seed) {
    Page& mine = page(number);
    if (mine.phase != Phase::reserved || mine.writer != actor) {
        hosts().violate("a page was published by an actor that does not hold it");
        return false;
    }
    const bool exists = std::any_of(pages_.begin(), pages_.begin() + count_, [&](const Page& other) {
        return other.phase == Phase::published && other.key == key;
    });
    if (exists) {
        release(mine, mine.host);
        return false;
    }
    mine.phase = Phase::published;
    mine.key = key;
    mine.object = {number, mine.object.generation, length, seed};
    ++hosts().met()["published"];
    hosts().note("publish page %d, %zu bytes", number, length);
    return true;
}

void Owner::abandon(int actor, int number) {
    Page& mine = page(number);
    if (mine.phase == Phase::reserved && mine.writer == actor) release(mine, mine.host);
    ++hosts().met()["abandoned"];
}

Owner::Object Owner::look_up(int actor, int key) {
    for (int i = 0; i < count_; ++i) {
        Page& seen = page(i);
        if (seen.phase != Phase::published || seen.key != key) continue;
        if (pins_) ++seen.pins[static_cast<std::size_t>(actor)];
        return seen.object;
    }
    return {};
}

bool Owner::still_there(const Object& object) const {
    const Page& seen = page(object.page);
    return seen.phase == Phase::published && seen.object.generation == object.generation;
}

void Owner::unpin(int actor, const Object& object) {
    if (pins_) --page(object.page).pins[static_cast<std::size_t>(actor)];
}

void Owner::remove(int key) {
    for (int i = 0; i < count_; ++i) {
        Page& seen = page(i);
        if (seen.phase != Phase::published || seen.key != key || pinned(seen)) continue;
        hosts().note("remove page %d", i);
        ++hosts().met()["removed"];
        release(seen, seen.host);
    }
}

Owner::Task Owner::next_task(int host) const {
    for (int i = 0; i < count_; ++i) {
        const Page& seen = page(i);
        if (seen.host == host && seen.phase == Phase::surrendering)
            return {Work::surrender, i, seen.object.generation};
        if (seen.host == host && seen.phase == Phase::dead)
            return {Work::of_the_dead, i, seen.object.generation};
        for (int actor = 0; actor < actors_max; ++actor) {
            const int pins = seen.pins_of_dead[static_cast<std::size_t>(actor)];
            if (pins > 0 && hosts().host_of(actor) == host)
                return {Work::unpin_for_the_dead, i, seen.object.generation, actor, pins};
        }
    }
    return {};
}

bool Owner::finish(const Task& task) {
    Page& mine = page(task.page);
    if (mine.object.generation != task.generation) return false;  // a predecessor had already finished it
    if (task.work == Work::unpin_for_the_dead) {
        int& pins = mine.pins_of_dead[static_cast<std::size_t>(task.actor)];
        if (pins < task.pins) return false;  // a predecessor had already finished it
        pins -= task.pins;
        ++hosts().met()["pin of a dead process released"];
        return true;
    }
    const bool surrender = task.work == Work::surrender;
    if (mine.phase != (surrender ? Phase::surrendering : Phase::dead)) return false;
    ++hosts().met()[surrender ? "handed over" : "page of a dead process given back"];
    hosts().note("page %d is nobody's", task.page);
    release(mine, -1);
    return true;
}

void Owner::process_died(int actor) {
    ++hosts().met()["process killed"];
    for (int i = 0; i < count_; ++i) {
        Page& seen = page(i);
        seen.pins_of_dead[static_cast<std::size_t>(actor)] +=
            std::exchange(seen.pins[static_cast<std::size_t>(actor)], 0);
        if (seen.phase == Phase::reserved && seen.writer == actor) seen.phase = Phase::dead;
    }
}

void Owner::host_stopped(int host) {
    ++hosts().met()["host stopped"];
    for (int i = 0; i < count_; ++i) {
        Page& seen = page(i);
        if (seen.host != host || seen.phase == Phase::published) continue;
        if (broken(Duty::dead_host_not_fenced))
            release(seen, -1);
        else
            seen.phase = Phase::quarantined;
    }
}

void Owner::host_fenced(int host) {
    ++hosts().met()["host fenced"];
    for (int i = 0; i < count_; ++i) {
        Page& seen = page(i);
        for (int actor = 0; actor < hosts().actors(); ++actor)
            if (hosts().host_of(actor) == host)
                seen.pins[static_cast<std::size_t>(actor)] =
                    seen.pins_of_dead[static_cast<std::size_t>(actor)] = 0;
        if (seen.host != host) continue;
        if (seen.phase == Phase::published)
            seen.host = -1;
        else
            release(seen, -1);
    }
}

void Owner::written(int host, std::size_t line, const Line& before, const Line& now) {
    const std::size_t number = line / lines_per_page;
    if (number >= static_cast<std::size_t>(count_)) return;
    const Page& seen = pages_[number];
    const std::string where =
        " of host " + std::to_string(host) + " landed on page " + std::to_string(number);
    if (seen.phase == Phase::reserved && hosts().host_of(seen.writer) != host && before != now)
        hosts().violate("a line" + where + ", which another host writes");
    if (seen.phase != Phase::published) return;
    const std::size_t start = line % lines_per_page * shm::cache_line;
    const Object& object = seen.object;
    for (std::size_t i = start; i < std::min(start + shm::cache_line, object.length); ++i)
        if (now[i - start] != content(object.seed, i) && before[i - start] == content(object.seed, i))
            return hosts().violate("a line" + where + " and damaged a published object");
}

void Owner::look_at_memory() const {
    for (int i = 0; i < count_; ++i) {
        const Object& object = page(i).object;
        if (page(i).phase != Phase::published) continue;
        for (std::size_t at = 0; at < object.length; ++at) {
            const Line& line =
                hosts().memory(static_cast<std::size_t>(i) * lines_per_page + at / shm::cache_line);
            if (line[at % shm::cache_line] != content(object.seed, at))
                return hosts().violate("a published object is not what was published, at the end");
        }
    }
}

}  // namespace maru::caches
