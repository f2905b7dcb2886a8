// Counterpart: a dependent random load. Each step reads 16 bytes of a cache line, and the address of the next
// step depends on what was read, so no step can begin before the one before it has ended. The floor of any
// lookup in that memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maru::bench {

class PointerChase {
  public:
    using Memory = std::span<const std::byte>;

    /// Walks the cache lines of `ranges` in random order. Only reads, so that it can walk memory that is in
    /// use: the same pages, with the same luck in where they lie, as what it is compared to.
    explicit PointerChase(std::span<const Memory> ranges);
    void run(std::uint64_t steps);

  private:
    std::vector<std::uintptr_t> order_;  // addresses of lines; read in sequence, so that they are always near
    std::size_t at_ = 0;
};

}  // namespace maru::bench
