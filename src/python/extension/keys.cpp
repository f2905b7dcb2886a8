#include "keys.hpp"

#include <cstdint>

namespace maru::python {
namespace {

// The encoding that maructl spells int: (wire/key_text.hpp): "\0i" and eight bytes, little-endian.
void write_number(long long value, char* bytes) {
    auto bits = static_cast<std::uint64_t>(value);
    bytes[0] = 0;
    bytes[1] = 'i';
    for (std::size_t b = 2; b < integer_key_bytes; ++b, bits >>= 8)
        bytes[b] = static_cast<char>(bits & 0xff);
}

// Beyond 64 bits: "\0I" and as many bytes as it takes, two's complement, little-endian.
PyObject* bytes_of_large(PyObject* number) {
    const Reference bits(PyObject_CallMethod(number, "bit_length", nullptr));
    if (!bits) return nullptr;
    const long long length = PyLong_AsLongLong(bits.get());
    if (length == -1 && PyErr_Occurred()) return nullptr;
    const Reference method(PyObject_GetAttrString(number, "to_bytes"));
    const Reference positional(Py_BuildValue("(Ls)", length / 8 + 1, "little"));
    const Reference named(Py_BuildValue("{s:O}", "signed", Py_True));
    if (!method || !positional || !named) return nullptr;
    const Reference bytes(PyObject_Call(method.get(), positional.get(), named.get()));
    const Reference head(PyBytes_FromStringAndSize("\0I", 2));
    if (!bytes || !head) return nullptr;
    return PySequence_Concat(head.get(), bytes.get());
}

bool read_number(PyObject* object, maru_key* bytes, char* number, Reference* owner) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (value == -1 && PyErr_Occurred()) return false;
    if (overflow == 0) {
        write_number(value, number);
        *bytes = {number, integer_key_bytes};
        return true;
    }
    *owner = Reference(bytes_of_large(object));
    if (!*owner) return false;
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(owner->get(), &data, &size) != 0) return false;
    *bytes = {data, static_cast<std::size_t>(size)};
    return true;
}

bool fits(const maru_key& key) {
    if (key.size - 1 < key_bytes_max) [[likely]]
        return true;
    if (key.size == 0)
        PyErr_SetString(PyExc_ValueError, "a key has at least one byte, this one is empty");
    else
        PyErr_Format(PyExc_ValueError, "a key has at most %zu bytes, this one has %zu", key_bytes_max,
                     key.size);
    return false;
}

}  // namespace

bool Key::read_bytes(PyObject* object, maru_key* bytes, char* number, Reference* owner) {
    if (PyUnicode_Check(object)) {
        Py_ssize_t size = 0;
        bytes->data = PyUnicode_AsUTF8AndSize(object, &size);
        if (bytes->data == nullptr) return false;
        bytes->size = static_cast<std::size_t>(size);
    } else if (PyBytes_Check(object)) {
        char* data = nullptr;
        Py_ssize_t size = 0;
        if (PyBytes_AsStringAndSize(object, &data, &size) != 0) return false;
        *bytes = {data, static_cast<std::size_t>(size)};
    } else if (PyLong_Check(object)) {
        if (!read_number(object, bytes, number, owner)) return false;
    } else {
        const Reference type(PyObject_Str(reinterpret_cast<PyObject*>(Py_TYPE(object))));
        if (type) PyErr_Format(PyExc_TypeError, "a key is str, bytes or int, not %U", type.get());
        return false;
    }
    return fits(*bytes);
}

PyObject* as_tuple(const char* method, const char* what, PyObject* objects) {
    if (PyUnicode_Check(objects) || PyBytes_Check(objects)) {
        PyErr_Format(PyExc_TypeError, "%s() takes a list of %s, not one", method, what);
        return nullptr;
    }
    return or_stand_still([&] { return PySequence_Tuple(objects); });
}

bool Keys::read(const char* method, PyObject* objects) {
    objects_ = Reference(as_tuple(method, "keys", objects));
    if (!objects_) return false;
    count_ = static_cast<std::size_t>(PyTuple_Size(objects_.get()));
    keys_.reset(new maru_key[count_]);
    for (std::size_t i = 0; i < count_; ++i) {
        PyObject* const object = PyTuple_GetItem(objects_.get(), static_cast<Py_ssize_t>(i));
        char* number = nullptr;
        Reference owner;
        if (PyLong_Check(object)) {
            if (!numbers_) numbers_.reset(new char[count_ * integer_key_bytes]);
            number = numbers_.get() + i * integer_key_bytes;
        }
        if (!Key::read_bytes(object, &keys_[i], number, &owner)) return false;
        if (!owner) continue;
        if (!large_) large_ = Reference(PyList_New(0));
        if (!large_ || PyList_Append(large_.get(), owner.get()) != 0) return false;
    }
    return true;
}

}  // namespace maru::python
