#include "shm/mapping.hpp"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/size.hpp"

namespace maru::shm {

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
}

Mapping::~Mapping() {
    if (base_ != nullptr) ::munmap(base_, size_);
}

Result<Mapping> Mapping::map(int descriptor, std::uint64_t offset, std::uint64_t length, const char* what,
                             std::uint64_t alignment) {
    const auto failed = [&] {
        const int reason = errno;
        return Error{
            reason == EACCES || reason == EPERM ? Code::denied : Code::unavailable,
            std::string("cannot map ") + format_size(length) + " of " + what + ": " + strerror(reason)};
    };
    if (length >= large_page && offset % large_page == 0 && alignment < large_page) alignment = large_page;
    // Reserve room for any alignment, then place the mapping inside it and give the ends back.
    const std::uint64_t slack = alignment > 4096 ? alignment : 0;
    void* reserved =
        ::mmap(nullptr, length + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return failed();
    auto* start = static_cast<std::byte*>(reserved);
    auto* aligned = start + (round_up(reinterpret_cast<std::uintptr_t>(start), alignment) -
                             reinterpret_cast<std::uintptr_t>(start));
    void* placed = ::mmap(aligned, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
                          static_cast<off_t>(offset));
    if (placed == MAP_FAILED) {
        const auto error = failed();
        ::munmap(reserved, length + slack);
        return error;
    }
    if (slack > 0) {
        if (aligned != start) ::munmap(start, static_cast<std::size_t>(aligned - start));
        // A length is a multiple of 4 KiB; the system's pages may be larger, and a mapping ends with one.
        const auto system_page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        std::byte* end = start + length + slack;
        std::byte* tail = aligned + round_up(length, system_page);
        if (tail < end) ::munmap(tail, static_cast<std::size_t>(end - tail));
    }
    Mapping made;
    made.base_ = static_cast<std::byte*>(placed);
    made.size_ = length;
    return made;
}

}  // namespace maru::shm
