#include "client/process_facts.hpp"

#include <sys/auxv.h>
#include <sys/stat.h>

#include <cstring>

#include "base/exec_stamp.hpp"
#include "base/proc.hpp"

namespace maru::client {
namespace {

std::uint64_t exec_stamp() {
    const auto* random = reinterpret_cast<const void*>(::getauxval(AT_RANDOM));
    unsigned char bytes[exec_random_bytes] = {};
    if (random != nullptr) std::memcpy(bytes, random, sizeof bytes);
    return exec_stamp_from(bytes);
}

}  // namespace

ProcessFacts process_facts() {
    ProcessFacts facts;
    facts.start_time = start_time_in("/proc/self");
    facts.exec_stamp = exec_stamp();
    struct stat status {};
    if (::stat("/proc/self/ns/pid", &status) == 0) facts.pid_namespace = status.st_ino;
    return facts;
}

}  // namespace maru::client
