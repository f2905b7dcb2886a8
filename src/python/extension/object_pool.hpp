// Memory of objects that come and go with every call, kept for the next ones.
#pragma once

#include <cstddef>

#include "python.hpp"

namespace maru::python {

/// For types without subclasses and without the cycle collector. Used under the GIL.
template <class Object, std::size_t kept_max = 1024>
class ObjectPool {
  public:
    /// The caller initialises everything behind the object's head. NULL with MemoryError set.
    Object* make(PyTypeObject* type) {
        if (count_ > 0) [[likely]]
            return reinterpret_cast<Object*>(
                PyObject_Init(reinterpret_cast<PyObject*>(kept_[--count_]), type));
        return PyObject_New(Object, type);
    }
    /// Takes the memory of an object back and with it the object's reference to its type.
    void drop(Object* object) {
        PyTypeObject* const type = Py_TYPE(reinterpret_cast<PyObject*>(object));
        if (count_ < kept_max)
            kept_[count_++] = object;
        else
            PyObject_Free(object);
        Py_DECREF(reinterpret_cast<PyObject*>(type));
    }

  private:
    Object* kept_[kept_max];
    std::size_t count_ = 0;
};

}  // namespace maru::python
