#include "table/bits.hpp"

namespace maru::table {

const char* name_of(Phase phase) {
    switch (phase) {
        case Phase::sealed:
            return "SEALED";
        case Phase::free:
            return "FREE";
        case Phase::reserved:
            return "RESERVED";
        case Phase::publishing:
            return "PUBLISHING";
        case Phase::published:
            return "PUBLISHED";
        case Phase::retiring_evict:
            return "RETIRING(evict)";
        case Phase::retiring_delete:
            return "RETIRING(delete)";
        case Phase::retired:
            return "RETIRED";
        case Phase::bad:
            return "BAD";
    }
    return "unknown";
}

const char* name_of(RegionPhase phase) {
    switch (phase) {
        case RegionPhase::free:
            return "FREE";
        case RegionPhase::formatting:
            return "FORMATTING";
        case RegionPhase::held:
            return "HELD";
        case RegionPhase::draining:
            return "DRAINING";
        case RegionPhase::sealing:
            return "SEALING";
        case RegionPhase::part:
            return "PART";
    }
    return "unknown";
}

const char* name_of(ClientPhase phase) {
    switch (phase) {
        case ClientPhase::free:
            return "FREE";
        case ClientPhase::connecting:
            return "CONNECTING";
        case ClientPhase::active:
            return "ACTIVE";
        case ClientPhase::quarantined:
            return "QUARANTINED";
        case ClientPhase::dead:
            return "DEAD";
    }
    return "unknown";
}

const char* name_of(HostPhase phase) {
    switch (phase) {
        case HostPhase::free:
            return "FREE";
        case HostPhase::active:
            return "ACTIVE";
        case HostPhase::fenced:
            return "FENCED";
        case HostPhase::left:
            return "LEFT";
        case HostPhase::joining:
            return "JOINING";
    }
    return "unknown";
}

}  // namespace maru::table
