// Memory sources. Each kind is a small class behind this interface; one conformance suite tests them all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/uuid.hpp"
#include "shm/mapping.hpp"

namespace maru::pool {

/// Numbers stand in the control region and go over the wire; they never change.
enum class Kind : std::uint32_t { devdax = 1, fsdax = 2, shm = 3, hugetlb = 4, numa = 5 };
const char* name_of(Kind kind);
Result<Kind> parse_kind(const std::string& name);

enum class HugePages { never, advise, require };
enum class Prefault { none, background, all };

/// One [[pool]] of the config, as far as a pool needs it.
struct PoolConfig {
    std::string name;
    Kind kind = Kind::shm;
    std::string path;        // kind's own meaning; empty: the kind's default
    std::uint64_t size = 0;  // bytes
    HugePages huge_pages = HugePages::advise;
    Prefault prefault = Prefault::background;
    bool reserve = true;  // take the whole size at once, or fail there
};

inline constexpr std::size_t name_length_max = 63;

/// Letters, digits, '-', '_' and '.', 1 to name_length_max of them: a name becomes part of a path.
Result<void> check_name(const std::string& name);

/// One memory source that the daemon has opened.
///
/// Promise: the bytes behind `descriptor()` stay while any process maps them, also when the daemon dies; a
/// pool of a
///          kind that persists is found again by `open` with what was written.
/// Death:   of the daemon in `open` leaves at most an unformatted file that the next `open` takes over.
/// Threads: one.
class Pool {
  public:
    virtual ~Pool() = default;

    virtual Kind kind() const = 0;
    virtual const std::string& name() const = 0;
    /// As this host knows it; empty when the kind has none.
    virtual const std::string& path() const = 0;
    /// Usable bytes; a multiple of alignment().
    virtual std::uint64_t size() const = 0;
    /// What a mapping's offset and length must be multiples of.
    virtual std::uint64_t alignment() const = 0;
    /// To be passed to clients and mapped MAP_SHARED; owned by the pool.
    virtual int descriptor() const = 0;
    /// The memory did not exist before this open, or holds nothing but zeroes at its head.
    virtual bool is_new() const = 0;
    /// Gives the memory of a range back to the kernel where the kind can and the whole size is not reserved;
    /// no effect elsewhere. What is read there afterwards is zero or what was there.
    virtual Result<void> discard(std::uint64_t offset, std::uint64_t length) = 0;
    /// Ends the pool's persistent existence (--remove): deletes the file that this object opened and no
    /// other; one that is gone already is no error, another one in its place is. Mappings keep their bytes.
    virtual Result<void> remove() = 0;
    /// Kind-specific facts for people ("tmpfs, 4 KiB pages, whole size reserved").
    virtual std::string describe() const = 0;
};

/// Opens or makes a pool. Errors name the path, both sizes and the remedy.
/// A file of another size, owner or type than configured is refused, not changed; one that holds nothing yet
/// (empty, or without one block of memory) is what a death in here leaves, and is taken over.
/// A failure leaves no file that was not there before.
Result<std::unique_ptr<Pool>> open(const PoolConfig& config);

/// Kinds that open() knows in this build.
bool is_built(Kind kind);
std::string built_kinds();  ///< "shm"

/// Size of the file that open() would find, nothing when there is none. Looks only.
std::optional<std::uint64_t> existing_bytes(const PoolConfig& config);

/// Default path of a shm pool: /dev/shm/maru-NAME-UID.
std::string default_shm_path(const std::string& name);

/// What /dev/shm (or the file system of `path`) has free, in bytes.
Result<std::uint64_t> free_bytes_of(const std::string& path);

}  // namespace maru::pool
