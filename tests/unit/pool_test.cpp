// Parts of pools that are not the same for every kind.
#include <fcntl.h>

#include <filesystem>
#include <fstream>

#include "pool/huge_pages.hpp"
#include "pool/hugetlb_pool.hpp"
#include "pool/numa_placement.hpp"
#include "pool_kinds.hpp"

using namespace maru;
using namespace maru::pool_tests;
using pool::PoolConfig;

TEST_CASE("names that could leave the folder are refused") {
    const std::vector<std::string> bad = {"", "a/b", "../x", "a b", "a\nb", "\xc3\xa4", std::string(64, 'x')};
    for (const auto& name : bad) {
        CAPTURE(name);
        PoolConfig config;
        config.name = name;
        config.size = MiB;
        refusal(config);
        CHECK_FALSE(pool::check_name(name));
    }
    const std::vector<std::string> good = {"a", "Pool_1.2-x", std::string(63, 'x')};
    for (const auto& name : good)
        CHECK(pool::check_name(name));
}

TEST_CASE("huge pages of a tmpfs are reported as the kernel gives them, and required only where it does") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        if (kind.base.kind != pool::Kind::shm && kind.base.kind != pool::Kind::numa) return;
        auto config = kind.config(scratch);
        config.huge_pages = pool::HugePages::never;
        check_contains(opened(config)->describe(), {"4 KiB pages"});
        config.huge_pages = pool::HugePages::require;
        const Descriptor file(::open(scratch.file().c_str(), O_RDWR | O_CLOEXEC));
        if (pool::huge_pages_of(file.get(), config.huge_pages).on)
            check_contains(opened(config)->describe(), {"huge pages"});
        else
            check_contains(refusal(config),
                           {"hugepages = \"require\"", "4 KiB pages", "hugepages = \"advise\""});
    });
}

TEST_CASE("huge pages: the words of the kernel's files") {
    CHECK(pool::selected_word("always within_size advise [never] deny force\n") == "never");
    CHECK(pool::selected_word("[always] never") == "always");
    CHECK(pool::selected_word("") == "");
    CHECK(pool::selected_word("[never") == "");

    const std::string mounts =
        "22 1 0:21 / / rw - ext4 /dev/vda rw\n"
        "25 24 0:23 / /dev/shm rw,nosuid shared:4 master:1 - tmpfs tmpfs rw,size=64k,huge=advise\n"
        "26 24 0:230 / /run rw - tmpfs tmpfs rw\n";
    CHECK(pool::mount_of(mounts, 0, 23).point == "/dev/shm");
    CHECK(pool::mount_of(mounts, 0, 23).huge == "advise");
    CHECK(pool::mount_of(mounts, 0, 230).huge == "never");
    CHECK(pool::mount_of(mounts, 0, 2).point == "");
    CHECK(pool::mount_of("broken", 0, 23).point == "");
}

TEST_CASE("a pool of kind shm is on a tmpfs, under a name of this user") {
    CHECK(pool::default_shm_path("main") == "/dev/shm/maru-main-" + std::to_string(::geteuid()));
    PoolConfig config;
    config.name = "test";
    config.size = MiB;
    config.path = "/proc/maru-pool-test";
    refusal(config);
    const Scratch scratch(std::filesystem::current_path().string());
    config.path = scratch.file();
    const auto result = pool::open(config);
    if (result) {  // only where the build folder itself lies on a tmpfs
        check_contains((*result)->describe(), {"tmpfs"});
    } else {
        check_contains(result.error().text, {"is not on a tmpfs", "/dev/shm"});
        CHECK(scratch.is_empty());
    }
}

TEST_CASE("kinds have fixed names and numbers, and those that are not built are refused by name") {
    const std::pair<const char*, std::uint32_t> known[] = {
        {"devdax", 1}, {"fsdax", 2}, {"shm", 3}, {"hugetlb", 4}, {"numa", 5}};
    for (const auto& [name, number] : known) {
        const auto kind = pool::parse_kind(name);
        REQUIRE(kind);
        CHECK(static_cast<std::uint32_t>(*kind) == number);
        CHECK(std::string(pool::name_of(*kind)) == name);
        if (pool::is_built(*kind)) continue;
        PoolConfig config;
        config.name = "test";
        config.kind = *kind;
        config.size = MiB;
        config.path = "/dev/shm/maru-pool-test-never-made";
        check_contains(refusal(config), {name, "not in this build", pool::built_kinds()});
        CHECK_FALSE(exists(config.path));
    }
    const auto unknown = pool::parse_kind("ram");
    REQUIRE_FALSE(unknown);
    check_contains(unknown.error().text, {"\"ram\"", "devdax", "shm"});
    CHECK(pool::is_built(pool::Kind::shm));
}

TEST_CASE("hugetlb: too few pages are named with their numbers and the command that makes more") {
    const Scratch scratch("/dev/shm");
    const auto write = [&](const std::string& name, int value) {
        std::ofstream(scratch.file(name)) << value;
    };
    std::filesystem::create_directory(scratch.file("hugepages-2048kB"));
    for (const auto& [name, value] :
         {std::pair{"nr_hugepages", 10}, std::pair{"free_hugepages", 7}, std::pair{"resv_hugepages", 3},
          std::pair{"surplus_hugepages", 1}, std::pair{"nr_overcommit_hugepages", 2}})
        write("hugepages-2048kB/" + std::string(name), value);
    const std::string folder = scratch.file("x").substr(0, scratch.file("x").size() - 2);
    const auto room = pool::hugetlb_room(2 * MiB, folder);
    CHECK(room.known);
    CHECK(room.left() == 5);  // 7 free, 3 of them promised to others, 1 more by overcommit
    CHECK_FALSE(pool::hugetlb_room(GiB, folder).known);
    PoolConfig config;
    config.name = "kv";
    config.kind = pool::Kind::hugetlb;
    config.size = 8 * GiB;
    check_contains(pool::too_few_pages(config, room),
                   {"pool 'kv': 5 of 10 huge pages of 2.0 MiB are free", "4096 (8.0 GiB) are needed",
                    "sysctl -w vm.nr_hugepages=4101", "lower [[pool]] size"});
    config.page_size = GiB;
    check_contains(
        pool::too_few_pages(config, {}),
        {"0 of 0 huge pages of 1.0 GiB", "hugepages-1048576kB/nr_hugepages", "hugepagesz=1G hugepages=8"});
}

TEST_CASE("hugetlb: what cannot be is refused with its reason") {
    PoolConfig config;
    config.name = "test";
    config.kind = pool::Kind::hugetlb;
    config.size = 4 * MiB;
    config.page_size = 3 * MiB;
    check_contains(refusal(config), {"no power of two"});
    config.page_size = 64 * MiB;
    check_contains(refusal(config), {"no huge pages of 64.0 MiB", "page_size"});
    config.page_size = 0;
    config.huge_pages = pool::HugePages::never;
    check_contains(refusal(config), {"contradicts"});
    config.huge_pages = pool::HugePages::require;
    config.path = pool::default_shm_path("never-made");
    check_contains(refusal(config), {"is not on a hugetlbfs", "mount -t hugetlbfs"});
    CHECK_FALSE(exists(config.path));
}

TEST_CASE("numa: nodes that have no memory are refused by number, and free memory is read per node") {
    PoolConfig config;
    config.name = "test";
    config.kind = pool::Kind::numa;
    config.size = 4 * MiB;
    check_contains(pool::is_built(config.kind) ? refusal(config) : "numa_node", {"numa_node"});
    if (pool::is_built(config.kind)) {
        config.numa_nodes = {0, 77};
        check_contains(refusal(config), {"NUMA node 77 has no memory here (there is in node", "numa_node"});
        CHECK_FALSE(exists(pool::default_shm_path("test")));
        config.numa_nodes = {0, 0};
        config.placement = pool::Placement::preferred;
        check_contains(refusal(config), {"\"preferred\" takes one node", "nodes 0, 0"});
    }
    CHECK(pool::available_in("Node 3 MemTotal: 999 kB\nNode 3 MemFree:   10 kB\nNode 3 Active(file): 5 kB\n"
                             "Node 3 Inactive(file): 7 kB\nbroken\n") == 22 * KiB);
    CHECK(pool::text_of_nodes({2}) == "node 2");
    CHECK(pool::text_of_nodes({0, 2}) == "nodes 0, 2");
}

TEST_CASE("fsdax: a file system without dax is refused, and makes nothing") {
    const Scratch scratch("/dev/shm");
    PoolConfig config;
    config.name = "test";
    config.kind = pool::Kind::fsdax;
    config.size = 4 * MiB;
    config.path = scratch.file("x").substr(0, scratch.file("x").size() - 2);
    check_contains(refusal(config), {"does not map this file with dax", "-o dax", "allow_page_cache"});
    CHECK(scratch.is_empty());
    config.numa_nodes = {0};
    check_contains(refusal(config), {"numa_node"});
}
