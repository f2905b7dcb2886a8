// AllocHandle: a page of the handler, to be filled and stored.
#include "errors.hpp"
#include "object_pool.hpp"
#include "views.hpp"

namespace maru::python {
namespace {

struct AllocHandle {
    PyObject_HEAD Page* page;  // NULL while a handle made from numbers has not been used
    PyObject* given;           // `buf` of a handle made from numbers
    PyObject* latest;          // weak: the memoryview handed out last
    std::uint64_t region, index, size;
};

PyTypeObject* type = nullptr;
ObjectPool<AllocHandle> pool;

AllocHandle* of(PyObject* object) {
    return reinterpret_cast<AllocHandle*>(object);
}

void dealloc(PyObject* object) {
    AllocHandle* const self = of(object);
    Py_XDECREF(self->latest);
    Py_XDECREF(self->given);
    if (Page* const page = std::exchange(self->page, nullptr)) page->drop_handle();
    pool.drop(self);
}

PyObject* construct(PyTypeObject*, PyObject* positional, PyObject* named) {
    static const char* names[] = {"buf", "_region_id", "_page_index", "_size", nullptr};
    PyObject *buf = nullptr, *numbers[3] = {};
    if (!PyArg_ParseTupleAndKeywords(positional, named, "OOOO:AllocHandle", const_cast<char**>(names), &buf,
                                     &numbers[0], &numbers[1], &numbers[2]))
        return nullptr;
    unsigned long long values[3];
    for (int i = 0; i < 3; ++i) {
        values[i] = PyLong_AsUnsignedLongLong(numbers[i]);
        if (PyErr_Occurred()) {
            if (PyErr_ExceptionMatches(PyExc_OverflowError))
                PyErr_Format(PyExc_ValueError, "%s is %R: a number from 0 to 2**64 - 1 was expected",
                             names[i + 1], numbers[i]);
            return nullptr;
        }
    }
    AllocHandle* const self = pool.make(type);
    if (self == nullptr) return nullptr;
    self->page = nullptr;
    self->latest = nullptr;
    self->given = Py_NewRef(buf);
    self->region = values[0];
    self->index = values[1];
    self->size = values[2];
    return reinterpret_cast<PyObject*>(self);
}

bool has_bytes(const AllocHandle* self) {
    using State = Page::State;
    if (self->page != nullptr && self->page->state != State::freed && self->page->state != State::gone)
        return true;
    PyErr_SetString(PyExc_ValueError,
                    self->page == nullptr
                        ? "this handle was made from numbers: its bytes are those of its `buf`"
                        : "this handle has no page any more: it was freed, or its handler closed");
    return false;
}

int export_buffer(PyObject* object, Py_buffer* buffer, int flags) {
    AllocHandle* const self = of(object);
    if (self->given != nullptr) return PyObject_GetBuffer(self->given, buffer, flags);
    if (!has_bytes(self)) {
        buffer->obj = nullptr;
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, object, self->page->page.data, static_cast<Py_ssize_t>(self->size), 0,
                          flags) != 0)
        return -1;
    self->page->add_buffer();
    return 0;
}

void release_buffer(PyObject* object, Py_buffer*) {
    of(object)->page->drop_buffer();
}

PyObject* get_buf(PyObject* object, void*) {
    AllocHandle* const self = of(object);
    if (self->given != nullptr) return Py_NewRef(self->given);
    return memoryview_of(object, &self->latest);
}

PyObject* get_region(PyObject* object, void*) {
    return PyLong_FromUnsignedLongLong(of(object)->region);
}
PyObject* get_index(PyObject* object, void*) {
    return PyLong_FromUnsignedLongLong(of(object)->index);
}
PyObject* get_size(PyObject* object, void*) {
    return PyLong_FromUnsignedLongLong(of(object)->size);
}

PyObject* describe(PyObject* object) {
    const AllocHandle* const self = of(object);
    return PyUnicode_FromFormat("<maru.AllocHandle region_id=%llu page_index=%llu, %llu bytes>",
                                static_cast<unsigned long long>(self->region),
                                static_cast<unsigned long long>(self->index),
                                static_cast<unsigned long long>(self->size));
}

PyGetSetDef properties[] = {
    {"buf", get_buf, nullptr,
     "The page's bytes: a writable memoryview of exactly `size` bytes. Write nothing after store(): the "
     "object is shared "
     "from then on. Whatever is made from it keeps the page.",
     nullptr},
    {"region_id", get_region, nullptr, "Number of the region that holds the page.", nullptr},
    {"page_index", get_index, nullptr, "Number of the page in its region.", nullptr},
    {"size", get_size, nullptr, "Bytes of the value.", nullptr},
    {"_region_id", get_region, nullptr, nullptr, nullptr},
    {"_page_index", get_index, nullptr, nullptr, nullptr},
    {"_size", get_size, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr const char* documentation =
    "AllocHandle(buf, _region_id, _page_index, _size)\n--\n\n"
    "A reserved page, from MaruHandler.alloc. Made by keywords it names a page that the handler has "
    "reserved, found by\n"
    "region and page when it is used; `buf` may be empty then.";

PyType_Slot slots[] = {{Py_tp_new, as_slot(construct)},
                       {Py_tp_dealloc, as_slot(dealloc)},
                       {Py_tp_repr, as_slot(describe)},
                       {Py_tp_getset, properties},
                       {Py_tp_doc, const_cast<char*>(documentation)},
                       {Py_bf_getbuffer, as_slot(export_buffer)},
                       {Py_bf_releasebuffer, as_slot(release_buffer)},
                       {0, nullptr}};
PyType_Spec spec = {"maru.AllocHandle", sizeof(AllocHandle), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool add_alloc_handle(PyObject* module) {
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return type != nullptr &&
           PyModule_AddObjectRef(module, "AllocHandle", reinterpret_cast<PyObject*>(type)) == 0;
}

PyObject* new_alloc_handle(Page* page) {
    AllocHandle* const self = pool.make(type);
    if (self == nullptr) {
        page->free();
        return nullptr;
    }
    self->page = page;
    self->given = self->latest = nullptr;
    self->region = page->page.region;
    self->index = page->page.page;
    self->size = page->page.capacity;
    page->add_handle();
    return reinterpret_cast<PyObject*>(self);
}

Page* page_of_handle(Session* session, PyObject* object, std::uint64_t* size) {
    using State = Page::State;
    if (Py_TYPE(object) != type) {
        const Reference of_type(PyObject_Str(reinterpret_cast<PyObject*>(Py_TYPE(object))));
        if (of_type) PyErr_Format(PyExc_TypeError, "a handle is a maru.AllocHandle, not %U", of_type.get());
        return nullptr;
    }
    AllocHandle* const self = of(object);
    if (self->page == nullptr) {
        Page* const found = session->find(self->region, self->index);
        if (found == nullptr) {
            PyErr_Format(PyExc_ValueError, "page %llu of region %llu is not reserved by this handler",
                         static_cast<unsigned long long>(self->index),
                         static_cast<unsigned long long>(self->region));
            return nullptr;
        }
        self->page = found;
        found->add_handle();
    }
    Page* const page = self->page;
    if (page->state == State::freed || page->state == State::gone) {
        PyErr_Format(PyExc_ValueError, "page %llu of region %llu was freed already, or its handler closed",
                     static_cast<unsigned long long>(self->index),
                     static_cast<unsigned long long>(self->region));
        return nullptr;
    }
    if (page->session != session) {
        PyErr_SetString(PyExc_ValueError, "this page belongs to another handler");
        return nullptr;
    }
    *size = self->size;
    return page;
}

}  // namespace maru::python
