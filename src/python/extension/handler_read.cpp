// Lookups, pins by name.
#include <memory>

#include "errors.hpp"
#include "handler.hpp"
#include "keys.hpp"
#include "views.hpp"

namespace maru::python {
namespace {

/// True or False for an answer; a failure that is no answer is noted and False, a final one raised.
PyObject* answer(PyObject* self, Operation operation, maru_status status) {
    if (status == MARU_OK) Py_RETURN_TRUE;
    if (status == MARU_MISS) Py_RETURN_FALSE;
    if (is_final(status)) return raise(status);
    if (!note_failure(self, operation, status)) return nullptr;
    Py_RETURN_FALSE;
}

/// One key, one status.
template <class Call>
PyObject* with_key(PyObject* self, Operation operation, const Arguments& given, Call&& call) {
    Session* const session = usable_session(self);
    if (session == nullptr) return nullptr;
    PyObject* const argument = read_argument(operation_names[static_cast<int>(operation)], "key", given);
    Key key;
    if (argument == nullptr || !key.read(argument)) return nullptr;
    OperationTable& operations = handler_of(self)->operations;
    const Timer timer(operations, operation);
    const maru_status status = call(session->client(), key.data(), key.size());
    operations[operation].count(1, status == MARU_OK ? 1 : 0, 0);
    return answer(self, operation, status);
}

struct Batch {
    Keys keys;
    Session* session = nullptr;
    std::unique_ptr<maru_status[]> statuses;
    std::size_t count = 0;

    bool read(PyObject* self, Operation operation, const Arguments& given) {
        const char* const method = operation_names[static_cast<int>(operation)];
        session = usable_session(self);
        PyObject* const argument = session == nullptr ? nullptr : read_argument(method, "keys", given);
        if (argument == nullptr || !keys.read(method, argument)) return false;
        count = keys.count();
        statuses.reset(new maru_status[count]);
        return true;
    }
    bool without_gil() const { return count >= batch_without_gil; }
    std::uint64_t hits() const {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < count; ++i)
            sum += statuses[i] == MARU_OK ? 1 : 0;
        return sum;
    }
    /// Notes the first failure among the entries; false with an exception set for one that is final.
    bool note(PyObject* self, Operation operation) const {
        for (std::size_t i = 0; i < count; ++i) {
            if (statuses[i] >= 0) continue;
            if (!is_final(statuses[i])) return note_failure(self, operation, statuses[i]);
            raise(statuses[i]);
            return false;
        }
        return true;
    }
};

/// Many keys, a list of bool.
template <class Call>
PyObject* with_keys(PyObject* self, Operation operation, const Arguments& given, Call&& call) {
    Batch batch;
    if (!batch.read(self, operation, given)) return nullptr;
    const SessionInUse in_use(batch.session);
    OperationTable& operations = handler_of(self)->operations;
    maru_status status;
    {
        const Timer timer(operations, operation);
        const WithoutGil without(batch.without_gil());
        status = call(batch.session->client(), batch.keys.data(), batch.statuses.get(), batch.count);
    }
    if (status != MARU_OK) return raise(batch.session, status);
    operations[operation].count(batch.count, batch.hits(), 0);
    if (!batch.note(self, operation)) return nullptr;
    Reference list(PyList_New(static_cast<Py_ssize_t>(batch.count)));
    if (!list) return nullptr;
    for (std::size_t i = 0; i < batch.count; ++i)
        PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i),
                       Py_NewRef(batch.statuses[i] == MARU_OK ? Py_True : Py_False));
    return list.release();
}

/// A list of MemoryInfo and None; views that did not get there are released.
PyObject* list_views(const Batch& batch, maru_view* views, std::uint64_t* bytes) {
    Reference list(PyList_New(static_cast<Py_ssize_t>(batch.count)));
    std::size_t i = 0;
    for (; list && i < batch.count; ++i) {
        PyObject* item = Py_None;
        if (batch.statuses[i] == MARU_OK) {
            *bytes += views[i].size;
            item = new_memory_info(batch.session, views[i]);
            if (item == nullptr) break;
        } else {
            Py_INCREF(item);
        }
        PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), item);
    }
    if (list && i == batch.count) return list.release();
    for (i += list ? 1 : 0; i < batch.count; ++i)
        if (batch.statuses[i] == MARU_OK) batch.session->end(&views[i]);
    return nullptr;
}

}  // namespace

PyObject* handler_retrieve(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    Session* const session = usable_session(self);
    if (session == nullptr) [[unlikely]]
        return nullptr;
    PyObject* const argument = read_argument("retrieve", "key", {values, count, names});
    Key key;
    if (argument == nullptr || !key.read(argument)) return nullptr;
    OperationTable& operations = handler_of(self)->operations;
    const Timer timer(operations, Operation::retrieve);
    maru_view view;
    const maru_status status = maru_retrieve(session->client(), key.data(), key.size(), &view);
    if (status == MARU_OK) [[likely]] {
        operations[Operation::retrieve].count(1, 1, view.size);
        return new_memory_info(session, view);
    }
    operations[Operation::retrieve].count(1, 0, 0);
    if (status != MARU_MISS) {
        if (is_final(status)) return raise(status);
        if (!note_failure(self, Operation::retrieve, status)) return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* handler_batch_retrieve(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    Batch batch;
    if (!batch.read(self, Operation::batch_retrieve, {values, count, names})) return nullptr;
    const SessionInUse in_use(batch.session);
    OperationTable& operations = handler_of(self)->operations;
    std::unique_ptr<maru_view[]> views(new maru_view[batch.count]);
    maru_status status;
    {
        const Timer timer(operations, Operation::batch_retrieve);
        const WithoutGil without(batch.without_gil());
        status = maru_retrieve_batch(batch.session->client(), batch.keys.data(), views.get(),
                                     batch.statuses.get(), batch.count);
    }
    if (status != MARU_OK) return raise(batch.session, status);
    std::uint64_t bytes = 0;
    Reference list(list_views(batch, views.get(), &bytes));
    if (!list) return nullptr;
    operations[Operation::batch_retrieve].count(batch.count, batch.hits(), bytes);
    if (!batch.note(self, Operation::batch_retrieve)) return nullptr;
    if (PyObject* const hook = handler_of(self)->retrieve_hook) {
        const Reference held(Py_NewRef(hook));
        const Reference done(or_stand_still([&] {
            return PyObject_CallFunctionObjArgs(hook, self, batch.keys.objects(), list.get(), nullptr);
        }));
        if (!done) return nullptr;
    }
    return list.release();
}

PyObject* handler_exists(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return with_key(self, Operation::exists, {values, count, names}, maru_exists);
}

PyObject* handler_batch_exists(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return with_keys(self, Operation::batch_exists, {values, count, names}, maru_exists_batch);
}

PyObject* handler_pin(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return with_key(self, Operation::pin, {values, count, names}, maru_pin);
}

PyObject* handler_unpin(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return with_key(self, Operation::unpin, {values, count, names}, maru_unpin);
}

PyObject* handler_batch_pin(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return with_keys(self, Operation::batch_pin, {values, count, names}, maru_pin_batch);
}

PyObject* handler_batch_unpin(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return with_keys(self, Operation::batch_unpin, {values, count, names}, maru_unpin_batch);
}

PyObject* handler_match_prefix(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    constexpr const char* method = "match_prefix";
    static const char* const places[] = {"keys", "pin"};
    PyObject* arguments[2];
    Session* const session = usable_session(self);
    if (session == nullptr || !read_arguments(method, {values, count, names}, places, 2, 1, 2, arguments))
        return nullptr;
    const int pins = arguments[1] == nullptr ? 0 : PyObject_IsTrue(arguments[1]);
    Keys keys;
    if (pins < 0 || !keys.read(method, arguments[0])) return nullptr;
    const SessionInUse in_use(session);
    OperationTable& operations = handler_of(self)->operations;
    std::unique_ptr<maru_status[]> statuses(pins != 0 ? new maru_status[keys.count()] : nullptr);
    std::size_t matched = 0;
    maru_status status;
    {
        const Timer timer(operations, Operation::match_prefix);
        const WithoutGil without(keys.count() >= batch_without_gil);
        status = pins != 0
                     ? maru_pin_batch(session->client(), keys.data(), statuses.get(), keys.count())
                     : maru_match_prefix(session->client(), keys.data(), keys.count(), nullptr, &matched);
    }
    if (status != MARU_OK) return raise(session, status);
    if (pins != 0) {
        while (matched < keys.count() && statuses[matched] == MARU_OK)
            ++matched;
        if (matched < keys.count() && statuses[matched] < 0) {
            if (is_final(statuses[matched])) return raise(statuses[matched]);
            if (!note_failure(self, Operation::match_prefix, statuses[matched])) return nullptr;
        }
    }
    operations[Operation::match_prefix].count(keys.count(), matched, 0);
    return PyLong_FromSize_t(matched);
}

}  // namespace maru::python
