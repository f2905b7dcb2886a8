// The deliberate defects, and where each is looked for.
#pragma once

#include <vector>

#include "duty.hpp"
#include "shm/flush_mutant.hpp"

namespace maru::caches {

struct MutantPlan {
    const char* name;
    shm::FlushMutant code;  // a switch in src/shm
    Duty duty;              // or a duty of its callers
    std::vector<const char*> scenarios;
};
const std::vector<MutantPlan>& mutant_plans();

}  // namespace maru::caches
