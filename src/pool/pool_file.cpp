#include "pool/pool_file.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/size.hpp"
#include "pool/pool.hpp"

namespace maru::pool {
namespace {

constexpr std::uint64_t large_page = 2 * MiB;
constexpr std::uint64_t reserve_step = 256 * MiB;  // a signal costs one step, not the whole reservation
constexpr int interruptions_max = 100;             // of one step
constexpr int open_attempts_max = 3;               // when the file comes and goes between two looks

Error refused(const std::string& pool, const std::string& text) {
    return Error{Code::invalid, "pool '" + pool + "': " + text};
}

Error failed(const std::string& pool, const std::string& action, const std::string& path, int reason) {
    const bool denied = reason == EACCES || reason == EPERM;
    return Error{denied ? Code::denied : Code::unavailable,
                 "pool '" + pool + "': cannot " + action + " " + path + ": " + strerror(reason)};
}

const char* type_of(mode_t mode) {
    if (S_ISLNK(mode)) return "a symbolic link";
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "no regular file";
}

Result<void> check_status(const struct stat& status, const std::string& path, const std::string& pool) {
    if (!S_ISREG(status.st_mode))
        return refused(pool,
                       path + " is " + type_of(status.st_mode) + ": remove it, or set another [[pool]] path");
    if (status.st_uid != ::geteuid())
        return refused(pool, path + " belongs to user " + std::to_string(status.st_uid) + ", this is user " +
                                 std::to_string(::geteuid()) +
                                 ": set another [[pool]] path, or let its owner remove it");
    if ((status.st_mode & 077) != 0) {
        char mode[8];
        std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
        return refused(pool,
                       path + " has mode " + mode + ", so that others could open it: chmod 600 or remove it");
    }
    return {};
}

Error too_full(std::uint64_t needed, const std::string& path, const std::string& pool) {
    const std::string folder = folder_of(path);
    const auto free = free_bytes_of(folder);
    return Error{Code::full, folder + " has " + (free ? format_size(*free) : "too little") + " free, pool '" +
                                 pool + "' needs " + format_size(needed) +
                                 ": lower [[pool]] size, or give the container a larger " + folder};
}

/// Back to what it was: nothing in it, and its old length.
void make_empty(const PoolFile& file) {
    if (::ftruncate(file.descriptor.get(), 0) != 0)
        return;  // then it keeps zeroes, and the next open reserves the rest
    (void)!::ftruncate(file.descriptor.get(), static_cast<off_t>(file.bytes));
}

/// 0, or the reason why the step could not be taken.
int take_step(int descriptor, std::uint64_t offset, std::uint64_t length) {
    for (int attempt = 0; attempt < interruptions_max; ++attempt) {
        if (::fallocate(descriptor, 0, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0) return 0;
        if (errno != EINTR) return errno;
    }
    return EINTR;
}

}  // namespace

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

Result<PoolFile> open_file(const std::string& path, const std::string& pool) {
    if (path.empty() || path.front() != '/' || path.find('\0') != std::string::npos)
        return refused(pool, "path \"" + path + "\" is not absolute: begin it with /");
    for (int attempt = 0; attempt < open_attempts_max; ++attempt) {
        struct stat status {};
        const bool there = ::lstat(path.c_str(), &status) == 0;
        if (!there && errno != ENOENT) return failed(pool, "look at", path, errno);
        if (there) {  // before opening: a device may act on an open, a pipe may block it
            if (const auto checked = check_status(status, path, pool); !checked) return checked.error();
        }
        const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (there ? 0 : O_CREAT | O_EXCL);
        PoolFile file;
        file.descriptor = Descriptor(::open(path.c_str(), flags, 0600));
        if (!file.descriptor) {
            if (errno == (there ? ENOENT : EEXIST)) continue;
            return failed(pool, there ? "open" : "make", path, errno);
        }
        file.made = !there;
        if (::fstat(file.descriptor.get(), &status) != 0) return failed(pool, "look at", path, errno);
        if (file.made && (status.st_mode & 0600) != 0600 && ::fchmod(file.descriptor.get(), 0600) != 0)
            return failed(pool, "set the mode of", path, errno);
        if (const auto checked = check_status(status, path, pool); !checked) return checked.error();
        file.bytes = static_cast<std::uint64_t>(status.st_size);
        file.empty = status.st_blocks == 0;
        return file;
    }
    return refused(pool, path + " comes and goes: another program makes and removes it");
}

Result<PoolFile> take_file(Descriptor kept, const std::string& what, const std::string& pool) {
    struct stat status {};
    if (::fstat(kept.get(), &status) != 0) return failed(pool, "look at", what, errno);
    if (!S_ISREG(status.st_mode)) return refused(pool, what + " is " + type_of(status.st_mode));
    PoolFile file;
    file.descriptor = std::move(kept);
    file.bytes = static_cast<std::uint64_t>(status.st_size);
    file.empty = status.st_blocks == 0;
    return file;
}

Result<void> size_and_reserve(const PoolFile& file, const Sizing& sizing, const std::string& path,
                              const std::string& pool) {
    const int descriptor = file.descriptor.get();
    const std::uint64_t bytes = sizing.bytes;
    const auto full = [&] { return sizing.too_full ? sizing.too_full() : too_full(bytes, path, pool); };
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()))
        return refused(pool, format_size(bytes) + " is larger than any file can be: lower [[pool]] size");
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return failed(pool, "look at", path, errno);
    if (sizing.reserve) {
        // Looked at first, so that a size that cannot fit does not fill the file system on its way to fail.
        const auto taken = std::uint64_t{512} * static_cast<std::uint64_t>(status.st_blocks);
        const auto free = sizing.free ? sizing.free() : free_bytes_of(folder_of(path));
        if (!free) return free.error();
        if (bytes > taken && bytes - taken > *free) return full();
    }
    if (file.bytes != bytes && ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
        if (errno == ENOSPC) return full();
        return failed(pool, "size", path, errno);
    }
    if (sizing.place)
        if (const auto placed = sizing.place(); !placed) {
            if (file.empty) make_empty(file);
            return placed;
        }
    if (!sizing.reserve) return {};
    // Reserved before, as the pool of a domain that a new daemon takes over: a look at every page would find
    // nothing to do, and clients wait. Rounded up, since a large page at the end counts whole and must not
    // make up for a hole elsewhere.
    if (sizing.blocks_are_data && file.bytes == bytes &&
        std::uint64_t{512} * static_cast<std::uint64_t>(status.st_blocks) >= round_up(bytes, large_page))
        return {};
    for (std::uint64_t offset = 0; offset < bytes; offset += reserve_step) {
        const int reason = take_step(descriptor, offset, std::min(reserve_step, bytes - offset));
        if (reason == 0) continue;
        const auto error = reason == ENOSPC || reason == ENOMEM
                               ? full()
                               : failed(pool, "reserve " + format_size(bytes) + " for", path, reason);
        if (file.empty) make_empty(file);
        return error;
    }
    return {};
}

bool still_named(int descriptor, const std::string& path) {
    struct stat opened {
    }, named{};
    return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Result<void> delete_file(int descriptor, const std::string& path, const std::string& pool) {
    struct stat named {};
    if (::lstat(path.c_str(), &named) != 0) {
        if (errno == ENOENT) return {};
        return failed(pool, "look at", path, errno);
    }
    if (!still_named(descriptor, path))
        return refused(pool, path + " is another file than the one this pool opened: not removed");
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed(pool, "remove", path, errno);
    return {};
}

}  // namespace maru::pool
