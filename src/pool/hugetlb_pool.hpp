// Kind `hugetlb`: pages of 2 MiB or 1 GiB that an administrator set aside.
#pragma once

#include <memory>
#include <string>

#include "pool/pool.hpp"

namespace maru::pool {

/// With a path: a file on a hugetlbfs with pages of the configured size. Without: a nameless one (memfd),
/// which ends with its last holder; `kept` is that of the daemon before, where somebody kept it.
Result<std::unique_ptr<Pool>> open_hugetlb(const PoolConfig& config, Descriptor kept);

/// MOUNT/maru-NAME-UID on the first hugetlbfs with such pages that this user can write to; empty when there
/// is none.
std::string hugetlb_path(const PoolConfig& config);

/// What the kernel says of its pages of one size.
struct HugetlbRoom {
    bool known = false;  ///< this kernel has pages of this size
    std::uint64_t total = 0, free = 0, reserved = 0, overcommit = 0, surplus = 0;  ///< pages
    /// Pages that could still be taken.
    std::uint64_t left() const {
        const std::uint64_t more = overcommit > surplus ? overcommit - surplus : 0;
        return (free > reserved ? free - reserved : 0) + more;
    }
};
HugetlbRoom hugetlb_room(std::uint64_t page_size, const std::string& folder = "/sys/kernel/mm/hugepages");

/// The error of too few pages, with the numbers and the command that makes more.
std::string too_few_pages(const PoolConfig& config, const HugetlbRoom& room);

}  // namespace maru::pool
