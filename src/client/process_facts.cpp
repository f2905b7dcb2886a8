#include "client/process_facts.hpp"

#include <sys/auxv.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "base/exec_stamp.hpp"

namespace maru::client {
namespace {

std::uint64_t start_time() {
    std::ifstream file("/proc/self/stat");
    std::string text;
    std::getline(file, text);
    const auto name_end = text.rfind(')');  // the name may hold anything
    if (name_end == std::string::npos) return 0;
    std::istringstream fields(text.substr(name_end + 1));
    std::string field;
    for (int number = 3; number <= 22; ++number)
        if (!(fields >> field)) return 0;
    return std::strtoull(field.c_str(), nullptr, 10);
}

std::uint64_t exec_stamp() {
    const auto* random = reinterpret_cast<const void*>(::getauxval(AT_RANDOM));
    unsigned char bytes[exec_random_bytes] = {};
    if (random != nullptr) std::memcpy(bytes, random, sizeof bytes);
    return exec_stamp_from(bytes);
}

}  // namespace

ProcessFacts process_facts() {
    ProcessFacts facts;
    facts.start_time = start_time();
    facts.exec_stamp = exec_stamp();
    struct stat status {};
    if (::stat("/proc/self/ns/pid", &status) == 0) facts.pid_namespace = status.st_ino;
    return facts;
}

}  // namespace maru::client
