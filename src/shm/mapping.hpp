// A shared mapping of a file descriptor, and the one place where its bytes get a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace maru::shm {

/// The size of a large page. Memory in such pages is mapped so only at addresses that are multiples of it.
inline constexpr std::uint64_t large_page = std::uint64_t{2} << 20;

/// Owns one MAP_SHARED mapping; unmaps when it goes.
/// Threads: moving and destroying are the owner's; the bytes are for everybody.
class Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    /// Maps `length` bytes at `offset` of `descriptor`, readable and writable. `what` names it in errors.
    /// The address is aligned to `alignment` (a power of two, at least a page), as DAX wants; to a large page
    /// where the offset and the length allow one.
    static Result<Mapping> map(int descriptor, std::uint64_t offset, std::uint64_t length, const char* what,
                               std::uint64_t alignment = 4096);

    std::span<std::byte> bytes() const { return {base_, size_}; }
    std::byte* data() const { return base_; }
    std::uint64_t size() const { return size_; }
    explicit operator bool() const { return base_ != nullptr; }

  private:
    std::byte* base_ = nullptr;
    std::size_t size_ = 0;
};

/// A table of `count` entries at `offset` of a mapped span; nullptr when it does not lie wholly inside or is
/// not aligned. Every cast of shared memory to a type goes through here.
template <class T>
T* table_at(std::span<std::byte> memory, std::uint64_t offset, std::uint64_t count) {
    static_assert(std::is_standard_layout_v<T>, "shared memory has no vtables and no hidden fields");
    if (offset > memory.size() || count > (memory.size() - offset) / sizeof(T)) return nullptr;
    std::byte* at = memory.data() + offset;
    if (reinterpret_cast<std::uintptr_t>(at) % alignof(T) != 0) return nullptr;
    return reinterpret_cast<T*>(at);
}

}  // namespace maru::shm
