#include "conditions.hpp"

#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/size.hpp"

namespace maru::bench {
namespace {

std::string first_line(const char* file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

std::string processor_model() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name"))
            if (const auto colon = line.find(": "); colon != line.npos) return line.substr(colon + 2);
    return "unknown processor";
}

std::uint64_t kib_of(const std::string& line) {
    const auto colon = line.find(':');
    return colon == line.npos ? 0 : std::strtoull(line.c_str() + colon + 1, nullptr, 10) * KiB;
}

bool holds(const std::string& header, std::uintptr_t address) {
    unsigned long long first = 0, end = 0;
    return std::sscanf(header.c_str(), "%llx-%llx ", &first, &end) == 2 && first <= address && address < end;
}

}  // namespace

std::string machine_conditions() {
    const std::string load = first_line("/proc/loadavg");
    return std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " x " + processor_model() + ", load " +
           load.substr(0, load.find(' ')) + ", huge pages for shared memory: " +
           first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

std::string pages_of(const void* address) {
    std::ifstream in("/proc/self/smaps");
    bool inside = false;
    std::uint64_t page = 0, huge = 0;
    for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.find('-') != line.npos &&
            std::isxdigit(static_cast<unsigned char>(line[0])) != 0 && line.find(':') > line.find('-'))
            inside = holds(line, reinterpret_cast<std::uintptr_t>(address));
        else if (inside && line.starts_with("KernelPageSize:"))
            page = kib_of(line);
        else if (inside && line.starts_with("ShmemPmdMapped:"))
            huge = kib_of(line);
    }
    if (page == 0) return "unknown page size";
    std::string text = std::to_string(page / KiB) + " KiB pages";
    if (huge > 0) text += ", " + format_size(huge) + " of it huge";
    return text;
}

}  // namespace maru::bench
