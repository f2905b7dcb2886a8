// The deliberate defects of base/mutant.hpp, and where the simulator looks for each of them.
#pragma once

#include <string>
#include <vector>

#include "base/mutant.hpp"
#include "machine.hpp"

namespace maru::sim {

struct MutantPlan {
    Mutant mutant;
    const char* name;
    const char* scenarios;      // names, the first one most likely to find it
    bool buffers_only = false;  // seen only where stores are delayed
};

const std::vector<MutantPlan>& mutant_plans();
const MutantPlan* find_mutant(const std::string& name);

}  // namespace maru::sim
