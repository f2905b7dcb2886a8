// What a handler did, by operation.
#pragma once

#include <time.h>

#include <bit>
#include <cstdint>

#include "python.hpp"

namespace maru::python {

enum class Operation : std::uint8_t {
    alloc,
    free,
    store,
    retrieve,
    exists,
    pin,
    unpin,
    delete_key,
    batch_store,
    batch_retrieve,
    batch_exists,
    batch_pin,
    batch_unpin,
    match_prefix,
};
inline constexpr int operation_count = 14;
inline constexpr const char* operation_names[operation_count] = {
    "alloc",  "free",        "store",          "retrieve",     "exists",    "pin",         "unpin",
    "delete", "batch_store", "batch_retrieve", "batch_exists", "batch_pin", "batch_unpin", "match_prefix"};

/// Counted always; times only when the configuration asks for them.
struct OperationCounts {
    static constexpr int bucket_count = 40;  // bucket n: below 2^n ns
    std::uint64_t calls = 0, keys = 0, hits = 0, bytes = 0;
    std::uint64_t total_ns = 0, least_ns = 0, most_ns = 0;
    std::uint32_t buckets[bucket_count] = {};

    void count(std::uint64_t of_keys, std::uint64_t of_hits, std::uint64_t of_bytes) {
        ++calls;
        keys += of_keys;
        hits += of_hits;
        bytes += of_bytes;
    }
    void time(std::uint64_t ns) {
        total_ns += ns;
        if (least_ns == 0 || ns < least_ns) least_ns = ns;
        if (ns > most_ns) most_ns = ns;
        const auto bucket = std::bit_width(ns);
        ++buckets[bucket < bucket_count ? bucket : bucket_count - 1];
    }
};

struct OperationTable {
    OperationCounts of[operation_count];
    bool timed = false;
    OperationCounts& operator[](Operation operation) { return of[static_cast<int>(operation)]; }
};

/// Times one call from here to its end, when times are wanted.
class Timer {
  public:
    Timer(OperationTable& table, Operation operation) : counts_(table.timed ? &table[operation] : nullptr) {
        if (counts_ != nullptr) [[unlikely]]
            begin_ = now();
    }
    ~Timer() {
        if (counts_ != nullptr) [[unlikely]]
            counts_->time(now() - begin_);
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

  private:
    static std::uint64_t now() {
        timespec at{};
        clock_gettime(CLOCK_MONOTONIC, &at);
        return static_cast<std::uint64_t>(at.tv_sec) * 1'000'000'000u +
               static_cast<std::uint64_t>(at.tv_nsec);
    }
    OperationCounts* counts_;
    std::uint64_t begin_ = 0;
};

/// {operation: {calls, count, hit_count, ...}} of what was used.
PyObject* describe_operations(const OperationTable& table);

}  // namespace maru::python
