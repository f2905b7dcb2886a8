// Who this process is: a pid alone names nobody.
#pragma once

#include <cstdint>

namespace maru::client {

struct ProcessFacts {
    std::uint64_t start_time = 0;     // field 22 of /proc/self/stat; 0 without /proc
    std::uint64_t exec_stamp = 0;     // changes with exec
    std::uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid; 0 without /proc
};

ProcessFacts process_facts();

}  // namespace maru::client
