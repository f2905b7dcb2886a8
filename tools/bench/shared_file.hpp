// Shared memory of a benchmark's own: a tmpfs file, mapped and populated, gone with its owner.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "shm/mapping.hpp"

namespace maru::bench {

class SharedFile {
  public:
    /// `bytes` in /dev/shm under a private name, which is removed at once; every page is touched.
    static Result<SharedFile> make(const char* what, std::uint64_t bytes);
    std::span<std::byte> bytes() const { return mapping_.bytes(); }
    int descriptor() const { return file_.get(); }

  private:
    Descriptor file_;
    shm::Mapping mapping_;
};

/// Bytes that can still be put into /dev/shm: free there, and free in memory.
std::uint64_t shared_room();

}  // namespace maru::bench
