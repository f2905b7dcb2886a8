// Memory sources. Each kind is a small class behind this interface; one conformance suite tests them all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "base/size.hpp"
#include "base/uuid.hpp"
#include "pool/device_header.hpp"
#include "shm/mapping.hpp"

namespace maru::pool {

/// Numbers stand in the control region and go over the wire; they never change.
enum class Kind : std::uint32_t { devdax = 1, fsdax = 2, shm = 3, hugetlb = 4, numa = 5 };
const char* name_of(Kind kind);
Result<Kind> parse_kind(const std::string& name);

enum class HugePages { never, advise, require };
enum class Prefault { none, background, all };
enum class Placement { bind, preferred, interleave };
const char* name_of(Placement placement);

/// One [[pool]] of the config, as far as a pool needs it.
struct PoolConfig {
    std::string name;
    Kind kind = Kind::shm;
    std::string path;                       // kind's own meaning; empty: the kind's default
    std::uint64_t size = 0;                 // bytes
    std::uint64_t page_size = 0;            // hugetlb: bytes of a page; 0: hugetlb_page_default
    std::vector<std::uint32_t> numa_nodes;  // whose memory it takes; empty: no matter
    Placement placement = Placement::bind;
    HugePages huge_pages = HugePages::advise;
    Prefault prefault = Prefault::background;
    bool reserve = true;            // take the whole size at once, or fail there
    bool allow_page_cache = false;  // fsdax: also on a mount without dax
};

inline constexpr std::uint64_t hugetlb_page_default = 2 * MiB;
inline constexpr std::size_t name_length_max = 63;

/// Letters, digits, '-', '_' and '.', 1 to name_length_max of them: a name becomes part of a path.
Result<void> check_name(const std::string& name);

/// What a pool is, settled when it was opened.
struct PoolFacts {
    Kind kind = Kind::shm;
    std::string name;
    std::string path;             ///< as this host knows it; empty when there is none
    std::uint64_t size = 0;       ///< usable bytes, a multiple of alignment
    std::uint64_t alignment = 0;  ///< what a mapping's offset and length must be multiples of
    std::uint64_t offset = 0;     ///< where in the descriptor the pool begins: behind a device's header
    bool is_new = false;          ///< did not exist before this open, or holds nothing but zeroes at its head
    bool ends_with_holder = false;       ///< no name leads to it: gone with the last descriptor and mapping
    std::optional<DeviceHeader> device;  ///< the header that was found on a device
    std::string description;             ///< for people: "tmpfs, 4 KiB pages, whole size reserved"
    std::vector<std::string> warnings;   ///< to be said at each start, with the remedy
};

/// One memory source that the daemon has opened.
///
/// Promise: the bytes behind `descriptor()` stay while any process maps them, also when the daemon dies; a
///          pool of a kind that persists is found again by `open` with what was written.
/// Death:   of the daemon in `open` leaves at most an unformatted file that the next `open` takes over.
/// Threads: one.
class Pool {
  public:
    Pool(PoolFacts facts, Descriptor descriptor)
        : facts_(std::move(facts)), descriptor_(std::move(descriptor)) {}
    virtual ~Pool() = default;
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    const PoolFacts& facts() const { return facts_; }
    Kind kind() const { return facts_.kind; }
    const std::string& name() const { return facts_.name; }
    const std::string& path() const { return facts_.path; }
    std::uint64_t size() const { return facts_.size; }
    std::uint64_t alignment() const { return facts_.alignment; }
    std::uint64_t offset() const { return facts_.offset; }
    bool is_new() const { return facts_.is_new; }
    const std::string& describe() const { return facts_.description; }
    /// To be passed to clients and mapped MAP_SHARED; owned by the pool.
    int descriptor() const { return descriptor_.get(); }
    /// Maps a part of the pool; `at` counts from the pool's beginning.
    Result<shm::Mapping> map(std::uint64_t at, std::uint64_t length, const char* what) const {
        return shm::Mapping::map(descriptor(), offset() + at, length, what, alignment());
    }

    /// Gives the memory of a range back to the kernel where the kind can and the whole size is not reserved;
    /// no effect elsewhere. What is read there afterwards is zero or what was there.
    virtual Result<void> discard(std::uint64_t offset, std::uint64_t length) = 0;
    /// Ends the pool's persistent existence (--remove): deletes the file that this object opened and no
    /// other; one that is gone already is no error, another one in its place is. Mappings keep their bytes.
    virtual Result<void> remove() = 0;
    /// Writes on the memory itself what it belongs to, where the kind has a header; no effect elsewhere.
    virtual Result<void> enter_domain(const DeviceHeader&) { return {}; }
    /// A device has the name that its domain gave it, whatever the config says.
    void rename(const std::string& name) { facts_.name = name; }

  private:
    PoolFacts facts_;
    Descriptor descriptor_;
};

/// Opens or makes a pool. Errors name the path, both sizes and the remedy.
/// A file of another size, owner or type than configured is refused, not changed; one that holds nothing yet
/// (empty, or without one block of memory) is what a death in here leaves, and is taken over.
/// A failure leaves no file that was not there before.
/// `kept`: the descriptor of a pool that no name leads to, as somebody kept it over a restart.
Result<std::unique_ptr<Pool>> open(const PoolConfig& config, Descriptor kept = {});

/// The config with the path that open() takes: the kind's default, or the file in a folder. Looks at mounts
/// only.
PoolConfig located(const PoolConfig& config);

/// The same, with the device that "uuid:..." names and one config a device for "any", named NAME-DEVICE.
std::vector<PoolConfig> located_all(const PoolConfig& config);

/// Kinds that open() knows in this build.
bool is_built(Kind kind);
std::string built_kinds();  ///< "shm, hugetlb"

/// Size of the file or device that open() would find, nothing when there is none. Looks only.
std::optional<std::uint64_t> existing_bytes(const PoolConfig& config);

/// Default path of a shm pool: /dev/shm/maru-NAME-UID.
std::string default_shm_path(const std::string& name);

/// What /dev/shm (or the file system of `path`) has free, in bytes.
Result<std::uint64_t> free_bytes_of(const std::string& path);

}  // namespace maru::pool
