// Runs scenarios: sim SCENARIO [--runs N] [--seed N] [--trace] [--memory sequential|tso|weak]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "mutants.hpp"
#include "simulation.hpp"

using namespace maru::sim;

namespace {

int usage() {
    std::fprintf(stderr,
                 "usage: sim SCENARIO [--runs N] [--seed FIRST] [--trace] [--memory sequential|tso|weak]\n"
                 "           [--stop N] [--met]\n");
    return 2;
}

std::string without_numbers(const std::string& text) {
    std::string out;
    for (const char letter : text)
        if (letter < '0' || letter > '9') out += letter;
    return out;
}

}  // namespace

int main(int count, char** arguments) {
    std::string scenario_name;
    std::uint64_t runs = 1000, seed = 1, stop = 20;
    bool trace = false, met = false;
    std::string memory, mutant_name;
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        const auto value = [&]() -> const char* { return i + 1 < count ? arguments[++i] : ""; };
        if (argument == "--runs")
            runs = std::strtoull(value(), nullptr, 10);
        else if (argument == "--seed")
            seed = std::strtoull(value(), nullptr, 10);
        else if (argument == "--stop")
            stop = std::strtoull(value(), nullptr, 10);
        else if (argument == "--memory")
            memory = value();
        else if (argument == "--mutant")
            mutant_name = value();
        else if (argument == "--trace")
            trace = true;
        else if (argument == "--met")
            met = true;
        else if (argument[0] != '-' && scenario_name.empty())
            scenario_name = argument;
        else
            return usage();
    }
    if (!mutant_name.empty()) {
        const MutantPlan* plan = find_mutant(mutant_name);
        if (plan == nullptr) {
            std::fprintf(stderr, "sim: there is no mutant %s\n", mutant_name.c_str());
            return 2;
        }
        maru::active_mutant = plan->mutant;
    }
    if (scenario_name.empty()) return usage();
    std::string path = scenario_name;
    if (path.find('/') == std::string::npos)
        path = std::string(MARU_SIM_SCENARIOS) + "/" + path + ".scenario";
    std::string error;
    const auto scenario = Scenario::read(path, &error);
    if (!scenario) {
        std::fprintf(stderr, "sim: %s\n", error.c_str());
        return 2;
    }
    Memory model = scenario->memory;
    if (memory == "tso") model = Memory::total_store_order;
    if (memory == "weak") model = Memory::weak;
    if (memory == "sequential") model = Memory::sequential;
    Simulation simulation(*scenario, model);
    if (trace) {
        machine().trace = true;
        runs = 1;
    }
    struct Seen {
        std::uint64_t times = 0, seed = 0, steps = ~0ull;
        std::string text;
    };
    std::map<std::string, Seen> seen;
    std::uint64_t violations = 0, done = 0;
    const auto began = std::chrono::steady_clock::now();
    for (std::uint64_t s = seed; s < seed + runs && violations < stop; ++s) {
        const Outcome outcome = simulation.run(s);
        ++done;
        if (outcome.clean) continue;
        ++violations;
        Seen& entry = seen[without_numbers(outcome.violation)];
        ++entry.times;
        if (outcome.steps < entry.steps)
            entry.seed = s, entry.steps = outcome.steps, entry.text = outcome.violation;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf("%s: %llu schedules, %llu steps, %.1f s, %llu violations; longest operation %u steps (%s)\n",
                scenario->name.c_str(), static_cast<unsigned long long>(done),
                static_cast<unsigned long long>(simulation.steps()), seconds,
                static_cast<unsigned long long>(violations), machine().longest_operation,
                machine().longest_operation_name);
    for (const auto& [text, entry] : seen)
        std::printf("  %llu x %s\n      sim %s --seed %llu --trace   (%llu steps)\n",
                    static_cast<unsigned long long>(entry.times), entry.text.c_str(), scenario_name.c_str(),
                    static_cast<unsigned long long>(entry.seed),
                    static_cast<unsigned long long>(entry.steps));
    if (met)
        for (const auto& [what, times] : simulation.oracle().met)
            std::printf("  met %12llu  %s\n", static_cast<unsigned long long>(times), what.c_str());
    return violations == 0 ? 0 : 1;
}
