// Runs schedules of simulated hosts; README.md beside this file says how to read what it prints.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "hosts.hpp"
#include "mutants.hpp"
#include "scenario.hpp"

using namespace maru;
using namespace maru::caches;

namespace {

constexpr std::uint64_t mutant_seeds_max = 5'000;

struct Options {
    std::string scenario, mutant, junit;
    std::uint64_t seed = 0, times = 1;
    bool trace = false;
};

int usage() {
    std::fprintf(stderr,
                 "usage: caches [--times N] [--junit FILE]               the suite\n"
                 "       caches SCENARIO --seed N [--mutant NAME] [--trace]   one schedule again\n");
    return 2;
}

bool parse(int count, char** arguments, Options* options) {
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        if (argument == "--trace") {
            options->trace = true;
        } else if (argument[0] != '-') {
            if (!options->scenario.empty()) return false;
            options->scenario = argument;
        } else if (++i == count) {
            return false;
        } else if (argument == "--mutant") {
            options->mutant = arguments[i];
        } else if (argument == "--junit") {
            options->junit = arguments[i];
        } else if (argument == "--seed" || argument == "--times") {
            char* end = nullptr;
            (argument == "--seed" ? options->seed : options->times) = std::strtoull(arguments[i], &end, 10);
            if (*end != 0) return false;
        } else {
            return false;
        }
    }
    return options->scenario.empty() ? options->mutant.empty() : options->seed != 0;
}

const Scenario* find_scenario(const std::string& name) {
    for (const Scenario& scenario : scenarios())
        if (name == scenario.name) return &scenario;
    std::fprintf(stderr, "caches: there is no scenario %s\n", name.c_str());
    return nullptr;
}

void break_on_purpose(const MutantPlan* plan) {
    shm::active_flush_mutant = plan != nullptr ? plan->code : shm::FlushMutant::none;
    broken_duty = plan != nullptr ? plan->duty : Duty::none;
}

unsigned long long wide(std::uint64_t value) {
    return value;
}

/// One test of the suite and how it ended; an empty `failure` is a pass.
struct Result {
    std::string name, failure, text;
};

Result run_scenario(const Scenario& scenario, std::uint64_t times) {
    break_on_purpose(nullptr);
    hosts().met().clear();
    Result result{std::string("scenario ") + scenario.name, "", ""};
    std::uint64_t steps = 0, seed = 1;
    for (; seed <= scenario.seeds * times; ++seed) {
        const std::string violation = run_seed(scenario, seed);
        steps += hosts().steps();
        if (violation.empty()) continue;
        result.failure = violation + "; replay with: caches " + scenario.name + " --seed " +
                         std::to_string(seed) + " --trace";
        return result;
    }
    result.text = std::to_string(seed - 1) + " schedules, " + std::to_string(steps) + " steps";
    for (const char* what : scenario.meets) {
        const std::uint64_t met = hosts().met()[what];
        result.text += std::string(", ") + what + " " + std::to_string(met);
        if (met == 0) result.failure = std::string("no schedule met: ") + what;
    }
    return result;
}

/// A mutant is caught when a seed violates a rule, and the same seed violates the same rule again.
Result run_mutant(const MutantPlan& plan, std::uint64_t times) {
    break_on_purpose(&plan);
    Result result{std::string("mutant ") + plan.name, "", ""};
    for (const char* name : plan.scenarios) {
        const Scenario& scenario = *find_scenario(name);
        bool caught = false;
        for (std::uint64_t seed = 1; seed <= mutant_seeds_max * times && !caught; ++seed) {
            const std::string violation = run_seed(scenario, seed);
            if (violation.empty()) continue;
            caught = true;
            const std::uint64_t steps = hosts().steps();
            const bool again = run_seed(scenario, seed) == violation && hosts().steps() == steps;
            result.text += std::string(result.text.empty() ? "" : "; ") + name + " seed " +
                           std::to_string(seed) + ": " + violation;
            if (!again) result.failure = "seed " + std::to_string(seed) + " of " + name + " does not replay";
        }
        if (!caught) result.failure = std::string("not caught by ") + name;
    }
    return result;
}

/// A switch that nobody looks for would show nothing.
Result look_for_all() {
    Result result{"every mutant is looked for", "", ""};
    const auto planned = [](auto which, auto of) {
        return std::any_of(mutant_plans().begin(), mutant_plans().end(), [&](const MutantPlan& plan) {
            return plan.*of == which && !plan.scenarios.empty();
        });
    };
    for (int i = 1; i < static_cast<int>(shm::FlushMutant::count); ++i)
        if (!planned(static_cast<shm::FlushMutant>(i), &MutantPlan::code))
            result.failure = "no plan for FlushMutant " + std::to_string(i);
    for (int i = 1; i < static_cast<int>(Duty::count); ++i)
        if (!planned(static_cast<Duty>(i), &MutantPlan::duty))
            result.failure = "no plan for Duty " + std::to_string(i);
    return result;
}

std::string escaped(const std::string& text) {
    std::string made;
    for (const char letter : text) {
        if (letter == '<')
            made += "&lt;";
        else if (letter == '&')
            made += "&amp;";
        else if (letter == '"')
            made += "&quot;";
        else
            made += letter;
    }
    return made;
}

bool write_junit(const std::string& path, const std::vector<Result>& results) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) return false;
    std::fprintf(file, "<testsuite name=\"caches\" tests=\"%zu\">\n", results.size());
    for (const Result& result : results) {
        std::fprintf(file, "<testcase classname=\"caches\" name=\"%s\">", escaped(result.name).c_str());
        if (!result.failure.empty())
            std::fprintf(file, "<failure message=\"%s\"/>", escaped(result.failure).c_str());
        std::fprintf(file, "<system-out>%s</system-out></testcase>\n", escaped(result.text).c_str());
    }
    std::fprintf(file, "</testsuite>\n");
    return std::fclose(file) == 0;
}

int run_suite(const Options& options) {
    const auto began = std::chrono::steady_clock::now();
    std::vector<Result> results;
    std::size_t failed = 0;
    const auto keep = [&](Result result) {
        const bool passed = result.failure.empty();
        if (!passed) ++failed;
        std::printf("%s %-38s %s%s%s\n", passed ? "ok    " : "FAILED", result.name.c_str(),
                    result.failure.c_str(), passed || result.text.empty() ? "" : "; ", result.text.c_str());
        std::fflush(stdout);
        results.push_back(std::move(result));
    };
    keep(look_for_all());
    for (const Scenario& scenario : scenarios())
        keep(run_scenario(scenario, options.times));
    for (const MutantPlan& plan : mutant_plans())
        keep(run_mutant(plan, options.times));
    std::printf("\n%zu passed, %zu failed, %.1f s\n", results.size() - failed, failed,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    if (!options.junit.empty() && !write_junit(options.junit, results)) {
        std::fprintf(stderr, "caches: cannot write %s\n", options.junit.c_str());
        return 1;
    }
    return failed == 0 ? 0 : 1;
}

int run_one(const Options& options) {
    const Scenario* scenario = find_scenario(options.scenario);
    if (scenario == nullptr) return 2;
    const MutantPlan* chosen = nullptr;
    for (const MutantPlan& plan : mutant_plans())
        if (options.mutant == plan.name) chosen = &plan;
    if (chosen == nullptr && !options.mutant.empty()) {
        std::fprintf(stderr, "caches: there is no mutant %s\n", options.mutant.c_str());
        return 2;
    }
    break_on_purpose(chosen);
    hosts().trace = options.trace;
    const std::string violation = run_seed(*scenario, options.seed);
    std::printf("%s seed %llu: %llu steps, %s\n", scenario->name, wide(options.seed), wide(hosts().steps()),
                violation.empty() ? "no violation" : violation.c_str());
    return violation.empty() ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
    Options options;
    if (!parse(count, arguments, &options)) return usage();
    return options.scenario.empty() ? run_suite(options) : run_one(options);
}
