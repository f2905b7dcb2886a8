#include "data.hpp"

namespace maru::python {
namespace {

/// A whole number that a method without arguments gives; false with an exception set.
bool ask_number(PyObject* object, const char* method, std::uint64_t* number) {
    const Reference answer(PyObject_CallMethod(object, method, nullptr));
    if (!answer) return false;
    *number = PyLong_AsUnsignedLongLong(answer.get());
    return !PyErr_Occurred();
}

bool ask_truth(PyObject* object, const char* method, bool* truth) {
    const Reference answer(PyObject_CallMethod(object, method, nullptr));
    const int is = answer ? PyObject_IsTrue(answer.get()) : -1;
    *truth = is == 1;
    return is >= 0;
}

/// True when the tensor lies in memory of this host; else a ValueError is set.
bool is_on_cpu(PyObject* tensor) {
    const Reference device(PyObject_GetAttrString(tensor, "device"));
    if (!device) return false;
    const Reference kind(PyObject_GetAttrString(device.get(), "type"));
    if (!kind) return false;
    if (PyUnicode_Check(kind.get()) && PyUnicode_CompareWithASCIIString(kind.get(), "cpu") == 0) return true;
    PyErr_Format(PyExc_ValueError,
                 "data lies on %S: copy it into alloc(...).buf and store the handle, or pass data.cpu()",
                 device.get());
    return false;
}

}  // namespace

bool Data::read(PyObject* object) {
    if (PyObject_CheckBuffer(object)) {
        if (PyObject_GetBuffer(object, &buffer_, PyBUF_ANY_CONTIGUOUS) != 0) return false;
        exported_ = true;
        bytes_ = buffer_.buf;
        size_ = static_cast<std::uint64_t>(buffer_.len);
        return true;
    }
    const Reference pointer(PyObject_GetAttrString(object, "data_ptr"));
    if (pointer) return read_tensor(object);
    PyErr_Clear();
    const Reference type(PyObject_Str(reinterpret_cast<PyObject*>(Py_TYPE(object))));
    if (type)
        PyErr_Format(PyExc_TypeError, "data is an object with the buffer protocol or a CPU tensor, not %U",
                     type.get());
    return false;
}

bool Data::read_tensor(PyObject* tensor) {
    bool contiguous = false;
    std::uint64_t elements = 0, element_bytes = 0, address = 0;
    if (!is_on_cpu(tensor) || !ask_truth(tensor, "is_contiguous", &contiguous)) return false;
    if (!contiguous) {
        PyErr_SetString(PyExc_ValueError, "data is not contiguous: pass data.contiguous()");
        return false;
    }
    if (!ask_number(tensor, "numel", &elements) || !ask_number(tensor, "element_size", &element_bytes) ||
        !ask_number(tensor, "data_ptr", &address))
        return false;
    bytes_ = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address));
    size_ = elements * element_bytes;
    return true;
}

}  // namespace maru::python
