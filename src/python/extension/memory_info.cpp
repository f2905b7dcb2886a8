// MemoryInfo: a published object and the lease on it.
#include "errors.hpp"
#include "object_pool.hpp"
#include "views.hpp"

namespace maru::python {
namespace {

struct MemoryInfo {
    PyObject_HEAD Session* session;  // NULL when it was made by keywords, or its lease has ended
    maru_view view;
    PyObject* given;   // what `view` was made with
    PyObject* latest;  // weak: the memoryview handed out last
    std::uint32_t buffers;
    bool released;
};

PyTypeObject* type = nullptr;
ObjectPool<MemoryInfo> pool;

MemoryInfo* of(PyObject* object) {
    return reinterpret_cast<MemoryInfo*>(object);
}

void end_lease(MemoryInfo* self) {
    Session* const session = std::exchange(self->session, nullptr);
    if (session == nullptr) return;
    session->end(&self->view);
    session->drop();
}

MemoryInfo* make() {
    MemoryInfo* const self = pool.make(type);
    if (self == nullptr) return nullptr;
    self->session = nullptr;
    self->given = self->latest = nullptr;
    self->buffers = 0;
    self->released = false;
    return self;
}

void dealloc(PyObject* object) {
    MemoryInfo* const self = of(object);
    end_lease(self);
    Py_XDECREF(self->given);
    Py_XDECREF(self->latest);
    pool.drop(self);
}

bool read_number(PyObject* object, const char* name, std::uint32_t* number) {
    if (object == nullptr) return true;
    const unsigned long long value = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred()) return false;
    if (value > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s is %llu, at most %lu is possible", name, value,
                     static_cast<unsigned long>(UINT32_MAX));
        return false;
    }
    *number = static_cast<std::uint32_t>(value);
    return true;
}

PyObject* construct(PyTypeObject*, PyObject* positional, PyObject* named) {
    static const char* names[] = {"view", "region_id", "page_index", nullptr};
    PyObject *view = nullptr, *region = nullptr, *page = nullptr;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "O|OO:MemoryInfo", const_cast<char**>(names), &view,
                                     &region, &page))
        return nullptr;
    maru_view numbers{};
    if (!read_number(region, "region_id", &numbers.region) || !read_number(page, "page_index", &numbers.page))
        return nullptr;
    MemoryInfo* const self = make();
    if (self == nullptr) return nullptr;
    self->view = numbers;
    Py_INCREF(view);
    self->given = view;
    return reinterpret_cast<PyObject*>(self);
}

PyObject* released_already() {
    PyErr_SetString(PyExc_ValueError, "this MemoryInfo was released");
    return nullptr;
}

int export_buffer(PyObject* object, Py_buffer* buffer, int flags) {
    MemoryInfo* const self = of(object);
    if (self->given != nullptr && !self->released) return PyObject_GetBuffer(self->given, buffer, flags);
    if (self->released) {
        (void)released_already();
        buffer->obj = nullptr;
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, object, const_cast<void*>(self->view.data),
                          static_cast<Py_ssize_t>(self->view.size), 1, flags) != 0)
        return -1;
    ++self->buffers;
    return 0;
}

void release_buffer(PyObject* object, Py_buffer*) {
    MemoryInfo* const self = of(object);
    if (--self->buffers == 0 && self->released) end_lease(self);
}

PyObject* get_view(PyObject* object, void*) {
    MemoryInfo* const self = of(object);
    if (self->released) return released_already();
    if (self->given != nullptr) return Py_NewRef(self->given);
    return memoryview_of(object, &self->latest);
}

PyObject* get_region(PyObject* object, void*) {
    return PyLong_FromUnsignedLong(of(object)->view.region);
}
PyObject* get_page(PyObject* object, void*) {
    return PyLong_FromUnsignedLong(of(object)->view.page);
}

/// The memoryview handed out last becomes unusable, unless something else was made from it.
void release_latest(MemoryInfo* self) {
    const Reference latest(std::exchange(self->latest, nullptr));
    if (!latest) return;
    const Reference view(living(latest.get()));
    if (!view) return;
    const Reference done(PyObject_CallMethod(view.get(), "release", nullptr));
    if (!done) PyErr_Clear();  // BufferError: the lease ends with what was made from it
}

PyObject* release(PyObject* object, PyObject*) {
    MemoryInfo* const self = of(object);
    if (!self->released) {
        self->released = true;
        release_latest(self);
        if (self->buffers == 0) end_lease(self);
        Py_CLEAR(self->given);
    }
    Py_RETURN_NONE;
}

PyObject* enter(PyObject* object, PyObject*) {
    if (of(object)->released) return released_already();
    return Py_NewRef(object);
}

PyObject* leave(PyObject* object, PyObject*) {
    return release(object, nullptr);
}

PyObject* describe(PyObject* object) {
    const MemoryInfo* const self = of(object);
    if (self->released) return PyUnicode_FromString("<maru.MemoryInfo released>");
    const std::uint64_t size = self->view.size;
    if (self->given != nullptr)
        return PyUnicode_FromFormat("<maru.MemoryInfo region_id=%lu page_index=%lu>",
                                    static_cast<unsigned long>(self->view.region),
                                    static_cast<unsigned long>(self->view.page));
    return PyUnicode_FromFormat("<maru.MemoryInfo region_id=%lu page_index=%lu, %llu bytes>",
                                static_cast<unsigned long>(self->view.region),
                                static_cast<unsigned long>(self->view.page),
                                static_cast<unsigned long long>(size));
}

PyGetSetDef properties[] = {
    {"view", get_view, nullptr,
     "The bytes of the value: a read-only memoryview. It and everything made from it (slices, arrays, "
     "tensors) keep the "
     "lease: the bytes do not change and the page is not reused while any of them lives.",
     nullptr},
    {"region_id", get_region, nullptr, "Number of the region that holds the page.", nullptr},
    {"page_index", get_page, nullptr, "Number of the page in its region.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {{"release", release, METH_NOARGS,
                          "release($self, /)\n--\n\nEnds the lease now, or, when arrays or slices made from "
                          "`view` still live, with the last of "
                          "them. Does nothing the second time. `view` raises ValueError afterwards."},
                         {"__enter__", enter, METH_NOARGS, nullptr},
                         {"__exit__", leave, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

constexpr const char* documentation =
    "MemoryInfo(view, region_id=0, page_index=0)\n--\n\n"
    "A published object, in place: no byte was copied. A lease protects the bytes until the last view dies "
    "or release().\n"
    "Also a context manager, which releases, and an object with the buffer protocol.\n"
    "Threads: may be used and released from any thread.";

PyType_Slot slots[] = {{Py_tp_new, as_slot(construct)},
                       {Py_tp_dealloc, as_slot(dealloc)},
                       {Py_tp_repr, as_slot(describe)},
                       {Py_tp_getset, properties},
                       {Py_tp_methods, methods},
                       {Py_tp_doc, const_cast<char*>(documentation)},
                       {Py_bf_getbuffer, as_slot(export_buffer)},
                       {Py_bf_releasebuffer, as_slot(release_buffer)},
                       {0, nullptr}};
PyType_Spec spec = {"maru.MemoryInfo", sizeof(MemoryInfo), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool add_memory_info(PyObject* module) {
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return type != nullptr &&
           PyModule_AddObjectRef(module, "MemoryInfo", reinterpret_cast<PyObject*>(type)) == 0;
}

PyObject* new_memory_info(Session* session, const maru_view& view) {
    MemoryInfo* const self = make();
    if (self == nullptr) {
        maru_view unwanted = view;
        session->end(&unwanted);
        return nullptr;
    }
    self->view = view;
    self->session = session;
    session->hold();
    return reinterpret_cast<PyObject*>(self);
}

const maru_view* view_of_memory_info(PyObject* object) {
    return &of(object)->view;
}

}  // namespace maru::python
