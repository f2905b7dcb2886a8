// The word that says where an entry of the pool table stands (pools.hpp).
#pragma once

#include "table/layout.hpp"

namespace maru::table {

inline void set_state(PoolEntry& entry, PoolState state) {
    entry.state.store(static_cast<std::uint32_t>(state), shm::release);  // who reads it sees the fields
}

inline PoolState state_of(const PoolEntry& entry) {
    return static_cast<PoolState>(entry.state.load(shm::acquire));
}

}  // namespace maru::table
