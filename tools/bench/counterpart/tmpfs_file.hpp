// Counterpart: objects in a plain tmpfs file, read and overwritten with pread and pwrite.
#pragma once

#include <cstdint>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace maru::bench {

class TmpfsFile {
  public:
    /// A file of `count` objects of `object_bytes`, all written once.
    static Result<TmpfsFile> make(std::uint64_t object_bytes, std::uint64_t count);
    bool read(std::uint64_t number, void* to) const;
    bool write(std::uint64_t number, const void* from) const;

  private:
    Descriptor file_;
    std::uint64_t object_bytes_ = 0;
};

}  // namespace maru::bench
