// CPython's stable interface, and small owners for what it hands out.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace maru::python {

/// A counted reference.
class Reference {
  public:
    Reference() = default;
    explicit Reference(PyObject* owned) : object_(owned) {}
    Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Reference& operator=(Reference&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Reference() { Py_XDECREF(object_); }

    explicit operator bool() const { return object_ != nullptr; }
    PyObject* get() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }

  private:
    PyObject* object_ = nullptr;
};

/// What a weak reference leads to, as a new reference; NULL without an exception when it is gone.
inline PyObject* living(PyObject* weak) {
    // Deprecated from 3.13 on, where what replaces it is new.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    PyObject* const borrowed = PyWeakref_GetObject(weak);
#pragma GCC diagnostic pop
    return borrowed == Py_None ? nullptr : Py_NewRef(borrowed);
}

/// The memoryview of an exporter: the same while somebody holds it. `latest`, the exporter's weak reference
/// to it, is NULL before the first.
inline PyObject* memoryview_of(PyObject* exporter, PyObject** latest) {
    if (*latest != nullptr) {
        if (PyObject* const same = living(*latest)) return same;
        Py_CLEAR(*latest);
    }
    PyObject* const made = PyMemoryView_FromObject(exporter);
    if (made == nullptr) return nullptr;
    *latest = PyWeakref_NewRef(made, nullptr);
    if (*latest == nullptr) PyErr_Clear();  // the next one will be another memoryview
    return made;
}

/// Runs what may wait for the GIL. Until 3.14 CPython ends a daemon thread that waits for it while the
/// interpreter ends, by pthread_exit, and what is on the thread's stack would be destroyed without the GIL.
/// Such a thread stands still instead; the process is about to go.
template <class Call>
auto or_stand_still(Call&& call) -> decltype(call()) {
    try {
        return call();
    } catch (const abi::__forced_unwind&) {
        for (;;)
            pause();
    }
}

/// Other threads may run Python meanwhile; nothing of Python may be touched.
class WithoutGil {
  public:
    explicit WithoutGil(bool really = true) : state_(really ? PyEval_SaveThread() : nullptr) {}
    ~WithoutGil() {
        if (state_ != nullptr) or_stand_still([this] { PyEval_RestoreThread(state_); });
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

  private:
    PyThreadState* state_;
};

/// What a method with METH_FASTCALL | METH_KEYWORDS was called with.
struct Arguments {
    PyObject* const* values;
    Py_ssize_t count;
    PyObject* keywords;  // names of the values behind `count`, or NULL
};

/// Puts each argument at the place of its name; the first `required` ones must be given, later ones are NULL
/// when they are not, and those from `positional` on go by name only. False, with a TypeError set, when they
/// do not fit.
bool read_arguments(const char* method, const Arguments& given, const char* const* names, int count,
                    int required, int positional, PyObject** places);

/// The single argument of most methods; NULL with a TypeError set.
inline PyObject* read_argument(const char* method, const char* name, const Arguments& given) {
    if (given.count == 1 && given.keywords == nullptr) [[likely]]
        return given.values[0];
    PyObject* place = nullptr;
    const char* const names[] = {name};
    return read_arguments(method, given, names, 1, 1, 1, &place) ? place : nullptr;
}

/// Method table entries take functions of several shapes through one.
template <class Function>
PyCFunction as_method(Function* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
template <class Function>
void* as_slot(Function* function) {
    return reinterpret_cast<void*>(function);
}

}  // namespace maru::python
