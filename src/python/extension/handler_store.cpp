// Pages, publication, removal.
#include <algorithm>
#include <memory>
#include <vector>

#include "data.hpp"
#include "errors.hpp"
#include "handler.hpp"
#include "keys.hpp"
#include "views.hpp"

namespace maru::python {
namespace {

/// A page from held memory without releasing the GIL, else by every way there is.
maru_status take_page(Session* session, std::uint64_t size, maru_page* page) {
    const maru_status status = maru_alloc_held(session->client(), size, page);
    if (status != MARU_ERR_FULL) return status;
    const WithoutGil without;
    return maru_alloc(session->client(), size, page);
}

/// What a publication means for the page; the page's handle is held by the caller.
void settle_stored(Page* page, const maru_page& after, maru_status status) {
    if (page->state == Page::State::gone) return;  // freed meanwhile
    page->page = after;  // also of one that waits for its buffers: its token has changed
    if (page->state == Page::State::freed) return;
    if (status == MARU_OK) page->state = Page::State::published;
    if (status == MARU_EXISTS) page->state = Page::State::duplicate;
}

/// Is this a publication that was given up? Those are answered False; everything else is raised.
bool was_given_up(maru_status status) {
    return status == MARU_ERR_CONTENDED || status == MARU_ERR_INDEX_FULL || status == MARU_ERR_FULL ||
           status == MARU_ERR_FENCED;
}

/// False with an exception set in a forked child, which must not even seem to give a page back.
bool may_act(const Session* session) {
    if (maru_page_size(session->client()) != 0) return true;
    std::size_t count = 0;
    raise(session, maru_held_regions(session->client(), nullptr, 0, &count));
    return false;
}

PyObject* store_answer(PyObject* self, const Session* session, Operation operation, maru_status status) {
    if (status >= 0) Py_RETURN_TRUE;
    if (!was_given_up(status)) return raise(session, status);
    if (!note_failure(self, operation, status)) return nullptr;
    Py_RETURN_FALSE;
}

bool is_storable(const Page* page) {
    if (page->state == Page::State::reserved || page->state == Page::State::duplicate) return true;
    PyErr_Format(PyExc_ValueError, "page %lu of region %lu is published already: allocate another one",
                 static_cast<unsigned long>(page->page.page), static_cast<unsigned long>(page->page.region));
    return false;
}

PyObject* store_handle(PyObject* self, Session* session, const Key& key, PyObject* handle) {
    std::uint64_t size = 0;
    Page* const page = page_of_handle(session, handle, &size);
    if (page == nullptr || !is_storable(page)) return nullptr;
    OperationTable& operations = handler_of(self)->operations;
    const Timer timer(operations, Operation::store);
    maru_page pages = page->page;
    const maru_status status = maru_store(session->client(), key.data(), key.size(), &pages, size);
    settle_stored(page, pages, status);
    operations[Operation::store].count(1, status == MARU_OK ? 1 : 0, status == MARU_OK ? size : 0);
    return store_answer(self, session, Operation::store, status);
}

PyObject* store_data(PyObject* self, Session* session, const Key& key, PyObject* object) {
    Data data;
    if (!data.read(object)) return nullptr;
    const SessionInUse in_use(session);
    OperationTable& operations = handler_of(self)->operations;
    maru_status status;
    {
        const Timer timer(operations, Operation::store);
        const WithoutGil without;
        status = maru_put(session->client(), key.data(), key.size(), data.bytes(), data.size());
    }
    operations[Operation::store].count(1, status == MARU_OK ? 1 : 0, status == MARU_OK ? data.size() : 0);
    if (status == MARU_ERR_FULL) return raise(status);  // no page: as alloc says it
    if (handler_of(self)->watches_regions && !note_regions(self)) return nullptr;
    return store_answer(self, session, Operation::store, status);
}

struct StoreBatch {
    Keys keys;
    Reference handles;
    std::vector<Page*> pages;
    std::vector<maru_page> copies;
    std::vector<std::uint64_t> sizes;
    std::vector<maru_status> statuses;

    bool read(Session* session, PyObject* key_objects, PyObject* handle_objects) {
        if (!keys.read("batch_store", key_objects)) return false;
        handles = Reference(as_tuple("batch_store", "handles", handle_objects));
        if (!handles) return false;
        const auto count = static_cast<std::size_t>(PyTuple_Size(handles.get()));
        if (count != keys.count()) {
            PyErr_Format(PyExc_ValueError, "batch_store() got %zu keys and %zu handles", keys.count(), count);
            return false;
        }
        sizes.resize(count);
        statuses.resize(count);
        for (std::size_t i = 0; i < count; ++i) {
            PyObject* const handle = PyTuple_GetItem(handles.get(), static_cast<Py_ssize_t>(i));
            Page* const page = page_of_handle(session, handle, &sizes[i]);
            if (page == nullptr || !is_storable(page)) return false;
            pages.push_back(page);
            copies.push_back(page->page);
        }
        return no_page_twice();
    }
    bool no_page_twice() const {
        std::vector<Page*> sorted(pages);
        std::sort(sorted.begin(), sorted.end());
        if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return true;
        PyErr_SetString(PyExc_ValueError,
                        "batch_store() got one page twice: each key needs a page of its own");
        return false;
    }
};

PyObject* finish_batch(PyObject* self, StoreBatch& batch) {
    std::uint64_t bytes = 0, stored = 0;
    maru_status raised = MARU_OK, noted = MARU_OK;
    Reference list(PyList_New(static_cast<Py_ssize_t>(batch.pages.size())));
    for (std::size_t i = 0; i < batch.pages.size(); ++i) {
        const maru_status status = batch.statuses[i];
        settle_stored(batch.pages[i], batch.copies[i], status);
        if (status == MARU_OK) {
            ++stored;
            bytes += batch.sizes[i];
        } else if (status < 0) {
            maru_status& first = was_given_up(status) ? noted : raised;
            if (first == MARU_OK) first = status;
        }
        if (list)
            PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i),
                           Py_NewRef(status >= 0 ? Py_True : Py_False));
    }
    handler_of(self)->operations[Operation::batch_store].count(batch.pages.size(), stored, bytes);
    if (!list) return nullptr;
    if (raised != MARU_OK) return raise(raised);
    if (noted != MARU_OK && !note_failure(self, Operation::batch_store, noted)) return nullptr;
    return list.release();
}

maru_status remove_key(PyObject* self, const Arguments& given, const char* method) {
    Session* const session = usable_session(self);
    if (session == nullptr) return MARU_ERR_INVALID;
    PyObject* const argument = read_argument(method, "key", given);
    Key key;
    if (argument == nullptr || !key.read(argument)) return MARU_ERR_INVALID;
    OperationTable& operations = handler_of(self)->operations;
    const Timer timer(operations, Operation::delete_key);
    const maru_status status = maru_remove(session->client(), key.data(), key.size());
    operations[Operation::delete_key].count(1, status == MARU_OK ? 1 : 0, 0);
    if (is_final(status)) raise(status);
    return status;
}

}  // namespace

PyObject* handler_alloc(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    Session* const session = usable_session(self);
    PyObject* const argument =
        session == nullptr ? nullptr : read_argument("alloc", "size", {values, count, names});
    if (argument == nullptr) return nullptr;
    const long long size = PyLong_AsLongLong(argument);
    if (size < 0) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "size is %lld: a page holds 0 bytes or more", size);
        return nullptr;
    }
    const SessionInUse in_use(session);
    OperationTable& operations = handler_of(self)->operations;
    const Timer timer(operations, Operation::alloc);
    maru_page page;
    const maru_status status = take_page(session, static_cast<std::uint64_t>(size), &page);
    operations[Operation::alloc].count(1, status == MARU_OK ? 1 : 0, status == MARU_OK ? page.capacity : 0);
    if (status != MARU_OK) return raise(session, status);
    if (session->closed()) return raise(session, MARU_ERR_INVALID);  // the page went back with the close
    const Reference handle(new_alloc_handle(session->add(page)));
    if (!handle) return nullptr;
    if (handler_of(self)->watches_regions && !session->knows(page.region) && !note_regions(self))
        return nullptr;
    return Py_NewRef(handle.get());
}

PyObject* handler_free(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    Session* const session = usable_session(self);
    PyObject* const handle =
        session == nullptr ? nullptr : read_argument("free", "handle", {values, count, names});
    std::uint64_t size = 0;
    Page* const page = handle == nullptr ? nullptr : page_of_handle(session, handle, &size);
    if (page == nullptr || !may_act(session)) return nullptr;
    OperationTable& operations = handler_of(self)->operations;
    const Timer timer(operations, Operation::free);
    operations[Operation::free].count(1, 1, 0);
    page->free();
    Py_RETURN_NONE;
}

PyObject* handler_store(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    static const char* const places[] = {"key", "handle", "data"};
    PyObject* arguments[3];
    Session* const session = usable_session(self);
    if (session == nullptr || !read_arguments("store", {values, count, names}, places, 3, 1, 2, arguments))
        return nullptr;
    PyObject* const handle = arguments[1] == Py_None ? nullptr : arguments[1];
    PyObject* const data = arguments[2] == Py_None ? nullptr : arguments[2];
    if ((handle == nullptr) == (data == nullptr)) {
        PyErr_SetString(PyExc_TypeError, "store() takes a handle or data=, one of the two");
        return nullptr;
    }
    Key key;
    if (!key.read(arguments[0])) return nullptr;
    return handle != nullptr ? store_handle(self, session, key, handle)
                             : store_data(self, session, key, data);
}

PyObject* handler_batch_store(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    static const char* const places[] = {"keys", "handles"};
    PyObject* arguments[2];
    Session* const session = usable_session(self);
    if (session == nullptr ||
        !read_arguments("batch_store", {values, count, names}, places, 2, 2, 2, arguments))
        return nullptr;
    StoreBatch batch;
    if (!batch.read(session, arguments[0], arguments[1])) return nullptr;
    const SessionInUse in_use(session);
    OperationTable& operations = handler_of(self)->operations;
    maru_status status;
    {
        const Timer timer(operations, Operation::batch_store);
        const WithoutGil without(batch.pages.size() >= batch_without_gil);
        status = maru_store_batch(session->client(), batch.keys.data(), batch.copies.data(),
                                  batch.sizes.data(), batch.statuses.data(), batch.pages.size());
    }
    if (status == MARU_ERR_FENCED)
        std::fill(batch.statuses.begin(), batch.statuses.end(), status);
    else if (status != MARU_OK)
        return raise(session, status);
    return finish_batch(self, batch);
}

PyObject* handler_delete(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    const maru_status status = remove_key(self, {values, count, names}, "delete");
    if (PyErr_Occurred()) return nullptr;
    if (status == MARU_OK) Py_RETURN_TRUE;
    if (status < 0 && status != MARU_ERR_PINNED && !note_failure(self, Operation::delete_key, status))
        return nullptr;
    Py_RETURN_FALSE;
}

PyObject* handler_delete_status(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    const maru_status status = remove_key(self, {values, count, names}, "delete_status");
    if (PyErr_Occurred()) return nullptr;
    switch (status) {
        case MARU_OK:
            return PyUnicode_FromString("deleted");
        case MARU_MISS:
            return PyUnicode_FromString("absent");
        case MARU_ERR_PINNED:
            return PyUnicode_FromString("pinned");
        default:
            return raise(status);
    }
}

}  // namespace maru::python
