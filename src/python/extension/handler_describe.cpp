// Regions, pools, statistics, views of memory by place.
#include <cstring>
#include <tuple>
#include <vector>

#include "errors.hpp"
#include "handler.hpp"
#include "views.hpp"

namespace maru::python {
namespace {

using Number = unsigned long long;

/// A number that may lie far outside of what exists: then `*exists` is false. False with an exception set.
bool read_number(PyObject* object, std::uint64_t* number, bool* exists) {
    *exists = true;
    const unsigned long long value = PyLong_AsUnsignedLongLong(object);
    if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
        PyErr_Clear();
        *exists = false;
        return true;
    }
    *number = value;
    return true;
}

/// The region, when it is in use. False with an exception set.
bool find_region(Session* session, std::uint64_t number, maru_region_description* region, bool* exists) {
    region->size = sizeof *region;
    const maru_status status =
        number > UINT32_MAX ? MARU_MISS
                            : maru_region_info(session->client(), static_cast<std::uint32_t>(number), region);
    *exists = status == MARU_OK;
    if (status == MARU_OK || status == MARU_MISS) return true;
    raise(status);
    return false;
}

/// A view of a range that lies in one page: what is published there gets a lease, what this handler has
/// reserved is kept.
PyObject* view_in_page(Session* session, const maru_region_description& region, std::uint64_t offset,
                       std::uint64_t size) {
    void* const data = static_cast<char*>(region.base) + offset;
    const auto index = static_cast<std::uint32_t>(offset / region.page_size);
    Page* const page = session->find(region.region, index);
    if (page != nullptr && page->state != Page::State::freed)
        return new_place_view(session, data, size, {}, page);
    maru_view view{};
    const maru_status status = maru_lease(session->client(), region.region, index, &view);
    if (status != MARU_OK && status != MARU_MISS) return raise(status);
    PyObject* const made = new_place_view(session, data, size, view, nullptr);
    if (made == nullptr && view.token != 0) session->end(&view);
    return made;
}

}  // namespace

PyObject* handler_get_buffer_view(PyObject* self, PyObject* const* values, Py_ssize_t count,
                                  PyObject* names) {
    static const char* const places[] = {"region_id", "offset", "size"};
    PyObject* arguments[3];
    Session* const session = usable_session(self);
    if (session == nullptr ||
        !read_arguments("get_buffer_view", {values, count, names}, places, 3, 3, 3, arguments))
        return nullptr;
    std::uint64_t numbers[3] = {};
    bool in_range = true;
    for (int i = 0; i < 3; ++i) {
        bool exists = true;
        if (!read_number(arguments[i], &numbers[i], &exists)) return nullptr;
        in_range = in_range && exists;
    }
    if (!in_range) Py_RETURN_NONE;
    maru_region_description region{};
    if (!find_region(session, numbers[0], &region, &in_range)) return nullptr;
    const auto [number, offset, size] = std::tuple(numbers[0], numbers[1], numbers[2]);
    const std::uint64_t room = region.page_size * region.page_count;
    if (!in_range || region.base == nullptr || offset > room || size > room - offset) Py_RETURN_NONE;
    if (size > 0 && offset / region.page_size == (offset + size - 1) / region.page_size)
        return view_in_page(session, region, offset, size);
    return new_place_view(session, static_cast<char*>(region.base) + offset, size, {}, nullptr);
}

PyObject* handler_ping(PyObject* self, PyObject*) {
    Session* const session = usable_session(self);
    if (session == nullptr) return nullptr;
    const SessionInUse in_use(session);
    maru_status status;
    {
        const WithoutGil without;
        status = maru_ping(session->client());
    }
    if (status == MARU_OK) Py_RETURN_NONE;
    return raise(session, status);
}

PyObject* handler_held_regions(PyObject* self, PyObject*) {
    Session* const session = handler_of(self)->session;
    if (session == nullptr) return PyList_New(0);
    std::vector<std::uint32_t> regions(64);
    std::size_t count = 0;
    maru_status status = maru_held_regions(session->client(), regions.data(), regions.size(), &count);
    while (status == MARU_OK && count > regions.size()) {
        regions.resize(count + 64);
        status = maru_held_regions(session->client(), regions.data(), regions.size(), &count);
    }
    if (status != MARU_OK) return raise(status);
    Reference list(PyList_New(static_cast<Py_ssize_t>(count)));
    if (!list) return nullptr;
    for (std::size_t i = 0; i < count; ++i) {
        PyObject* const number = PyLong_FromUnsignedLong(regions[i]);
        if (number == nullptr) return nullptr;
        PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), number);
        session->learn(regions[i]);
    }
    return list.release();
}

PyObject* handler_region_info(PyObject* self, PyObject* argument) {
    Session* const session = handler_of(self)->session;
    std::uint64_t number = 0;
    bool exists = true;
    if (!read_number(argument, &number, &exists)) return nullptr;
    if (session == nullptr || !exists) Py_RETURN_NONE;
    maru_region_description region{};
    if (!find_region(session, number, &region, &exists)) return nullptr;
    if (!exists) Py_RETURN_NONE;
    session->learn(region.region);  // not to be asked about again by every allocation
    return Py_BuildValue(
        "{s:k,s:k,s:K,s:K,s:K,s:k,s:O,s:K}", "region_id", static_cast<unsigned long>(region.region), "pool",
        static_cast<unsigned long>(region.pool), "offset", static_cast<Number>(region.offset), "bytes",
        static_cast<Number>(region.bytes), "page_size", static_cast<Number>(region.page_size), "page_count",
        static_cast<unsigned long>(region.page_count), "held", region.held != 0 ? Py_True : Py_False,
        "address", static_cast<Number>(reinterpret_cast<std::uintptr_t>(region.base)));
}

PyObject* handler_pool_info(PyObject* self, PyObject* argument) {
    Session* const session = handler_of(self)->session;
    const unsigned long number = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred()) return nullptr;
    if (session == nullptr || number > UINT32_MAX) Py_RETURN_NONE;
    maru_pool_description pool{};
    pool.size = sizeof pool;
    const maru_status status = maru_pool_info(session->client(), static_cast<std::uint32_t>(number), &pool);
    if (status == MARU_MISS) Py_RETURN_NONE;
    if (status != MARU_OK) return raise(status);
    return Py_BuildValue("{s:K,s:s,s:s,s:s,s:K}", "bytes", static_cast<Number>(pool.bytes), "name", pool.name,
                         "path", pool.path, "kind", pool.kind, "address",
                         static_cast<Number>(reinterpret_cast<std::uintptr_t>(pool.base)));
}

PyObject* handler_statistics(PyObject* self, PyObject*) {
    Session* const session = usable_session(self);
    if (session == nullptr) return nullptr;
    const SessionInUse in_use(session);
    maru_statistics is{};
    is.size = sizeof is;
    maru_status status;
    {
        const WithoutGil without;
        status = maru_stats(session->client(), &is);
    }
    if (status != MARU_OK) return raise(status);
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:O,s:K}", "lookups",
        static_cast<Number>(is.lookups), "hits", static_cast<Number>(is.hits), "stores",
        static_cast<Number>(is.stores), "duplicates", static_cast<Number>(is.duplicates), "deletes",
        static_cast<Number>(is.deletes), "evictions", static_cast<Number>(is.evictions), "rescues",
        static_cast<Number>(is.rescues), "contended", static_cast<Number>(is.contended), "held_regions",
        static_cast<Number>(is.held_regions), "held_bytes", static_cast<Number>(is.held_bytes), "page_size",
        static_cast<Number>(is.page_size), "pages", static_cast<Number>(is.pages), "free_pages",
        static_cast<Number>(is.free_pages), "pool_bytes", static_cast<Number>(is.pool_bytes),
        "unclaimed_bytes", static_cast<Number>(is.unclaimed_bytes), "reconnects",
        static_cast<Number>(is.reconnects), "connected", is.connected != 0 ? Py_True : Py_False, "damaged",
        static_cast<Number>(is.damaged));
}

PyObject* handler_domain_statistics(PyObject* self, PyObject*) {
    Session* const session = usable_session(self);
    if (session == nullptr) return nullptr;
    const SessionInUse in_use(session);
    maru_domain_statistics is{};
    is.size = sizeof is;
    maru_status status;
    {
        const WithoutGil without;
        status = maru_domain_stats(session->client(), &is);
    }
    if (status != MARU_OK) return raise(status);
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "objects", static_cast<Number>(is.objects),
        "object_bytes", static_cast<Number>(is.object_bytes), "free_pages",
        static_cast<Number>(is.free_pages), "reserved_pages", static_cast<Number>(is.reserved_pages),
        "retired_pages", static_cast<Number>(is.retired_pages), "quarantined_pages",
        static_cast<Number>(is.quarantined_pages), "pinned_pages", static_cast<Number>(is.pinned_pages),
        "page_bytes", static_cast<Number>(is.page_bytes), "reserved_bytes",
        static_cast<Number>(is.reserved_bytes), "evictions", static_cast<Number>(is.evictions), "regions",
        static_cast<Number>(is.regions), "clients", static_cast<Number>(is.clients));
}

PyObject* handler_clients(PyObject* self, PyObject*) {
    Session* const session = usable_session(self);
    if (session == nullptr) return nullptr;
    Reference list(PyList_New(0));
    if (!list) return nullptr;
    for (std::uint32_t slot = 1;; ++slot) {
        maru_client_description is{};
        is.size = sizeof is;
        const maru_status status = maru_client_info(session->client(), slot, &is);
        if (status == MARU_MISS) continue;
        if (status == MARU_ERR_INVALID) break;
        if (status != MARU_OK) return raise(status);
        const Reference one(Py_BuildValue(
            "{s:N,s:O,s:K,s:K,s:K,s:K,s:K,s:K}", "instance_id",
            PyUnicode_DecodeUTF8(is.instance_id,
                                 static_cast<Py_ssize_t>(strnlen(is.instance_id, sizeof is.instance_id)),
                                 "replace"),
            "self", is.self != 0 ? Py_True : Py_False, "lookups", static_cast<Number>(is.lookups), "hits",
            static_cast<Number>(is.hits), "stores", static_cast<Number>(is.stores), "duplicates",
            static_cast<Number>(is.duplicates), "deletes", static_cast<Number>(is.deletes), "evictions",
            static_cast<Number>(is.evictions)));
        if (!one || PyList_Append(list.get(), one.get()) != 0) return nullptr;
    }
    return list.release();
}

PyObject* handler_operations(PyObject* self, PyObject*) {
    return describe_operations(handler_of(self)->operations);
}

PyObject* handler_daemon_version(PyObject* self, PyObject*) {
    const Session* const session = handler_of(self)->session;
    return PyUnicode_FromString(session == nullptr ? "" : maru_daemon_version(session->client()));
}

PyObject* handler_chunk_size(PyObject* self, PyObject*) {
    const Session* const session = handler_of(self)->session;
    if (session == nullptr) Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(session->page_size());
}

}  // namespace maru::python
