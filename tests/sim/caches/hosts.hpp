// Several hosts over one memory, each with a cache that the others do not see, and the actors that run on
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "random.hpp"
#include "shm/cache_line.hpp"

namespace maru::caches {

using Line = std::array<std::byte, shm::cache_line>;
constexpr std::size_t lines_per_page = 4, page_bytes = lines_per_page * shm::cache_line;

/// What a line's memory was changed by, for the rules about who may.
class MemoryWatch {
  public:
    virtual ~MemoryWatch() = default;
    virtual void written(int host, std::size_t line, const Line& before, const Line& now) = 0;
};

/// The hosts, their caches, and the scheduler of the actors. One at a time: the functions of shm::line work
/// on the one that runs.
///
/// A cache holds whole lines; a store to a line that is not there fetches it first, and what is written back
/// is the whole line. At random moments lines are written back, evicted and fetched. Of what an actor does,
/// streamed stores and flush instructions take effect late, in any order, until a fence; loads may come late
/// until a load fence.
class Hosts {
  public:
    struct Config {
        int hosts = 3;
        std::size_t lines = 16;
        bool clean_writes = false;  // a host may write clean lines back, but fetches only beside its accesses
    };
    static constexpr std::uint64_t steps_max = 6000;

    Hosts();
    ~Hosts();
    Hosts(const Hosts&) = delete;
    Hosts& operator=(const Hosts&) = delete;

    void begin(std::uint64_t seed, const Config& config, MemoryWatch* watch);
    /// Adds an actor; `body(number)` runs on its fiber and never returns.
    int add(int host, void (*body)(int actor));
    /// Runs until the steps are used up or a rule is violated. `faults` is called before each step.
    void run(void (*faults)());
    /// Every dirty line of every host reaches the memory, as sooner or later it may.
    void write_everything_back();

    // -- called by actors
    void step();
    /// A message to the owner of the metadata: `operation` happens at one instant. What a fence has ordered
    /// before it is done by then; what no fence has ordered may still be under way.
    template <class Operation>
    auto message(Operation&& operation) {
        step();
        complete_fenced(running_);
        return operation();
    }
    /// The actor looks at what it has loaded: the loads are done.
    void use_loads() { complete(running_, Pending::Kind::load); }
    int actors() const { return static_cast<int>(actors_.size()); }
    int host_of(int actor) const { return actors_[static_cast<std::size_t>(actor)].host; }

    // -- faults
    void kill(int actor);  // its fences are done by the kernel that ends it; its loads are not
    void restart(int actor);
    void stop_host(int host);   // its actors stop; its cache may still write lines back
    void fence_host(int host);  // its cache is lost
    bool stopped(int host) const { return stopped_[static_cast<std::size_t>(host)]; }

    std::byte* address(std::size_t line) const { return base_ + line * shm::cache_line; }
    const Line& memory(std::size_t line) const { return memory_[line]; }

    void violate(const std::string& what);
    const std::string& violation() const { return violation_; }
    std::uint64_t steps() const { return steps_; }
    sim::Random& random() { return random_; }
    std::map<std::string, std::uint64_t>& met() { return met_; }
    void note(const char* format, ...) __attribute__((format(printf, 2, 3)));
    bool trace = false;

    // -- called by shm::line
    void load(std::byte* to, const std::byte* from, std::size_t size);
    void store(const std::byte* to, const std::byte* from, std::size_t size);
    void stream(const std::byte* to, const std::byte* from, std::size_t size);
    void flush(const void* at, bool drop);
    void fence_stores();
    void fence_loads() { use_loads(); }
    void fence_all();

  private:
    struct Cached {
        bool valid = false, dirty = false;
        Line data{};
    };
    struct Pending {
        enum class Kind : std::uint8_t { clean, drop, stream, load } kind;
        std::size_t line = 0, offset = 0, size = 0;
        std::byte* to = nullptr;
        Line data{};
        bool fenced = false;  // to be done before the next store or message
    };
    struct Actor {
        int host = 0;
        bool runs = true;
        void (*body)(int) = nullptr;
        sim::Fiber fiber;
        std::vector<Pending> pending;
    };

    static void start(void* argument);
    std::size_t line_of(const void* at);
    Cached& cached(int host, std::size_t line) { return caches_[static_cast<std::size_t>(host)][line]; }
    Actor& actor(int number) { return actors_[static_cast<std::size_t>(number)]; }
    int my_host() { return actor(running_).host; }
    void fetch(int host, std::size_t line);
    void to_memory(int host, std::size_t line, const Line& data);
    void write_line_back(int host, std::size_t line);
    void do_pending(Actor& who, std::size_t index);
    void complete(int number, Pending::Kind kind);
    void complete_fenced(int number);
    void complete_line(int number, std::size_t line);
    void complete_all(int number);
    void background();
    void access(std::size_t line);

    Config config_;
    MemoryWatch* watch_ = nullptr;
    sim::Random random_;
    std::byte* base_ = nullptr;
    std::vector<Line> memory_;
    std::vector<std::vector<Cached>> caches_;
    std::vector<Actor> actors_;
    std::vector<bool> stopped_;
    std::uint32_t background_percent_ = 30, burst_percent_ = 50;
    bool late_loads_ = false;
    sim::Fiber scheduler_;
    int running_ = -1;
    std::uint64_t steps_ = 0;
    std::string violation_;
    std::map<std::string, std::uint64_t> met_;
};

Hosts& hosts();

}  // namespace maru::caches
