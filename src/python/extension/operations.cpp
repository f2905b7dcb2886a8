#include "operations.hpp"

namespace maru::python {
namespace {

double microseconds(std::uint64_t ns) {
    return static_cast<double>(ns) / 1000;
}

/// Upper edge of the bucket that holds this share of the calls.
double quantile_us(const OperationCounts& counts, std::uint64_t timed, double share) {
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(timed) * share) + 1;
    std::uint64_t seen = 0;
    for (int bucket = 0; bucket < OperationCounts::bucket_count; ++bucket) {
        seen += counts.buckets[bucket];
        if (seen >= wanted || seen == timed) {
            const std::uint64_t edge = std::uint64_t{1} << bucket;
            return microseconds(edge < counts.most_ns ? edge : counts.most_ns);
        }
    }
    return 0;
}

PyObject* describe(const OperationCounts& counts) {
    std::uint64_t timed = 0;
    for (const std::uint32_t count : counts.buckets)
        timed += count;
    const double average = timed == 0 ? 0.0 : microseconds(counts.total_ns) / static_cast<double>(timed);
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:d,s:d,s:d}", "calls", static_cast<unsigned long long>(counts.calls),
        "count", static_cast<unsigned long long>(counts.keys), "hit_count",
        static_cast<unsigned long long>(counts.hits), "miss_count",
        static_cast<unsigned long long>(counts.keys - counts.hits), "total_bytes",
        static_cast<unsigned long long>(counts.bytes), "avg_latency_us", average, "min_latency_us",
        microseconds(counts.least_ns), "max_latency_us", microseconds(counts.most_ns), "p50_latency_us",
        timed == 0 ? 0.0 : quantile_us(counts, timed, 0.50), "p99_latency_us",
        timed == 0 ? 0.0 : quantile_us(counts, timed, 0.99));
}

}  // namespace

PyObject* describe_operations(const OperationTable& table) {
    Reference all(PyDict_New());
    if (!all) return nullptr;
    for (int i = 0; i < operation_count; ++i) {
        if (table.of[i].calls == 0) continue;
        const Reference one(describe(table.of[i]));
        if (!one || PyDict_SetItemString(all.get(), operation_names[i], one.get()) != 0) return nullptr;
    }
    return all.release();
}

}  // namespace maru::python
