// Process-private tables that are touched only where they are used.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace maru::client {

/// A table of `count` zeroes straight from the kernel: its size costs nothing until it is written.
template <class T>
class Zeroed {
    static_assert(std::is_trivially_destructible_v<T>, "entries are never destroyed");

  public:
    explicit Zeroed(std::size_t count)
        : entries_(static_cast<T*>(std::calloc(count == 0 ? 1 : count, sizeof(T)))) {
        if (entries_ == nullptr) throw std::bad_alloc();
    }
    T& operator[](std::size_t at) { return entries_.get()[at]; }
    const T& operator[](std::size_t at) const { return entries_.get()[at]; }
    const T* data() const { return entries_.get(); }

  private:
    struct Free {
        void operator()(T* entries) const { std::free(entries); }
    };
    std::unique_ptr<T, Free> entries_;
};

}  // namespace maru::client
