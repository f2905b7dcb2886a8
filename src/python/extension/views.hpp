// The Python types over memory: MemoryInfo (a published object), AllocHandle (a page to fill), PlaceView (a
// range of a region). All of them export their bytes through the buffer protocol, and what is exported keeps
// its lease, its page and the mapping, whatever happens to the handler.
#pragma once

#include "session.hpp"

namespace maru::python {

/// Add the types to the module. False with an exception set.
bool add_memory_info(PyObject* module);
bool add_alloc_handle(PyObject* module);
bool add_place_view();

/// A MemoryInfo that owns the lease of `view`; NULL with an exception set, and the lease has ended.
PyObject* new_memory_info(Session* session, const maru_view& view);
/// What a MemoryInfo of a retrieved object says about it.
const maru_view* view_of_memory_info(PyObject* object);

/// An AllocHandle of a page just allocated.
PyObject* new_alloc_handle(Page* page);
/// The page behind a handle, found by its place when the handle was made from numbers. NULL with TypeError or
/// ValueError set. `size` is what the handle says its value has.
Page* page_of_handle(Session* session, PyObject* handle, std::uint64_t* size);

/// A writable memoryview of a range. `view` is a lease to end with it (token 0: none), `page` a page of this
/// handler that it keeps (or NULL).
PyObject* new_place_view(Session* session, void* data, std::uint64_t size, const maru_view& view, Page* page);

}  // namespace maru::python
