// The metadata of a few pages, as the host that owns the control region keeps it: each call is one message,
// and happens at one instant. And the rules about payload that are checked at each change of memory.
#pragma once

#include <array>
#include <cstdint>

#include "hosts.hpp"

namespace maru::caches {

constexpr int pages_max = 4, keys_max = 3, actors_max = 16;

/// Byte `index` of the object that was published with `seed`.
std::byte content(std::uint64_t seed, std::size_t index);
bool is_content(std::uint64_t seed, const std::byte* bytes, std::size_t size);

class Owner final : public MemoryWatch {
  public:
    struct Object {
        int page = -1;
        std::uint32_t generation = 0;
        std::size_t length = 0;
        std::uint64_t seed = 0;
        explicit operator bool() const { return page >= 0; }
    };
    enum class Work : std::uint8_t { none, surrender, of_the_dead, unpin_for_the_dead };
    struct Task {
        Work work = Work::none;
        int page = -1;
        std::uint32_t generation = 0;
        int actor = -1, pins = 0;
    };

    void begin(int pages, bool pins);

    // -- messages of clients
    /// A page that no other host has lines of; -1 when there is none yet. Then one is asked for.
    int allocate(int actor);
    /// False when the key exists; the page is free again.
    bool publish(int actor, int page, int key, std::size_t length, std::uint64_t seed);
    void abandon(int actor, int page);
    Object look_up(int actor, int key);  // pins where pins are in use
    bool still_there(const Object& object) const;
    void unpin(int actor, const Object& object);
    void remove(int key);

    // -- messages of daemons
    Task next_task(int host) const;
    bool finish(const Task& task);

    // -- verdicts
    void process_died(int actor);
    void host_stopped(int host);
    void host_fenced(int host);

    void written(int host, std::size_t line, const Line& before, const Line& now) override;
    /// At the end, when every dirty line has reached the memory.
    void look_at_memory() const;

  private:
    enum class Phase : std::uint8_t { free, reserved, published, surrendering, dead, quarantined };
    struct Page {
        Phase phase = Phase::free;
        int writer = -1;  // actor
        int host = -1;    // whose caches may hold lines of it that were written; -1: nobody's
        int key = -1;
        Object object;
        std::array<int, actors_max> pins{}, pins_of_dead{};  // by actor
    };
    Page& page(int number) { return pages_[static_cast<std::size_t>(number)]; }
    const Page& page(int number) const { return pages_[static_cast<std::size_t>(number)]; }
    static bool pinned(const Page& page);
    void release(Page& page, int host);

    std::array<Page, pages_max> pages_{};
    int count_ = 0;
    bool pins_ = false;
};

}  // namespace maru::caches
