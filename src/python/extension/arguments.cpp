#include <cstring>

#include "python.hpp"

namespace maru::python {
namespace {

int place_of(PyObject* name, const char* const* names, int count) {
    for (int i = 0; i < count; ++i)
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return i;
    return -1;
}

}  // namespace

bool read_arguments(const char* method, const Arguments& given, const char* const* names, int count,
                    int required, int positional, PyObject** places) {
    std::memset(places, 0, sizeof *places * static_cast<std::size_t>(count));
    if (given.count > positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments, %zd were given", method,
                     positional, given.count);
        return false;
    }
    for (Py_ssize_t i = 0; i < given.count; ++i)
        places[i] = given.values[i];
    const Py_ssize_t named = given.keywords == nullptr ? 0 : PyTuple_Size(given.keywords);
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* const name = PyTuple_GetItem(given.keywords, i);
        const int place = place_of(name, names, count);
        if (place < 0 || places[place] != nullptr) {
            PyErr_Format(PyExc_TypeError,
                         place < 0 ? "%s() got an unexpected keyword argument '%U'"
                                   : "%s() got multiple values for argument '%U'",
                         method, name);
            return false;
        }
        places[place] = given.values[given.count + i];
    }
    for (int i = 0; i < required; ++i) {
        if (places[i] != nullptr) continue;
        PyErr_Format(PyExc_TypeError, "%s() missing required argument: '%s'", method, names[i]);
        return false;
    }
    return true;
}

}  // namespace maru::python
