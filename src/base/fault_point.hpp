// Named places where a test may hold a process still, so that a kill finds it there.
#pragma once

namespace maru {

#ifdef MARU_FAULT_POINTS
/// Pauses here now and then, as the environment variable MARU_FAULT says: "ppm=500,us=2000,seed=7" holds
/// the caller for 2 ms at one in 2,000 passages of any fault point; with "at=publish." only at those whose
/// name begins so. Compiled in with -Dfault_points=true only.
void fault_point(const char* name);
#else
inline void fault_point(const char*) {}
#endif

}  // namespace maru
