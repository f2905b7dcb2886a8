// A pool that leaves nothing behind.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "base/descriptor.hpp"
#include "pool/pool.hpp"
#include "target.hpp"

namespace maru::fuzz {

/// A pool over anonymous memory.
class MemoryPool final : public pool::Pool {
  public:
    explicit MemoryPool(std::uint64_t bytes) : Pool(facts_of(bytes), memory_of(bytes)) {}
    void write(std::span<const std::byte> bytes) {
        require(::pwrite(descriptor(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
                "a pool's memory was not written");
    }
    Result<void> discard(std::uint64_t, std::uint64_t) override { return {}; }
    Result<void> remove() override { return {}; }

  private:
    static pool::PoolFacts facts_of(std::uint64_t bytes) {
        pool::PoolFacts facts;
        facts.name = "small";
        facts.size = bytes;
        facts.alignment = 4096;
        facts.description = "anonymous memory";
        return facts;
    }
    static Descriptor memory_of(std::uint64_t bytes) {
        Descriptor memory(::memfd_create("maru-fuzz", MFD_CLOEXEC));
        require(::ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0, "no memory for a pool");
        return memory;
    }
};

}  // namespace maru::fuzz
