// Runs one scenario; tests/sim/README.md says how to read what it prints.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "mutants.hpp"
#include "simulation.hpp"

using namespace maru::sim;

namespace {

struct Options {
    std::string scenario, memory, mutant, schedule;
    std::uint64_t runs = 0, seed = 0, stop = 20, seconds = 0, preemptions = ~0ull;
    bool trace = false, met = false, list_mutants = false;
};

int usage() {
    std::fprintf(stderr,
                 "usage: sim SCENARIO [--runs N] [--seed FIRST | --schedule AT:CHOICE,...] [--trace]\n"
                 "           [--memory sequential|tso|weak] [--mutant NAME] [--stop VIOLATIONS] [--seconds "
                 "N] [--met]\n"
                 "           [--preemptions N]\n"
                 "       sim --list-mutants\n");
    return 2;
}

bool parse(int count, char** arguments, Options* options) {
    const std::map<std::string, std::string*> texts{
        {"--memory", &options->memory}, {"--mutant", &options->mutant}, {"--schedule", &options->schedule}};
    const std::map<std::string, std::uint64_t*> numbers{{"--runs", &options->runs},
                                                        {"--seed", &options->seed},
                                                        {"--stop", &options->stop},
                                                        {"--seconds", &options->seconds},
                                                        {"--preemptions", &options->preemptions}};
    const std::map<std::string, bool*> flags{
        {"--trace", &options->trace}, {"--met", &options->met}, {"--list-mutants", &options->list_mutants}};
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        if (const auto flag = flags.find(argument); flag != flags.end()) {
            *flag->second = true;
            continue;
        }
        const auto text = texts.find(argument);
        const auto number = numbers.find(argument);
        if (text == texts.end() && number == numbers.end()) {
            if (argument[0] == '-' || !options->scenario.empty()) return false;
            options->scenario = argument;
            continue;
        }
        if (++i == count) return false;
        if (text != texts.end())
            *text->second = arguments[i];
        else
            *number->second = std::strtoull(arguments[i], nullptr, 10);
    }
    return options->list_mutants || !options->scenario.empty();
}

unsigned long long wide(std::uint64_t value) {
    return value;
}

std::string without_numbers(std::string text) {
    std::erase_if(text, [](char letter) { return letter >= '0' && letter <= '9'; });
    return text;
}

using Decisions = std::vector<Simulation::Decision>;

/// The choices that differ from the first one: "12:1,40:2".
std::string name_of(const Decisions& decisions) {
    std::string name;
    for (std::size_t at = 0; at < decisions.size(); ++at) {
        if (decisions[at].chosen == 0) continue;
        if (!name.empty()) name += ',';
        name += std::to_string(at) + ':' + std::to_string(decisions[at].chosen);
    }
    return name.empty() ? "0:0" : name;
}

Decisions read_decisions(const std::string& name) {
    Decisions decisions;
    const char* at = name.c_str();
    while (*at != 0) {
        char* end = nullptr;
        const std::size_t place = std::strtoull(at, &end, 10);
        if (*end != ':') break;
        const auto chosen = static_cast<std::uint32_t>(std::strtoul(end + 1, &end, 10));
        if (place > 1'000'000) break;
        if (decisions.size() <= place) decisions.resize(place + 1);
        decisions[place] = {chosen, chosen + 1};
        at = *end == ',' ? end + 1 : end;
    }
    return decisions;
}

/// What was violated, in how many schedules, and the shortest of them.
class Findings {
  public:
    void add(const Outcome& outcome, std::string replay) {
        ++total_;
        Entry& entry = entries_[without_numbers(outcome.violation)];
        ++entry.times;
        if (outcome.steps >= entry.steps) return;
        entry.steps = outcome.steps;
        entry.text = outcome.violation;
        entry.replay = std::move(replay);
    }
    std::uint64_t total() const { return total_; }
    void print(const Options& options) const {
        std::string settings;
        if (!options.memory.empty()) settings += " --memory " + options.memory;
        if (!options.mutant.empty()) settings += " --mutant " + options.mutant;
        for (const auto& [text, entry] : entries_)
            std::printf(
                "VIOLATION %s\n  in %llu schedules, the shortest of %llu steps; replay with\n"
                "  sim %s%s %s --trace\n",
                entry.text.c_str(), wide(entry.times), wide(entry.steps), options.scenario.c_str(),
                settings.c_str(), entry.replay.c_str());
    }

  private:
    struct Entry {
        std::uint64_t times = 0, steps = ~0ull;
        std::string text, replay;
    };
    std::map<std::string, Entry> entries_;
    std::uint64_t total_ = 0;
};

/// Time that a caller gives; without one a run ends by its count alone.
class Stopwatch {
  public:
    explicit Stopwatch(std::uint64_t seconds) : seconds_(static_cast<double>(seconds)) {}
    double passed() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    }
    bool over() const { return seconds_ > 0 && passed() > seconds_; }

  private:
    double seconds_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

std::uint64_t run_random(Simulation& simulation, const Options& options, std::uint64_t runs,
                         Findings& findings, const Stopwatch& time, bool sampled) {
    std::uint64_t done = 0;
    for (; done < runs && findings.total() < options.stop && !time.over(); ++done) {
        const std::uint64_t seed = std::max<std::uint64_t>(options.seed, 1) + done;
        const Outcome outcome = sampled ? simulation.run_sampled(seed) : simulation.run(seed);
        if (!outcome.clean) findings.add(outcome, "--seed " + std::to_string(seed));
    }
    return done;
}

std::uint64_t run_exhaustive(Simulation& simulation, const Options& options, std::uint64_t runs,
                             Findings& findings, const Stopwatch& time, bool* all) {
    Decisions decisions = read_decisions(options.schedule);
    std::uint64_t done = 0;
    while (done < runs && findings.total() < options.stop && !time.over()) {
        const Outcome outcome = simulation.run_decided(decisions);
        ++done;
        if (!outcome.clean) findings.add(outcome, "--schedule " + name_of(decisions));
        *all = !Simulation::next(decisions);
        if (*all || options.trace) break;
    }
    return done;
}

bool choose_mutant(const std::string& name) {
    if (name.empty()) return true;
    const MutantPlan* plan = find_mutant(name);
    if (plan == nullptr) {
        std::fprintf(stderr, "sim: there is no mutant %s\n", name.c_str());
        return false;
    }
    maru::active_mutant = plan->mutant;
    return true;
}

/// What the scenario is there for and no run has met.
std::vector<std::string> not_met(const Scenario& scenario, const Oracle& oracle) {
    std::vector<std::string> missing;
    for (const std::string& what : scenario.meets)
        if (!oracle.met.contains(what)) missing.push_back(what);
    return missing;
}

void print_rounds(const Oracle& oracle) {
    if (oracle.rounds.empty()) return;
    std::printf("  placements of a store: worst %u;", oracle.rounds.rbegin()->first);
    for (const auto& [placements, stores] : oracle.rounds)
        std::printf(" %ux%llu", placements, wide(stores));
    std::printf("\n");
}

int run(const Options& options, Scenario scenario) {
    if (options.preemptions != ~0ull) scenario.preemptions = static_cast<std::uint32_t>(options.preemptions);
    Memory memory = scenario.memory;
    if (options.memory == "tso")
        memory = Memory::total_store_order;
    else if (options.memory == "weak")
        memory = Memory::weak;
    else if (options.memory == "sequential")
        memory = Memory::sequential;
    else if (!options.memory.empty())
        return usage();
    if (!choose_mutant(options.mutant.empty() ? scenario.mutant : options.mutant)) return 2;
    Simulation simulation(scenario, memory);
    machine().trace = options.trace;
    const std::uint64_t runs = options.trace ? 1 : options.runs != 0 ? options.runs : scenario.schedules;
    const Stopwatch time(options.seconds);
    Findings findings;
    bool all = false;
    const bool enumerated = scenario.exhaustive() && options.seed == 0;
    const std::uint64_t done =
        enumerated ? run_exhaustive(simulation, options, runs, findings, time, &all)
                   : run_random(simulation, options, runs, findings, time, scenario.exhaustive());
    // Of a search for a mutant, which ends early, and of one schedule run again nothing of that is expected.
    const bool whole = options.mutant.empty() && done > 1;
    const auto missing = whole ? not_met(scenario, simulation.oracle()) : std::vector<std::string>();
    const std::uint64_t violations = findings.total() + missing.size();
    std::printf(
        "%s: %llu schedules%s, %llu steps, %.1f s, %llu violations; longest operation %u steps (%s)\n",
        scenario.name.c_str(), wide(done), all ? " (all)" : "", wide(simulation.steps()), time.passed(),
        wide(violations), machine().longest_operation, machine().longest_operation_name);
    if (scenario.turn.most > 0 || options.met) print_rounds(simulation.oracle());
    for (const std::string& what : missing)
        std::printf("VIOLATION no schedule has met: %s\n", what.c_str());
    findings.print(options);
    if (options.met)
        for (const auto& [what, times] : simulation.oracle().met)
            std::printf("  met %12llu  %s\n", wide(times), what.c_str());
    return violations == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
    Options options;
    if (!parse(count, arguments, &options)) return usage();
    if (options.list_mutants) {
        for (const auto& plan : mutant_plans())
            std::printf("%s\t%s\t%s\n", plan.name, plan.buffers_only ? "buffers" : "any", plan.scenarios);
        return 0;
    }
    std::string path = options.scenario, error;
    if (path.find('/') == std::string::npos)
        path = std::string(MARU_SIM_SCENARIOS) + "/" + path + ".scenario";
    const auto scenario = Scenario::read(path, &error);
    if (!scenario) {
        std::fprintf(stderr, "sim: %s\n", error.c_str());
        return 2;
    }
    return run(options, *scenario);
}
