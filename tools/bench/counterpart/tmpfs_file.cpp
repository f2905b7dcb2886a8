#include "counterpart/tmpfs_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace maru::bench {

Result<TmpfsFile> TmpfsFile::make(std::uint64_t object_bytes, std::uint64_t count) {
    std::string path = "/dev/shm/maru-bench-file-XXXXXX";
    TmpfsFile made;
    made.file_ = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
    if (!made.file_) return Error{Code::unavailable, "cannot create " + path + ": " + std::strerror(errno)};
    ::unlink(path.c_str());
    made.object_bytes_ = object_bytes;
    const std::vector<char> object(object_bytes, 'x');
    for (std::uint64_t i = 0; i < count; ++i)
        if (!made.write(i, object.data()))
            return Error{Code::full, "cannot fill a file in /dev/shm: " + std::string(std::strerror(errno))};
    return made;
}

bool TmpfsFile::read(std::uint64_t number, void* to) const {
    const auto got = ::pread(file_.get(), to, object_bytes_, static_cast<off_t>(number * object_bytes_));
    return got == static_cast<ssize_t>(object_bytes_);
}

bool TmpfsFile::write(std::uint64_t number, const void* from) const {
    const auto put = ::pwrite(file_.get(), from, object_bytes_, static_cast<off_t>(number * object_bytes_));
    return put == static_cast<ssize_t>(object_bytes_);
}

}  // namespace maru::bench
