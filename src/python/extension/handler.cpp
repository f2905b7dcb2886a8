#include "handler.hpp"

#include <cstring>
#include <exception>
#include <new>

#include "errors.hpp"
#include "keys.hpp"

namespace maru::python {
namespace {

PyObject* construct(PyTypeObject* type, PyObject*, PyObject*) {
    auto* const allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* const self = allocate(type, 0);  // zeroed
    if (self != nullptr) new (&handler_of(self)->operations) OperationTable;
    return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(handler_of(self)->retrieve_hook);
    return 0;
}

int clear(PyObject* self) {
    Py_CLEAR(handler_of(self)->retrieve_hook);
    return 0;
}

maru_status end_session(Handler* self) {
    Session* const session = std::exchange(self->session, nullptr);
    if (session == nullptr) return MARU_OK;
    const maru_status status = session->close();
    session->drop();
    return status;
}

void dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)end_session(handler_of(self));
    (void)clear(self);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(reinterpret_cast<PyObject*>(type));
}

/// _open(socket, instance_id, name_space, pool_size, page_size, expand_size, expand, prefault, timeout_ms):
/// the library's warning. A pool_size of 0 claims nothing.
PyObject* open(PyObject* self, PyObject* arguments) {
    const char *socket = nullptr, *instance_id = nullptr, *name_space = nullptr;
    unsigned long long pool_size = 0, page_size = 0, expand_size = 0;
    int expand = 1, prefault = 1;
    unsigned int timeout_ms = 0;
    if (!PyArg_ParseTuple(arguments, "zzzKKKppI:_open", &socket, &instance_id, &name_space, &pool_size,
                          &page_size, &expand_size, &expand, &prefault, &timeout_ms))
        return nullptr;
    if (handler_of(self)->session != nullptr) Py_RETURN_NONE;
    maru_options options = MARU_OPTIONS_INIT;
    options.server = socket;
    options.instance_id = instance_id;
    options.name_space = name_space;
    options.pool_size = pool_size;
    options.no_claim = pool_size == 0;
    options.page_size = page_size;
    options.expand_size = expand_size;
    options.no_expand = expand == 0;
    options.no_prefault = prefault == 0;
    options.timeout_ms = timeout_ms;
    Session* const session = Session::open(options);
    if (session == nullptr) return nullptr;
    handler_of(self)->session = session;
    return PyUnicode_DecodeUTF8(maru_detail(session->client()),
                                static_cast<Py_ssize_t>(strlen(maru_detail(session->client()))), "replace");
}

PyObject* close(PyObject* self, PyObject*) {
    const maru_status status = end_session(handler_of(self));
    if (status == MARU_OK) Py_RETURN_NONE;
    return raise(status);
}

PyObject* set_hook(PyObject* self, PyObject* hook) {
    Reference old(
        std::exchange(handler_of(self)->retrieve_hook, hook == Py_None ? nullptr : Py_NewRef(hook)));
    Py_RETURN_NONE;
}

PyObject* watch_regions(PyObject* self, PyObject* wanted) {
    const int is = PyObject_IsTrue(wanted);
    if (is < 0) return nullptr;
    handler_of(self)->watches_regions = is == 1;
    Py_RETURN_NONE;
}

PyObject* time_operations(PyObject* self, PyObject* wanted) {
    const int is = PyObject_IsTrue(wanted);
    if (is < 0) return nullptr;
    handler_of(self)->operations.timed = is == 1;
    Py_RETURN_NONE;
}

PyObject* get_open(PyObject* self, void*) {
    return PyBool_FromLong(handler_of(self)->session != nullptr);
}

PyGetSetDef properties[] = {{"_open_now", get_open, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr int fast = METH_FASTCALL | METH_KEYWORDS;

/// No exception of C++ reaches Python.
template <FastMethod* method>
PyObject* guarded(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) noexcept {
    try {
        return or_stand_still([&] { return method(self, values, count, names); });
    } catch (const std::exception&) {  // memory for a batch is all that can fail so
        return PyErr_NoMemory();
    }
}
template <PyCFunction method>
PyObject* guarded(PyObject* self, PyObject* argument) noexcept {
    try {
        return or_stand_still([&] { return method(self, argument); });
    } catch (const std::exception&) {
        return PyErr_NoMemory();
    }
}

PyMethodDef methods[] = {
    {"alloc", as_method(guarded<handler_alloc>), fast,
     "alloc($self, /, size)\n--\n\n"
     "Reserves a page; returns an AllocHandle whose `buf` has exactly `size` bytes (0 is valid).\n\n"
     "Raises ValueError when size is negative or larger than the page (the message has both numbers), and "
     "MaruFullError, a\n"
     "ValueError, when the held memory is full, no more can be claimed and nothing can be evicted; it says "
     "what holds the\n"
     "pool. Waits for the daemon at most timeout_ms, and only when more memory is claimed. Any thread."},
    {"free", as_method(guarded<handler_free>), fast,
     "free($self, /, handle)\n--\n\n"
     "Gives an unpublished page back; it is reused when no buffer over it is alive. After store() it drops "
     "the handle's\n"
     "lease and the key stays. Raises ValueError the second time, and for a page this handler has not "
     "reserved."},
    {"store", as_method(guarded<handler_store>), fast,
     "store($self, /, key, handle=None, *, data=None)\n--\n\n"
     "Publishes a value; True when the key is present afterwards.\n\n"
     "store(key, handle) publishes the page of the handle without copying: the bytes must be in place. "
     "store(key,\n"
     "data=buffer) allocates, copies and publishes; any contiguous buffer or CPU tensor. If the key is "
     "present the first\n"
     "value stays. False only when publication was given up (contention, index or pin slots full, this "
     "client fenced);\n"
     "last_error() says why. Raises ValueError for a page that is not reserved, and what alloc raises. Any "
     "thread; the GIL\n"
     "is released while bytes are copied."},
    {"batch_store", as_method(guarded<handler_batch_store>), fast,
     "batch_store($self, /, keys, handles)\n--\n\n"
     "store(key, handle) for each pair; a list of bool in the same order. Raises ValueError, before anything "
     "is stored,\n"
     "when the lengths differ or a handle cannot be stored. The GIL is released from 32 keys on."},
    {"retrieve", as_method(guarded<handler_retrieve>), fast,
     "retrieve($self, /, key)\n--\n\n"
     "The object of a key in place, as a MemoryInfo under a lease, or None. Copies nothing, takes "
     "nanoseconds, needs no\n"
     "daemon. Any thread."},
    {"batch_retrieve", as_method(guarded<handler_batch_retrieve>), fast,
     "batch_retrieve($self, /, keys)\n--\n\n"
     "A MemoryInfo or None for each key, always as many as keys. The GIL is released from 32 keys on."},
    {"exists", as_method(guarded<handler_exists>), fast,
     "exists($self, /, key)\n--\n\nIs the key present? Takes no lease and gives no credit against eviction."},
    {"batch_exists", as_method(guarded<handler_batch_exists>), fast,
     "batch_exists($self, /, keys)\n--\n\nA bool for each key. The GIL is released from 32 keys on."},
    {"pin", as_method(guarded<handler_pin>), fast,
     "pin($self, /, key)\n--\n\n"
     "Protects a key from delete and eviction until unpin(), close(), or the daemon's key_pin_ttl; counted. "
     "False when the\n"
     "key is absent."},
    {"unpin", as_method(guarded<handler_unpin>), fast,
     "unpin($self, /, key)\n--\n\nTakes one pin of this handler away; False when there is none."},
    {"batch_pin", as_method(guarded<handler_batch_pin>), fast,
     "batch_pin($self, /, keys)\n--\n\n"
     "Pins the leading keys that are present: from the first miss on all answers are False and nothing is "
     "pinned."},
    {"batch_unpin", as_method(guarded<handler_batch_unpin>), fast,
     "batch_unpin($self, /, keys)\n--\n\nunpin() for each key by itself; a list of bool."},
    {"match_prefix", as_method(guarded<handler_match_prefix>), fast,
     "match_prefix($self, /, keys, pin=False)\n--\n\n"
     "How many leading keys are present; with pin=True each of those is pinned."},
    {"delete", as_method(guarded<handler_delete>), fast,
     "delete($self, /, key)\n--\n\n"
     "Removes a key; False when it is absent or pinned by anybody. Views of it stay valid."},
    {"delete_status", as_method(guarded<handler_delete_status>), fast,
     "delete_status($self, /, key)\n--\n\nAs delete(), and says how it ended: 'deleted', 'absent' or "
     "'pinned'."},
    {"get_buffer_view", as_method(guarded<handler_get_buffer_view>), fast,
     "get_buffer_view($self, /, region_id, offset, size)\n--\n\n"
     "A writable memoryview of `size` bytes at `offset` bytes of a region, or None when that is out of "
     "range. Within one\n"
     "published page it takes a lease that lives as long as the view; a wider range takes none."},
    {"_open", guarded<open>, METH_VARARGS, nullptr},
    {"_close", guarded<close>, METH_NOARGS, nullptr},
    {"_set_retrieve_hook", guarded<set_hook>, METH_O, nullptr},
    {"_watch_regions", guarded<watch_regions>, METH_O, nullptr},
    {"_time_operations", guarded<time_operations>, METH_O, nullptr},
    {"_ping", guarded<handler_ping>, METH_NOARGS, nullptr},
    {"_held_regions", guarded<handler_held_regions>, METH_NOARGS, nullptr},
    {"_region", guarded<handler_region_info>, METH_O, nullptr},
    {"_pool", guarded<handler_pool_info>, METH_O, nullptr},
    {"_statistics", guarded<handler_statistics>, METH_NOARGS, nullptr},
    {"_domain_statistics", guarded<handler_domain_statistics>, METH_NOARGS, nullptr},
    {"_clients", guarded<handler_clients>, METH_NOARGS, nullptr},
    {"_operations", guarded<handler_operations>, METH_NOARGS, nullptr},
    {"_daemon_version", guarded<handler_daemon_version>, METH_NOARGS, nullptr},
    {"_chunk_size", guarded<handler_chunk_size>, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, as_slot(construct)},
                       {Py_tp_dealloc, as_slot(dealloc)},
                       {Py_tp_traverse, as_slot(traverse)},
                       {Py_tp_clear, as_slot(clear)},
                       {Py_tp_getset, properties},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"maru._maru.Handler", sizeof(Handler), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

Session* connect_for_use(PyObject* handler) {
    const Reference done(
        or_stand_still([&] { return PyObject_CallMethod(handler, "_connect_for_use", nullptr); }));
    if (!done) return nullptr;
    if (handler_of(handler)->session == nullptr) raise(MARU_ERR_UNAVAILABLE, "not connected: call connect()");
    return handler_of(handler)->session;
}

bool note_failure(PyObject* handler, Operation operation, maru_status status) {
    const char* const detail = maru_detail(nullptr);
    const Reference done(or_stand_still([&] {
        return PyObject_CallMethod(handler, "_note_failure", "sis",
                                   operation_names[static_cast<int>(operation)], static_cast<int>(status),
                                   *detail != 0 ? detail : maru_strerror(status));
    }));
    return static_cast<bool>(done);
}

bool note_regions(PyObject* handler) {
    const Reference done(
        or_stand_still([&] { return PyObject_CallMethod(handler, "_note_regions", nullptr); }));
    return static_cast<bool>(done);
}

bool add_handler_type(PyObject* module) {
    const Reference type(PyType_FromSpec(&spec));
    return type && PyModule_AddObjectRef(module, "Handler", type.get()) == 0;
}

}  // namespace maru::python
