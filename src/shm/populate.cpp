#include "shm/populate.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "shm/bus_guard.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace maru::shm {
namespace {

constexpr std::size_t page = 4096;  // larger ones are asked several times
constexpr int interruptions_max = 100;

}  // namespace

int populate(std::span<std::byte> memory) {
    for (int attempt = 0; attempt < interruptions_max; ++attempt) {
        if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0) return 0;
        if (errno == EINVAL) return populate_by_reading(memory);
        if (errno != EINTR && errno != EAGAIN) return errno;
    }
    return EINTR;
}

int populate_by_reading(std::span<std::byte> memory) {
    const bool whole = survives_bus_error(memory.data(), memory.size(), [&] {
        for (std::size_t at = 0; at < memory.size(); at += page)
            static_cast<void>(*static_cast<volatile std::byte*>(memory.data() + at));
    });
    return whole ? 0 : EFAULT;
}

bool is_resident(std::span<std::byte> memory) {
    std::array<unsigned char, 512> pages;
    for (std::size_t at = 0; at < memory.size(); at += pages.size() * page) {
        const std::size_t length = std::min(memory.size() - at, pages.size() * page);
        if (::mincore(memory.data() + at, length, pages.data()) != 0) return false;
        const auto end = pages.begin() + static_cast<std::ptrdiff_t>((length + page - 1) / page);
        if (!std::all_of(pages.begin(), end, [](unsigned char of) { return (of & 1) != 0; })) return false;
    }
    return true;
}

}  // namespace maru::shm
