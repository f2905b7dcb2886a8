// The part of MaruHandler that is called often. maru.handler derives from it and adds the rest in Python.
#pragma once

#include "operations.hpp"
#include "session.hpp"

namespace maru::python {

struct Handler {
    PyObject_HEAD Session* session;  // NULL while unconnected
    PyObject* retrieve_hook;         // called at the end of batch_retrieve, or NULL
    bool watches_regions;            // somebody wants to hear of new regions
    OperationTable operations;
};

inline constexpr std::size_t batch_without_gil = 32;

inline Handler* handler_of(PyObject* object) {
    return reinterpret_cast<Handler*>(object);
}

/// The session to use; connects when the handler asks for that. NULL with MaruUnavailableError set.
Session* connect_for_use(PyObject* handler);
inline Session* usable_session(PyObject* handler) {
    Session* const session = handler_of(handler)->session;
    if (session != nullptr) [[likely]]
        return session;
    return connect_for_use(handler);
}

/// A failure that is answered and not raised: kept for last_error(), logged once for each operation and
/// status. False with an exception set.
bool note_failure(PyObject* handler, Operation operation, maru_status status);
/// Tells who wants to hear of them about regions that came. False with an exception set.
bool note_regions(PyObject* handler);
/// The client may not act any more: these are raised by every operation.
inline bool is_final(maru_status status) {
    return status == MARU_ERR_FENCED || status == MARU_ERR_FORKED || status == MARU_ERR_INVALID;
}

/// One entry of the method table, with the shape of METH_FASTCALL | METH_KEYWORDS.
using FastMethod = PyObject*(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
#define MARU_PYTHON_METHOD(name) PyObject* name(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)
MARU_PYTHON_METHOD(handler_retrieve);
MARU_PYTHON_METHOD(handler_batch_retrieve);
MARU_PYTHON_METHOD(handler_exists);
MARU_PYTHON_METHOD(handler_batch_exists);
MARU_PYTHON_METHOD(handler_pin);
MARU_PYTHON_METHOD(handler_unpin);
MARU_PYTHON_METHOD(handler_batch_pin);
MARU_PYTHON_METHOD(handler_batch_unpin);
MARU_PYTHON_METHOD(handler_match_prefix);
MARU_PYTHON_METHOD(handler_alloc);
MARU_PYTHON_METHOD(handler_free);
MARU_PYTHON_METHOD(handler_store);
MARU_PYTHON_METHOD(handler_batch_store);
MARU_PYTHON_METHOD(handler_delete);
MARU_PYTHON_METHOD(handler_delete_status);
MARU_PYTHON_METHOD(handler_get_buffer_view);
#undef MARU_PYTHON_METHOD

PyObject* handler_ping(PyObject* self, PyObject*);
PyObject* handler_held_regions(PyObject* self, PyObject*);
PyObject* handler_region_info(PyObject* self, PyObject* number);
PyObject* handler_pool_info(PyObject* self, PyObject* number);
PyObject* handler_statistics(PyObject* self, PyObject*);
PyObject* handler_domain_statistics(PyObject* self, PyObject*);
PyObject* handler_clients(PyObject* self, PyObject*);
PyObject* handler_operations(PyObject* self, PyObject*);
PyObject* handler_daemon_version(PyObject* self, PyObject*);
PyObject* handler_chunk_size(PyObject* self, PyObject*);

/// Adds the type to the module. False with an exception set.
bool add_handler_type(PyObject* module);

}  // namespace maru::python
