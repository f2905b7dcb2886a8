// What a simulation is about: a few lines of text in scenarios/NAME.scenario.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "machine.hpp"

namespace maru::sim {

struct Range {
    std::uint32_t least = 0, most = 0;
    std::uint32_t pick(Random& random) const { return random.between(least, most); }
};

/// Weights of a random choice, by name.
using Mix = std::vector<std::pair<std::string, std::uint32_t>>;

struct Scenario {
    std::string name, about;
    Memory memory = Memory::sequential;

    // the table
    std::vector<std::uint32_t> pools{3};  // units of 4 KiB of each pool
    Range grow{0, 0};                     // units of a pool that is added in the run; 0: none is
    std::uint32_t granules = 1;           // of page records
    std::uint32_t chunks = 24;
    std::uint32_t client_slots = 20;
    std::uint32_t namespaces = 1;
    Range keys{1, 3};
    std::uint32_t ballast = 0;  // objects of another class that fill the bucket; a bucket has 7 slots
    bool same_tag = false;      // all keys meet in tag and bucket
    bool filled = false;        // keys are stored before the run
    Range epoch{1, 1};          // of the domain at the start; above 1 the bound is there too

    // who is there
    Range clients{2, 3}, threads{1, 3}, operations{1, 12};
    std::uint32_t daemons = 1;
    std::uint32_t respawns = 3;    // new clients at most, once others have gone
    std::uint32_t pin_steps = 40;  // how long a key pin is held
    Mix mix{{"store", 40}, {"get", 22}, {"pin", 8}, {"exists", 5}, {"delete", 15}, {"evict", 5}};
    Mix duties{{"idle", 4}};  // of daemons, beside sweeps

    // faults, chances per million steps
    std::uint32_t kill = 0, freeze = 0, kill_daemon = 0, gone = 0;
    std::uint32_t kill_sweeping = 0, freeze_sweeping = 0;  // a daemon, while it works
    bool solo = false;

    // Lock step: client threads take turns. A turn is so many steps, one number for all in a run, times one
    // for each of them.
    Range turn{0, 0}, ratio{1, 1};

    // what the runs together must show
    std::string mutant;              // a deliberate defect that this scenario is about
    std::vector<std::string> meets;  // what at least one of the runs must meet
    std::uint32_t rounds_max = 0;    // placements that a store may need; 0: no bound of its own

    // exhaustive: fixed scripts, one thread each ("CLIENT: store 0, get 0"); "d1: recover 0" is a daemon's,
    // "s1: ..." its successor's
    std::vector<std::string> scripts;
    std::uint32_t preemptions = 2, kills = 0;
    std::uint64_t schedules = 2000;  // what the suite runs

    bool exhaustive() const { return !scripts.empty(); }
    static std::optional<Scenario> read(const std::string& path, std::string* error);
};

}  // namespace maru::sim
