// Deliberate defects in what this folder does across hosts, by which the simulator of caches shows that it
// would see them (tests/sim/caches). Apart from base/mutant.hpp, which is the list of the table's simulator.
#pragma once

#include <cstdint>

namespace maru::shm {

enum class FlushMutant : std::uint8_t {
    none,
    // ranges
    start_not_rounded,  // line by line from the very first byte: the last line may be missed
    end_not_rounded,    // a last line that is not whole left out
    // write_back, write_back_and_invalidate, invalidate_before_read
    write_back_without_fence,
    give_up_without_write_back,  // nothing flushed before memory changes hands
    give_up_without_invalidate,  // the lines stay, clean
    give_up_without_fence,
    read_without_invalidate,
    read_without_fence,
    read_store_fence,  // a store fence where loads need a full one
    // store_across
    store_without_write_back,
    // payload
    publish_without_write_back,
    publish_without_fence,  // streamed stores not fenced
    publish_rest_left,      // what was not streamed stays in the cache
    publish_first,          // the metadata operation before the write-back
    give_back_first,        // the page given away before the flush
    validate_first,         // the generation looked at before the bytes
    validate_without_load_fence,
    not_validated,
    count,
};

#ifdef MARU_SIMULATED_CACHES
inline FlushMutant active_flush_mutant = FlushMutant::none;  // set by the simulator between two runs
inline bool mutant(FlushMutant which) {
    return active_flush_mutant == which;
}
#else
constexpr bool mutant(FlushMutant) {
    return false;
}
#endif

}  // namespace maru::shm
