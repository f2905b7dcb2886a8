#include "shm/flush.hpp"

namespace maru::shm {
namespace {

template <class OfLine>
void each_line(const void* at, std::size_t size, OfLine&& of_line) {
    if (size == 0) return;
    const auto start = reinterpret_cast<std::uintptr_t>(at);
    // From the line of the first byte to the line of the last one; no sum that could overflow at the end.
    const std::uintptr_t last = (start + (size - 1)) & ~(cache_line - 1);
    for (std::uintptr_t line = start & ~(cache_line - 1);; line += cache_line) {
        of_line(reinterpret_cast<const void*>(line));
        if (line == last) return;
    }
}

}  // namespace

void write_back(const void* at, std::size_t size) {
    each_line(at, size, line::write_back);
    line::store_fence();
}

void write_back_and_invalidate(const void* at, std::size_t size) {
    each_line(at, size, line::invalidate);
    line::full_fence();
}

void invalidate_before_read(const void* at, std::size_t size) {
    each_line(at, size, line::invalidate);
    line::full_fence();
}

void store_across(void* to, const void* from, std::size_t size) {
    line::store(to, from, size);
    write_back(to, size);
}

void load_across(void* to, const void* from, std::size_t size) {
    invalidate_before_read(from, size);
    line::load(to, from, size);
}

}  // namespace maru::shm
