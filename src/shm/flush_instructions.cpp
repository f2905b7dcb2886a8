#include <algorithm>

#include "shm/cache_line.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace maru::shm {
namespace {

using Kind = FlushInstructions::Kind;

#if defined(__x86_64__)
FlushInstructions find() {
    constexpr unsigned clflushopt_bit = 1u << 23, clwb_bit = 1u << 24;  // leaf 7, EBX
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) b = 0;
    if ((b & clwb_bit) != 0 && (b & clflushopt_bit) != 0)
        return {Kind::clwb, Kind::clflushopt, cache_line, "clwb, clflushopt"};
    if ((b & clflushopt_bit) != 0) return {Kind::clflushopt, Kind::clflushopt, cache_line, "clflushopt"};
    return {Kind::clflush, Kind::clflush, cache_line, "clflush"};  // every x86-64 has it
}
#elif defined(__aarch64__)
FlushInstructions find() {
    std::uint64_t cache_type = 0;
    asm("mrs %0, ctr_el0" : "=r"(cache_type));
    // Bits 16 to 19: the smallest data line is 4 bytes times two to that power.
    const std::size_t smallest = std::size_t{4} << ((cache_type >> 16) & 15);
    return {Kind::dc_cvac, Kind::dc_civac, std::min(smallest, cache_line), "dc cvac, dc civac"};
}
#endif

}  // namespace

const FlushInstructions& flush_instructions() {
    static const FlushInstructions found = find();
    return found;
}

}  // namespace maru::shm
