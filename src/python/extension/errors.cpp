#include "errors.hpp"

namespace maru::python {
namespace {

struct Classes {
    PyObject *error, *unavailable, *timeout, *full, *fenced, *forked, *damaged, *denied, *version;
};
Classes classes;  // filled when the module is imported, never changed after

PyObject* class_of(maru_status status) {
    switch (status) {
        case MARU_ERR_INVALID:
        case MARU_ERR_TOO_LARGE:
        case MARU_ERR_NOT_RESERVED:
            return PyExc_ValueError;
        case MARU_ERR_FULL:
            return classes.full;
        case MARU_ERR_FENCED:
            return classes.fenced;
        case MARU_ERR_FORKED:
            return classes.forked;
        case MARU_ERR_UNAVAILABLE:
            return classes.unavailable;
        case MARU_ERR_TIMEOUT:
            return classes.timeout;
        case MARU_ERR_DAMAGED:
        case MARU_ERR_POISONED:
            return classes.damaged;
        case MARU_ERR_DENIED:
            return classes.denied;
        case MARU_ERR_VERSION:
            return classes.version;
        default:
            return classes.error;
    }
}

}  // namespace

bool load_errors() {
    const Reference module(PyImport_ImportModule("maru.errors"));
    if (!module) return false;
    const auto find = [&](PyObject*& place, const char* name) {
        place = PyObject_GetAttrString(module.get(), name);
        return place != nullptr;
    };
    return find(classes.error, "MaruError") && find(classes.unavailable, "MaruUnavailableError") &&
           find(classes.timeout, "MaruTimeoutError") && find(classes.full, "MaruFullError") &&
           find(classes.fenced, "MaruFencedError") && find(classes.forked, "MaruForkedError") &&
           find(classes.damaged, "MaruDamagedError") && find(classes.denied, "MaruDeniedError") &&
           find(classes.version, "MaruVersionError");
}

PyObject* raise(maru_status status, const char* text) {
    PyErr_SetString(class_of(status), text);
    return nullptr;
}

PyObject* raise(maru_status status) {
    const char* const detail = maru_detail(nullptr);
    return raise(status, *detail != 0 ? detail : maru_strerror(status));
}

PyObject* raise(const Session* session, maru_status status) {
    if (status == MARU_ERR_INVALID && session->closed())
        return raise(MARU_ERR_UNAVAILABLE, "this handler was closed meanwhile");
    return raise(status);
}

}  // namespace maru::python
