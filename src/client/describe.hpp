// Structures of maru.h that describe something, filled for callers of any version.
#pragma once

#include <algorithm>
#include <cstring>

#include "maru/maru.h"
#include "table/clients.hpp"

namespace maru::client {

/// Fills the caller's structure as far as the caller knows it.
template <class Description>
maru_status give(const Description& filled, Description* to) {
    const std::size_t size = std::min(to->size, sizeof filled);
    std::memcpy(reinterpret_cast<std::byte*>(to) + sizeof to->size,
                reinterpret_cast<const std::byte*>(&filled) + sizeof filled.size, size - sizeof to->size);
    return MARU_OK;
}

/// The counters that maru_statistics and maru_client_description share.
template <class Description>
void fill_counts(const table::Counts& counts, Description& filled) {
    const auto of = [&](table::Counter counter) { return counts.of[static_cast<int>(counter)]; };
    filled.lookups = of(table::Counter::lookups);
    filled.hits = of(table::Counter::hits);
    filled.stores = of(table::Counter::stores);
    filled.duplicates = of(table::Counter::duplicates);
    filled.deletes = of(table::Counter::deletes);
    filled.evictions = of(table::Counter::evictions);
    filled.rescues = of(table::Counter::rescues);
    filled.contended = of(table::Counter::contended);
}

}  // namespace maru::client
