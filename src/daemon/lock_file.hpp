// A file whose bytes are locks that only the kernel drops.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace maru::daemon {

/// The lock file of a domain (or of a socket): byte 0 belongs to the daemon that serves it, byte N to the
/// client in slot N. The locks are open-file-description locks: each ends with the last descriptor of its
/// description.
///
/// A file that this object made is deleted with it, so that a start that fails leaves nothing; `keep` ends
/// that. Death: of the holder at any time frees its byte. The file stays and means nothing without a lock on
/// it.
class LockFile {
  public:
    LockFile() = default;
    LockFile(LockFile&& other) noexcept { swap(other); }
    LockFile& operator=(LockFile&& other) noexcept {
        LockFile taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~LockFile();

    /// Opens or makes the file and takes byte 0, writing this process's id into it. Code unavailable, naming
    /// the process that holds it, when somebody else does; `busy` is set then.
    static Result<LockFile> take(const std::string& path, bool* busy);

    /// The file did not exist before: it says nothing about clients of an earlier time.
    bool is_new() const { return is_new_; }
    const std::string& path() const { return path_; }

    /// A description of its own with `byte` locked, to be handed to a client; nothing when the byte is taken.
    Result<std::optional<Descriptor>> lock_for(std::uint32_t byte) const;
    /// Somebody else holds a lock on one of these bytes.
    bool held(std::uint32_t first, std::uint32_t count = 1) const;

    /// Deletes the file; this object's lock goes when it does.
    void remove();
    /// The file outlives this object.
    void keep() { is_kept_ = true; }

  private:
    void swap(LockFile& other) noexcept;

    Descriptor file_;
    std::string path_;
    bool is_new_ = false, is_kept_ = false;
};

}  // namespace maru::daemon
