// PlaceView: what a memoryview of get_buffer_view keeps alive.
#include "views.hpp"

namespace maru::python {
namespace {

struct PlaceView {
    PyObject_HEAD Session* session;
    maru_view view;  // a lease, or token 0
    Page* page;      // or NULL
    bool holds;      // the client's memory
    void* data;
    std::uint64_t size;
};

PyTypeObject* type = nullptr;

void dealloc(PyObject* object) {
    auto* const self = reinterpret_cast<PlaceView*>(object);
    PyTypeObject* const own_type = Py_TYPE(object);
    if (self->page != nullptr) self->page->drop_buffer();
    if (self->view.token != 0) self->session->end(&self->view);
    if (self->holds) self->session->let_go();
    self->session->drop();
    PyObject_Free(object);
    Py_DECREF(reinterpret_cast<PyObject*>(own_type));
}

int export_buffer(PyObject* object, Py_buffer* buffer, int flags) {
    auto* const self = reinterpret_cast<PlaceView*>(object);
    return PyBuffer_FillInfo(buffer, object, self->data, static_cast<Py_ssize_t>(self->size), 0, flags);
}

PyType_Slot slots[] = {
    {Py_tp_dealloc, as_slot(dealloc)}, {Py_bf_getbuffer, as_slot(export_buffer)}, {0, nullptr}};
PyType_Spec spec = {"maru.PlaceView", sizeof(PlaceView), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

bool add_place_view() {
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return type != nullptr;
}

PyObject* new_place_view(Session* session, void* data, std::uint64_t size, const maru_view& view,
                         Page* page) {
    auto* const self = PyObject_New(PlaceView, type);
    if (self == nullptr) return nullptr;
    self->session = session;
    session->hold();
    self->view = view;
    self->page = page;
    if (page != nullptr) page->add_buffer();
    self->holds = view.token == 0 && page == nullptr && maru_hold(session->client()) == MARU_OK;
    self->data = data;
    self->size = size;
    const Reference exporter(reinterpret_cast<PyObject*>(self));
    return PyMemoryView_FromObject(exporter.get());
}

}  // namespace maru::python
