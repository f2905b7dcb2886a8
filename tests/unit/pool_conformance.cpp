// Conformance of pools: what every kind does the same.
#include <linux/magic.h>
#include <sys/vfs.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "pool/numa_placement.hpp"
#include "pool_kinds.hpp"

using namespace maru;
using namespace maru::pool_tests;
using pool::Kind;

namespace {

/// A figure of the mapping that begins at an address, as the kernel says it ("KernelPageSize:", in bytes).
std::uint64_t smaps_figure(const void* at, const std::string& name) {
    std::ifstream in("/proc/self/smaps");
    char wanted[32];
    std::snprintf(wanted, sizeof wanted, "%lx-", reinterpret_cast<unsigned long>(at));
    bool inside = false;
    for (std::string line; std::getline(in, line);) {
        if (line.find('-') < 17 && line.find(' ') > line.find('-'))
            inside = line.compare(0, std::strlen(wanted), wanted) == 0;
        if (!inside || line.compare(0, name.size(), name) != 0) continue;
        std::istringstream words(line.substr(name.size()));
        std::uint64_t kilobytes = 0;
        words >> kilobytes;
        return kilobytes * KiB;
    }
    return 0;
}

/// What a daemon writes on a device when it takes it in; without it nothing on the device counts.
pool::DeviceHeader some_domain() {
    pool::DeviceHeader header;
    header.uuid = Uuid::random();
    header.domain = Uuid::random();
    return header;
}

/// By the kernel's words, not by the pool's own.
void check_memory_is(const Subject& subject, const pool::Pool& pool) {
    struct statfs system {};
    struct stat status {};
    REQUIRE(::fstat(pool.descriptor(), &status) == 0);
    REQUIRE(::fstatfs(pool.descriptor(), &system) == 0);
    const auto memory = mapped(pool, 0, pool.size());
    switch (subject.base.kind) {
        case Kind::shm:
            CHECK(system.f_type == TMPFS_MAGIC);
            break;
        case Kind::numa:
            CHECK(system.f_type == TMPFS_MAGIC);
            check_contains(pool.describe(), {"NUMA node", "pages looked at lie there"});
            CHECK(pool.facts().warnings.empty());
            break;
        case Kind::hugetlb:
            CHECK(system.f_type == HUGETLBFS_MAGIC);
            memory.bytes()[0] = std::byte{0};
            CHECK(smaps_figure(memory.data(), "KernelPageSize:") == subject.unit);
            break;
        case Kind::fsdax: {
            struct statx extended {};
            REQUIRE(::statx(pool.descriptor(), "", 0x1000 /* AT_EMPTY_PATH */, STATX_BASIC_STATS,
                            &extended) == 0);
            CHECK(((extended.stx_attributes & 0x200000 /* STATX_ATTR_DAX */) != 0) ==
                  !subject.base.allow_page_cache);
            CHECK(pool.facts().warnings.empty() == !subject.base.allow_page_cache);
            break;
        }
        case Kind::devdax:
            CHECK(S_ISCHR(status.st_mode));
            break;
    }
}

}  // namespace

TEST_CASE("the memory is of the kind that was asked for") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        CHECK(pool->kind() == kind.base.kind);
        CHECK(pool->alignment() == kind.unit);
        check_memory_is(kind, *pool);
    });
}

TEST_CASE("a new pool is what was asked for, and blank") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        CHECK(pool->kind() == kind.base.kind);
        CHECK(pool->name() == "test");
        CHECK(pool->path() == (kind.has_file() ? scratch.file() : kind.device));
        CHECK(pool->size() == kind.size);
        CHECK(pool->is_new());
        CHECK(pool->descriptor() >= 0);
        CHECK_FALSE(pool->describe().empty());
        const auto memory = mapped(*pool, 0, pool->size());
        for (std::uint64_t at = 0; at < pool->size(); at += 4093)
            CHECK(memory.bytes()[at] == std::byte{0});
    });
}

TEST_CASE("a pool that is opened again has its bytes") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        Descriptor kept;
        {
            const auto pool = opened(kind.config(scratch));
            const auto memory = mapped(*pool, 0, pool->size());
            std::memcpy(memory.data(), "head", 4);
            std::memcpy(memory.data() + pool->size() - 4, "tail", 4);
            REQUIRE(pool->enter_domain(some_domain()));
            kept = keep(*pool);
        }
        const auto pool = opened(kind.config(scratch), std::move(kept));
        CHECK_FALSE(pool->is_new());
        const auto memory = mapped(*pool, 0, pool->size());
        CHECK(std::memcmp(memory.data(), "head", 4) == 0);
        CHECK(std::memcmp(memory.data() + pool->size() - 4, "tail", 4) == 0);
    });
}

TEST_CASE("a pool that nobody wrote to is still new when it is opened again") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        Descriptor kept = keep(*opened(kind.config(scratch)));
        CHECK(opened(kind.config(scratch), std::move(kept))->is_new());
    });
}

TEST_CASE("two mappings see each other, also through two opens") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto first = opened(kind.config(scratch));
        const auto second = opened(kind.config(scratch), keep(*first));
        const auto one = mapped(*first, 0, first->size());
        const auto two = mapped(*second, 0, second->size());
        REQUIRE(one.data() != two.data());
        one.bytes()[12345] = std::byte{42};
        CHECK(two.bytes()[12345] == std::byte{42});
        two.bytes()[54321] = std::byte{24};
        CHECK(one.bytes()[54321] == std::byte{24});
    });
}

TEST_CASE("a mapping at the alignment shows that part of the pool") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        const std::uint64_t unit = pool->alignment();
        const auto whole = mapped(*pool, 0, pool->size());
        for (const std::uint64_t offset : {unit, pool->size() / 2 / unit * unit, pool->size() - unit}) {
            const auto part = mapped(*pool, offset, unit);
            CHECK(reinterpret_cast<std::uintptr_t>(part.data()) % unit == 0);
            whole.bytes()[offset] = std::byte{7};
            CHECK(part.bytes()[0] == std::byte{7});
        }
    });
}

TEST_CASE("a pool of some units maps whole, and its units keep apart") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        const auto memory = mapped(*pool, 0, pool->size());
        const std::uint64_t units = pool->size() / pool->alignment();
        for (std::uint64_t unit = 0; unit < units; ++unit)
            std::memcpy(memory.data() + unit * pool->alignment() + 100, &unit, sizeof unit);
        const auto other = mapped(*pool, 0, pool->size());
        for (std::uint64_t unit = 0; unit < units; ++unit) {
            std::uint64_t read = ~unit;
            std::memcpy(&read, other.data() + unit * pool->alignment() + 100, sizeof read);
            CHECK(read == unit);
        }
    });
}

TEST_CASE("the size is a multiple of the alignment, rounded down, and stays so") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        Descriptor kept;
        for (int round = 0; round < 2; ++round) {
            const auto pool =
                opened(kind.config(scratch, kind.size - kind.unit + kind.unit / 2), std::move(kept));
            CHECK(pool->alignment() == kind.unit);
            CHECK(pool->size() == kind.size - kind.unit);
            kept = keep(*pool);
        }
    });
}

TEST_CASE("bytes stay for who maps them when the pool object goes") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        auto pool = opened(kind.config(scratch));
        const auto memory = mapped(*pool, 0, pool->size());
        memory.bytes()[kind.size - 1] = std::byte{5};
        Descriptor kept = keep(*pool);
        pool.reset();
        CHECK(memory.bytes()[kind.size - 1] == std::byte{5});
        memory.bytes()[0] = std::byte{6};
        const auto again = opened(kind.config(scratch), std::move(kept));
        CHECK(mapped(*again, 0, 4096).bytes()[0] == std::byte{6});
    });
}

TEST_CASE("a pool that no name leads to says so, and ends with its last holder") {
    for_each_nameless([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        REQUIRE(pool->facts().ends_with_holder);
        REQUIRE(pool->facts().warnings.size() == 1);
        check_contains(pool->facts().warnings[0], {"'test'", "ends with the daemon", "hugetlbfs"});
        mapped(*pool, 0, 4096).bytes()[0] = std::byte{1};
        CHECK(opened(kind.config(scratch))->is_new());
        CHECK_FALSE(pool->is_new() == opened(kind.config(scratch), keep(*pool))->is_new());
    });
}
