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
    explicit MemoryPool(std::uint64_t bytes) : memory_(::memfd_create("maru-fuzz", MFD_CLOEXEC)) {
        resize(bytes);
    }
    void resize(std::uint64_t bytes) {
        require(::ftruncate(memory_.get(), static_cast<off_t>(bytes)) == 0, "no memory for a pool");
        size_ = bytes;
    }
    void write(std::span<const std::byte> bytes) {
        require(::pwrite(memory_.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
                "a pool's memory was not written");
    }
    pool::Kind kind() const override { return pool::Kind::shm; }
    const std::string& name() const override { return name_; }
    const std::string& path() const override { return name_; }
    std::uint64_t size() const override { return size_; }
    std::uint64_t alignment() const override { return 4096; }
    int descriptor() const override { return memory_.get(); }
    bool is_new() const override { return false; }
    Result<void> discard(std::uint64_t, std::uint64_t) override { return {}; }
    Result<void> remove() override { return {}; }
    std::string describe() const override { return "anonymous memory"; }

  private:
    Descriptor memory_;
    std::uint64_t size_ = 0;
    std::string name_ = "small";
};

}  // namespace maru::fuzz
