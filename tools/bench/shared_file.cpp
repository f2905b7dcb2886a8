#include "shared_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/size.hpp"

namespace maru::bench {

Result<SharedFile> SharedFile::make(const char* what, std::uint64_t bytes) {
    if (bytes > shared_room())
        return Error{Code::full, "/dev/shm or memory has room for " + format_size(shared_room()) + ", the " +
                                     what + " needs " + format_size(bytes) + ": free some, or use --quick"};
    std::string path = std::string("/dev/shm/maru-bench-") + what + "-XXXXXX";
    SharedFile shared;
    shared.file_ = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
    if (!shared.file_) return Error{Code::unavailable, "cannot create " + path + ": " + std::strerror(errno)};
    ::unlink(path.c_str());
    if (const int error = ::posix_fallocate(shared.file_.get(), 0, static_cast<off_t>(bytes)); error != 0)
        return Error{Code::full,
                     "cannot reserve " + format_size(bytes) + " in /dev/shm: " + std::strerror(error)};
    auto mapping = shm::Mapping::map(shared.file_.get(), 0, bytes, what);
    if (!mapping) return mapping.error();
    shared.mapping_ = std::move(*mapping);
    std::memset(shared.bytes().data(), 1, bytes);
    return shared;
}

std::uint64_t shared_room() {
    std::uint64_t room = 0;
    struct statvfs file_system {};
    if (::statvfs("/dev/shm", &file_system) == 0)
        room = static_cast<std::uint64_t>(file_system.f_bavail) * file_system.f_frsize;
    std::ifstream in("/proc/meminfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("MemAvailable:")) {
            const std::uint64_t kib = std::strtoull(line.c_str() + std::strlen("MemAvailable:"), nullptr, 10);
            room = std::min(room, kib * KiB);
        }
    return room;
}

}  // namespace maru::bench
