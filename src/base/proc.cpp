#include "base/proc.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/descriptor.hpp"

namespace maru {

std::string read_small_file(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char text[2047];
    const ssize_t size = file ? ::read(file.get(), text, sizeof text) : -1;
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

std::uint64_t start_time_in(const std::string& folder) {
    const std::string text = read_small_file(folder + "/stat");
    const std::size_t name_end = text.rfind(')');  // the name may hold blanks and parentheses
    if (name_end == std::string::npos) return 0;
    constexpr int fields_before_start = 20;  // state is field 3, the start time field 22
    std::size_t at = name_end;
    for (int field = 0; field < fields_before_start; ++field) {
        at = text.find(' ', at + 1);
        if (at == std::string::npos) return 0;
    }
    return std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

}  // namespace maru
