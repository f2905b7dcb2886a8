#include "counterpart/pointer_chase.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "keys.hpp"
#include "stopwatch.hpp"

namespace maru::bench {

namespace {
constexpr std::uint64_t line_bytes = 64;
}

Result<PointerChase> PointerChase::make(std::uint64_t bytes) {
    auto file = SharedFile::make("chase", bytes);
    if (!file) return file.error();
    PointerChase chase(std::move(*file));
    chase.link();
    return chase;
}

void PointerChase::link() {
    const std::uint64_t lines = bytes() / line_bytes;
    std::vector<std::uint32_t> next(lines);
    std::iota(next.begin(), next.end(), 0u);
    Random random(17);
    for (std::uint64_t i = lines; i > 1; --i)
        std::swap(next[i - 1], next[random.below(i - 1)]);  // one cycle
    std::byte* base = file_.bytes().data();
    for (std::uint64_t i = 0; i < lines; ++i)
        *reinterpret_cast<Line*>(base + i * line_bytes) = {next[i] * line_bytes, i};
}

void PointerChase::run(std::uint64_t steps) {
    const std::byte* base = file_.bytes().data();
    std::uint64_t at = at_, sum = 0;
    for (std::uint64_t i = 0; i < steps; ++i) {
        const auto* line = reinterpret_cast<const Line*>(base + at);
        sum += line->weight;
        at = line->next;
    }
    at_ = at;
    keep(sum);
}

}  // namespace maru::bench
