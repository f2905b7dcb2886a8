// Counterpart: a dependent random load. Each step reads 16 bytes of a cache line that names the next line, so
// no step can begin before the one before it has ended. The floor of any lookup in memory of that size.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "shared_file.hpp"

namespace maru::bench {

class PointerChase {
  public:
    /// One random cycle over all cache lines of `bytes` of shared memory: the same kind as a pool.
    static Result<PointerChase> make(std::uint64_t bytes);
    std::uint64_t bytes() const { return file_.bytes().size(); }
    /// Follows `steps` links.
    void run(std::uint64_t steps);

  private:
    struct Line {
        std::uint64_t next;
        std::uint64_t weight;
    };
    explicit PointerChase(SharedFile file) : file_(std::move(file)) {}
    void link();

    SharedFile file_;
    std::uint64_t at_ = 0;
};

}  // namespace maru::bench
