// The head of a pool as a starting daemon finds it: a superblock with anything in it, under a right or a
// wrong checksum, in a file that is longer or shorter than it says. It is refused with a reason, or every
// table lies inside.
#include "daemon/domain.hpp"
#include "memory_pool.hpp"
#include "small_domain.hpp"
#include "table/check.hpp"
#include "target.hpp"

using namespace maru;
using fuzz::require;

namespace {

/// Reads the first and the last entry of every table.
void touch(const table::Control& c) {
    std::uint64_t sum = 0;
    const auto ends = [&](auto entry, std::uint64_t count) {
        for (const std::uint64_t at : {std::uint64_t{0}, count - 1}) {
            const auto& one = entry(static_cast<std::uint32_t>(at));
            unsigned char bytes[sizeof one];
            std::memcpy(bytes, &one, sizeof one);
            sum += bytes[0] + bytes[sizeof one - 1];
        }
    };
    ends(
        [&](auto n) -> auto& { return c.record(n); }, c.record_count());
    ends(
        [&](auto n) -> auto& { return c.bucket(n); }, std::uint64_t{c.bucket_count()} + c.overflow_count());
    ends(
        [&](auto n) -> auto& { return c.chunk(n); }, c.chunk_count());
    ends(
        [&](auto n) -> auto& { return c.client(n); }, c.client_count());
    ends(
        [&](auto n) -> auto& { return c.client_stats(n); }, c.client_count());
    ends(
        [&](auto n) -> auto& { return c.region(n); }, c.region_count());
    ends(
        [&](auto n) -> auto& { return c.pool(n); }, c.pool_count());
    ends(
        [&](auto n) -> auto& { return c.host(n); }, c.host_count());
    ends(
        [&](auto n) -> auto& { return c.name_space(n); }, c.namespace_count());
    ends(
        [&](auto n) -> auto& { return c.overflow_claim(n); }, c.overflow_count());
    ends(
        [&](auto n) -> auto& { return c.granule_claim(n); }, c.granule_count());
    ends(
        [&](auto n) -> auto& { return c.hint(n); }, c.granule_count());
    asm volatile("" : : "r"(sum));  // or the reads would be left out
    for (std::uint32_t r = 0; r < std::min(c.region_count(), 300u); ++r) {
        std::uint32_t pool = 0;
        std::uint64_t offset = 0;
        if (c.region_place(r, &pool, &offset))
            require(pool < c.pool_count(), "a region in a pool that is none");
    }
}

/// The whole head at its exact size on the heap, so that AddressSanitizer sees its ends.
void attach_on_heap(std::span<const std::byte> head, std::size_t bytes) {
    void* aligned = nullptr;
    require(::posix_memalign(&aligned, 4096, std::max<std::size_t>(bytes, 1)) == 0, "no memory for a head");
    auto* memory = static_cast<std::byte*>(aligned);
    std::memset(memory, 0, bytes);
    std::memcpy(memory, head.data(), std::min(head.size(), bytes));
    const auto control = table::Control::attach({memory, bytes});
    if (control)
        touch(*control);
    else
        require(!control.error().text.empty(), "a head was refused without a reason");
    std::free(memory);
}

void start_on(std::span<const std::byte> head, std::uint64_t pool_bytes) {
    fuzz::MemoryPool pool(round_up(std::max<std::uint64_t>(pool_bytes, 4096), 4096));
    pool.write(head.first(std::min<std::size_t>(head.size(), pool.size())));
    shm::Mapping mapping;
    std::optional<table::Control> control;
    const daemon::Head found = daemon::look_at_head(pool, &mapping, &control);
    std::string reason;
    const auto decision = daemon::decide(found, table::Coherence::local, false, &reason);
    require(control.has_value() == (decision == daemon::Decision::attach),
            "a head was attached and not taken");
    require(decision != daemon::Decision::refuse || !reason.empty(), "a head was refused without a reason");
    if (!control) return;
    touch(*control);
    if (control->control_bytes() <= 4 * MiB) (void)table::look(*control);
}

}  // namespace

// Byte 0: bit 0, the checksum is made right; bit 1, only the superblock and not the tables behind it are
// there. Two bytes: length of the memory in units of 64 bytes, 0: as it was. Then patches: place in units of
// 4 bytes, value.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::SmallDomain domain;
    domain.restore();
    fuzz::Input input(data, size);
    const std::uint8_t flags = input.byte();
    const std::size_t lines = input.half();
    const auto memory = domain.memory();
    if ((flags & 2) != 0)
        std::memset(memory.data() + sizeof(table::Superblock), 0, memory.size() - sizeof(table::Superblock));
    while (!input.empty()) {
        const std::size_t at = input.half() % 1024u * 4;
        const std::uint32_t word = input.word();
        std::memcpy(memory.data() + at, &word, sizeof word);
    }
    if ((flags & 1) != 0) fuzz::seal_superblock(memory);
    const std::size_t bytes = lines == 0 ? memory.size() : lines * 64;
    attach_on_heap(memory, bytes);
    start_on(memory, lines == 0 ? fuzz::small_plan().pools[0].bytes : bytes);
    return 0;
}
