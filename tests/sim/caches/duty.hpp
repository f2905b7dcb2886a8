// Rules across hosts that the callers of src/shm keep, and their breaches: the other half of the mutants.
#pragma once

#include <cstdint>

namespace maru::caches {

enum class Duty : std::uint8_t {
    none,
    dead_process_not_flushed,  // a daemon gives a dead process's page back without a flush
    dead_host_not_fenced,      // pages of a host that does not beat are reused at once
    object_only_given_up,      // the flush before a hand-over covers the object, not the page
    reader_leaves_lines,       // a reader unpins with lines left, where hosts may write clean lines back
    headers_share_a_line,      // fields that different hosts write lie in one line
    count,
};

inline Duty broken_duty = Duty::none;
inline bool broken(Duty which) {
    return broken_duty == which;
}

}  // namespace maru::caches
