// The active one of the deliberate defects. Only the simulator and a build with the option `mutant` link this
// file; it is all that a change of the option compiles again.
#include "base/mutant.hpp"

namespace maru {

#ifdef MARU_WITH_MUTANT
Mutant active_mutant = Mutant::MARU_WITH_MUTANT;
#else
Mutant active_mutant = Mutant::none;
#endif

}  // namespace maru
