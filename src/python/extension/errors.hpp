// From a status of the client library to a Python exception.
#pragma once

#include <maru/maru.h>

#include "python.hpp"
#include "session.hpp"

namespace maru::python {

/// Finds the exception classes in maru.errors. False with an exception set.
bool load_errors();

/// Sets the exception that stands for a status, with the library's detail text. Always NULL.
PyObject* raise(maru_status status);
/// The same after a call without the GIL: what a client says that was closed meanwhile is
/// MaruUnavailableError.
PyObject* raise(const Session* session, maru_status status);
/// The same with a text of our own.
PyObject* raise(maru_status status, const char* text);

}  // namespace maru::python
