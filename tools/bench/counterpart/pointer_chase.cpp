#include "counterpart/pointer_chase.hpp"

#include <utility>

#include "keys.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr std::size_t line_bytes = 64;

// A load that the compiler neither drops nor tears; others may write the word meanwhile.
std::uint64_t word_at(std::uintptr_t address) {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(address), __ATOMIC_RELAXED);
}

}  // namespace

PointerChase::PointerChase(std::span<const Memory> ranges) {
    for (const Memory& range : ranges)
        for (std::size_t at = 0; at + line_bytes <= range.size(); at += line_bytes)
            order_.push_back(reinterpret_cast<std::uintptr_t>(range.data() + at));
    Random random(17);
    for (std::size_t i = order_.size(); i > 1; --i)
        std::swap(order_[i - 1], order_[random.below(i)]);
}

void PointerChase::run(std::uint64_t steps) {
    std::uint64_t nothing = 0;  // always zero, as the compiler and the processor cannot know
    std::uint64_t never = 0;
    keep(never);
    asm volatile("" : "+r"(never));
    for (std::uint64_t i = 0; i < steps; ++i) {
        const std::uintptr_t line = order_[at_] + nothing;
        nothing = (word_at(line) ^ word_at(line + 8)) & never;
        if (++at_ == order_.size()) at_ = 0;
    }
    keep(nothing);
}

}  // namespace maru::bench
