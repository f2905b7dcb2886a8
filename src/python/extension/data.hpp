// The bytes of a value that is to be stored.
#pragma once

#include <cstdint>

#include "python.hpp"

namespace maru::python {

/// Any contiguous buffer, or a CPU tensor with `data_ptr`. Keeps it until it goes.
class Data {
  public:
    Data() = default;
    ~Data() {
        if (exported_) PyBuffer_Release(&buffer_);
    }
    Data(const Data&) = delete;
    Data& operator=(const Data&) = delete;

    /// False with TypeError, ValueError or BufferError set.
    bool read(PyObject* object);
    const void* bytes() const { return bytes_; }
    std::uint64_t size() const { return size_; }

  private:
    bool read_tensor(PyObject* tensor);

    Py_buffer buffer_{};
    bool exported_ = false;
    const void* bytes_ = nullptr;
    std::uint64_t size_ = 0;
};

}  // namespace maru::python
