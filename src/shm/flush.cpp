#include "shm/flush.hpp"

#include "shm/flush_mutant.hpp"

namespace maru::shm {
namespace {

template <class OfLine>
void each_line(const void* at, std::size_t size, OfLine&& of_line) {
    if (size == 0) return;
    const auto start = reinterpret_cast<std::uintptr_t>(at);
    if (mutant(FlushMutant::start_not_rounded)) {
        for (std::size_t done = 0; done < size; done += cache_line)
            of_line(reinterpret_cast<const void*>((start + done) & ~(cache_line - 1)));
        return;
    }
    // From the line of the first byte to the line of the last one; no sum that could overflow at the end.
    const std::uintptr_t last = (start + (size - 1)) & ~(cache_line - 1);
    for (std::uintptr_t line = start & ~(cache_line - 1);; line += cache_line) {
        const bool whole = line + cache_line <= start + size;
        if (whole || !mutant(FlushMutant::end_not_rounded)) of_line(reinterpret_cast<const void*>(line));
        if (line == last) return;
    }
}

}  // namespace

void write_back(const void* at, std::size_t size) {
    each_line(at, size, line::write_back);
    if (!mutant(FlushMutant::write_back_without_fence)) line::store_fence();
}

void write_back_and_invalidate(const void* at, std::size_t size) {
    if (mutant(FlushMutant::give_up_without_write_back)) return;
    if (mutant(FlushMutant::give_up_without_invalidate)) return write_back(at, size);
    each_line(at, size, line::invalidate);
    if (!mutant(FlushMutant::give_up_without_fence)) line::full_fence();
}

void invalidate_before_read(const void* at, std::size_t size) {
    if (mutant(FlushMutant::read_without_invalidate)) return;
    each_line(at, size, line::invalidate);
    if (mutant(FlushMutant::read_without_fence)) return;
    if (mutant(FlushMutant::read_store_fence)) return line::store_fence();
    line::full_fence();
}

void store_across(void* to, const void* from, std::size_t size) {
    line::store(to, from, size);
    if (!mutant(FlushMutant::store_without_write_back)) write_back(to, size);
}

void load_across(void* to, const void* from, std::size_t size) {
    invalidate_before_read(from, size);
    line::load(to, from, size);
}

}  // namespace maru::shm
