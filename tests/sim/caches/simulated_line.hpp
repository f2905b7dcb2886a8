// What shm/cache_line.hpp is in this build: the same functions on the caches of simulated hosts.
#pragma once

#include <cstddef>

namespace maru::shm::line {

void load(void* to, const void* from, std::size_t size);
void store(void* to, const void* from, std::size_t size);
std::size_t stream(void* to, const void* from, std::size_t size);
void write_back(const void* at);
void invalidate(const void* at);
void store_fence();
void load_fence();
void full_fence();

}  // namespace maru::shm::line
