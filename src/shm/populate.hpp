// Mapped memory made present before it is used.
#pragma once

#include <cstddef>
#include <span>

namespace maru::shm {

/// Makes every page of a mapping present and writable for this process, and so gives it its memory; changes
/// no byte. 0, or why not: EFAULT (the end of a file, or a device, has gone), EHWPOISON (bad memory), ENOMEM.
///
/// A kernel that has no call for it (before Linux 5.14) gets each page read instead.
int populate(std::span<std::byte> memory);
/// The same by reading one byte of each page. Makes nothing dirty.
int populate_by_reading(std::span<std::byte> memory);

/// Every page of it has memory that was used before, as far as the kernel tells: it does for files that it
/// keeps in its page cache (tmpfs), and says no for DAX and huge pages. `memory` begins on a page.
bool is_resident(std::span<std::byte> memory);

}  // namespace maru::shm
