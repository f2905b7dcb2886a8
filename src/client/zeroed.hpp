// Process-private tables that are touched only where they are used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace maru::client {

/// A table of `count` zeroes straight from the kernel: its size costs nothing until it is written. A large
/// one is a mapping of its own: calloc clears by hand what it takes from memory that a former client gave
/// back.
template <class T>
class Zeroed {
    static_assert(std::is_trivially_destructible_v<T>, "entries are never destroyed");

  public:
    explicit Zeroed(std::size_t count) : entries_(make(count * sizeof(T)), Free{count * sizeof(T)}) {}
    T& operator[](std::size_t at) { return entries_.get()[at]; }
    const T& operator[](std::size_t at) const { return entries_.get()[at]; }
    const T* data() const { return entries_.get(); }

  private:
    static constexpr std::size_t mapped_min = 64 << 10;

    static T* make(std::size_t bytes) {
        void* made = nullptr;
        if (bytes < mapped_min) {
            made = std::calloc(bytes == 0 ? 1 : bytes, 1);
        } else {
            made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (made == MAP_FAILED) made = nullptr;
        }
        if (made == nullptr) throw std::bad_alloc();
        return static_cast<T*>(made);
    }
    struct Free {
        std::size_t bytes;
        void operator()(T* entries) const {
            if (bytes < mapped_min)
                std::free(entries);
            else
                ::munmap(entries, bytes);
        }
    };
    std::unique_ptr<T, Free> entries_;
};

}  // namespace maru::client
