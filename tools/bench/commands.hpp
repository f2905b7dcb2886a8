// The subcommands of maru-bench. An error means that something could not be measured: exit status 1.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "request.hpp"

namespace maru::bench {

Result<void> run_micro(const Request& request);
Result<void> run_put(const Request& request);
Result<void> run_python(const Request& request);
/// Copy rates by size, plain against streaming: what shm::streaming_copy_min is chosen from.
Result<void> run_sweep(const Request& request);
Result<void> run_reference(const Request& request);
Result<void> run_recovery(const Request& request);

/// Hidden: one of several processes of `two_processes`. Takes orders on standard input, a line each, and
/// answers on standard output; ends with its input.
Result<void> run_worker(const std::string& socket, std::uint64_t objects, std::uint64_t order_seed);
/// Hidden: retrieves 1,000 objects in turn until `hits` is reached, between two marks for a tracer: failing
/// writes of `hits_begin` and `hits_end`. What `syscalls` looks at from outside.
inline constexpr const char* hits_begin = "maru-bench: retrievals begin";
inline constexpr const char* hits_end = "maru-bench: retrievals end";
Result<void> run_hits(const std::string& socket, std::uint64_t hits);
/// Hidden: the client that `recovery` kills. Holds `pages` unpublished pages and `pins` pins on the objects
/// from number 0 on, says "ready" and waits.
Result<void> run_holder(const std::string& socket, std::uint64_t pages, std::uint64_t pins);
/// Hidden: the client that works while `recovery` kills the daemon, between the lines "go" and "stop".
Result<void> run_steady(const std::string& socket, std::uint64_t objects);

}  // namespace maru::bench
