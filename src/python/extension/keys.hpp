// Keys as Python has them: str (its UTF-8), bytes, or int.
#pragma once

#include <maru/maru.h>

#include <cstddef>
#include <memory>

#include "python.hpp"

namespace maru::python {

inline constexpr std::size_t key_bytes_max = 4096;
inline constexpr std::size_t integer_key_bytes = 10;

/// One key. Borrows from its object, which must outlive it.
class Key {
  public:
    /// False with TypeError or ValueError set.
    bool read(PyObject* object) {
        if (!read_bytes(object, &bytes_, number_, &owner_)) return false;
        return true;
    }
    const void* data() const { return bytes_.data; }
    std::size_t size() const { return bytes_.size; }

    /// What a key object stands for. A number is written to `number`; one over 64 bits to a new object in
    /// `owner`.
    static bool read_bytes(PyObject* object, maru_key* bytes, char* number, Reference* owner);

  private:
    maru_key bytes_{};
    char number_[integer_key_bytes];
    Reference owner_;
};

/// The keys of a batch call. Holds on to every key object, so that the bytes stay when the GIL is released.
class Keys {
  public:
    bool read(const char* method, PyObject* objects);
    const maru_key* data() const { return keys_.get(); }
    std::size_t count() const { return count_; }
    PyObject* objects() const { return objects_.get(); }

  private:
    Reference objects_;  // a tuple
    Reference large_;    // a list of the objects that back numbers over 64 bits
    std::unique_ptr<maru_key[]> keys_;
    std::unique_ptr<char[]> numbers_;
    std::size_t count_ = 0;
};

/// An iterable as a tuple; text and bytes, which are iterable by accident, are refused.
PyObject* as_tuple(const char* method, const char* what, PyObject* objects);

}  // namespace maru::python
