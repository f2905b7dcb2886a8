// maru._maru: the part of the package that is compiled. One module for every CPython from 3.11 on.
#include "errors.hpp"
#include "handler.hpp"
#include "keys.hpp"
#include "views.hpp"

namespace {

PyObject* key_bytes(PyObject*, PyObject* object) {
    maru::python::Key key;
    if (!key.read(object)) return nullptr;
    return PyBytes_FromStringAndSize(static_cast<const char*>(key.data()),
                                     static_cast<Py_ssize_t>(key.size()));
}

PyMethodDef functions[] = {{"key_bytes", key_bytes, METH_O,
                            "key_bytes(key, /)\n--\n\nThe bytes under which a key is stored: what maructl "
                            "and engines in other languages use."},
                           {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "maru._maru", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__maru() {
    using namespace maru::python;
    if (!load_errors()) return nullptr;
    Reference module(PyModule_Create(&definition));
    if (!module || !add_memory_info(module.get()) || !add_alloc_handle(module.get()) || !add_place_view() ||
        !add_handler_type(module.get()))
        return nullptr;
    if (PyModule_AddStringConstant(module.get(), "version", maru_version()) != 0) return nullptr;
    if (PyModule_AddIntConstant(module.get(), "batch_without_gil", static_cast<long>(batch_without_gil)) != 0)
        return nullptr;
    return module.release();
}
