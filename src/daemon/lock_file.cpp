#include "daemon/lock_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace maru::daemon {
namespace {

constexpr int open_attempts_max = 16;  // times the file may vanish between its opening and its lock

struct flock byte_range(short type, std::uint32_t first, std::uint32_t count) {
    struct flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = first;
    range.l_len = count;
    return range;
}

bool lock(int file, std::uint32_t byte) {
    struct flock range = byte_range(F_WRLCK, byte, 1);
    return ::fcntl(file, F_OFD_SETLK, &range) == 0;
}

/// The path still names the file that was opened.
bool still_there(int file, const std::string& path) {
    struct stat opened {
    }, named{};
    return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

std::string written_owner(int file) {
    char text[32] = {};
    const ssize_t size = ::pread(file, text, sizeof text - 1, 0);
    std::string owner(text, size > 0 ? static_cast<std::size_t>(size) : 0);
    owner = owner.substr(0, owner.find_first_not_of("0123456789"));
    return owner.empty() ? "of an unknown number" : owner;
}

Error cannot_open(const std::string& path, int reason) {
    const bool denied = reason == EACCES || reason == EPERM;
    std::string text = "lock file " + path + ": " + std::strerror(reason);
    struct stat status {};
    if (denied && ::stat(path.c_str(), &status) == 0 && status.st_uid != ::geteuid())
        text += ": it belongs to user " + std::to_string(status.st_uid) + ", this is user " +
                std::to_string(::geteuid()) +
                ": run as that one, or let it delete the file when no daemon and no client of it is left";
    return Error{denied ? Code::denied : Code::unavailable, text};
}

void write_owner(int file) {
    const std::string text = std::to_string(::getpid()) + "\n";
    if (::ftruncate(file, 0) != 0) return;  // the number is for people; the lock is what counts
    if (::pwrite(file, text.data(), text.size(), 0) < 0) return;
}

}  // namespace

LockFile::~LockFile() {
    if (file_ && is_new_ && !is_kept_) remove();
}

void LockFile::swap(LockFile& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(path_, other.path_);
    std::swap(is_new_, other.is_new_);
    std::swap(is_kept_, other.is_kept_);
}

Result<LockFile> LockFile::take(const std::string& path, bool* busy) {
    *busy = false;
    for (int attempt = 0; attempt < open_attempts_max; ++attempt) {
        LockFile made;
        made.path_ = path;
        made.file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (!made.file_ && errno == ENOENT) {
            made.file_ =
                Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
            made.is_new_ = static_cast<bool>(made.file_);
            if (!made.file_ && errno == EEXIST) continue;
        }
        if (!made.file_) return cannot_open(path, errno);
        if (!lock(made.file_.get(), 0)) {
            const bool replaced = !still_there(made.file_.get(), path);
            made.keep();  // somebody else's now
            if (replaced) continue;
            *busy = true;
            return Error{Code::unavailable,
                         path + " is locked by process " + written_owner(made.file_.get())};
        }
        if (!still_there(made.file_.get(), path)) {
            made.keep();  // the path names another's
            continue;
        }
        write_owner(made.file_.get());
        return made;
    }
    return Error{Code::contended, "lock file " + path + " was replaced again and again while it was opened"};
}

Result<std::optional<Descriptor>> LockFile::lock_for(std::uint32_t byte) const {
    // By the descriptor: the path may name another file by now. A new description, since a lock belongs to
    // one.
    const std::string own = "/proc/self/fd/" + std::to_string(file_.get());
    Descriptor fresh(::open(own.c_str(), O_RDWR | O_CLOEXEC));
    if (!fresh && errno == ENOENT) fresh = Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fresh)
        return Error{errno == EMFILE || errno == ENFILE ? Code::full : Code::unavailable,
                     "lock file " + path_ + " cannot be opened again: " + std::strerror(errno) +
                         (errno == EMFILE ? "; raise the daemon's limit (LimitNOFILE, ulimit -n)" : "")};
    if (lock(fresh.get(), byte)) return std::optional<Descriptor>(std::move(fresh));
    if (errno == EAGAIN || errno == EACCES) return std::optional<Descriptor>();
    return Error{Code::unavailable,
                 "lock on byte " + std::to_string(byte) + " of " + path_ + ": " + std::strerror(errno)};
}

bool LockFile::held(std::uint32_t first, std::uint32_t count) const {
    struct flock range = byte_range(F_WRLCK, first, count);
    // Unanswerable counts as held: a client is never taken for dead by mistake.
    return ::fcntl(file_.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

void LockFile::remove() {
    // Once, and only its own: another may have been made at its place, and that one is somebody else's.
    if (!path_.empty() && file_ && still_there(file_.get(), path_)) ::unlink(path_.c_str());
    path_.clear();
}

}  // namespace maru::daemon
