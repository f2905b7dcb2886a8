// [[pool]] and --pool: what each kind takes, and what it cannot have.
#include <doctest/doctest.h>

#include "base/size.hpp"
#include "config_words.hpp"

using namespace maru;
using namespace maru::daemon;

TEST_CASE("each kind is written on the command line in its own way") {
    const auto config =
        load_config(with_pools({"shm:a:64MiB", "fsdax:/mnt/x:64GiB", "hugetlb:1GiB:8GiB", "numa:0,2:64GiB",
                                "devdax:any", "devdax:uuid:31c57400-020a-4e5c-9805-85cc0cbdf449"}));
    REQUIRE(config);
    REQUIRE(config->pools.size() == 6);
    CHECK(config->pools[4].path == "any");
    CHECK(config->pools[5].path == "uuid:31c57400-020a-4e5c-9805-85cc0cbdf449");
    CHECK(config->pools[5].size == 0);  // all of it
    CHECK(config->pools[1].name == "fsdax1");
    CHECK(config->pools[1].path == "/mnt/x");
    CHECK(config->pools[1].size == 64 * GiB);
    CHECK(config->pools[2].name == "hugetlb2");
    CHECK(config->pools[2].page_size == GiB);
    CHECK(config->pools[2].huge_pages == pool::HugePages::require);
    CHECK(config->pools[3].kind == pool::Kind::numa);
    CHECK(config->pools[3].numa_nodes == std::vector<std::uint32_t>{0, 2});
    CHECK(config->pools[3].placement == pool::Placement::bind);
}

TEST_CASE("keys that only some kinds of pools have") {
    const auto config = parsed(
        "[[pool]]\nkind = \"hugetlb\"\nsize = \"8GiB\"\n"
        "[[pool]]\nkind = \"hugetlb\"\nsize = \"8GiB\"\npage_size = \"1GiB\"\npath = \"/dev/hugepages/x\"\n"
        "[[pool]]\nkind = \"numa\"\nsize = \"8GiB\"\nnuma_node = [0, 1]\nplacement = \"interleave\"\n"
        "[[pool]]\nkind = \"fsdax\"\npath = \"/mnt\"\nsize = \"8GiB\"\nallow_page_cache = true\n"
        "[[pool]]\nkind = \"shm\"\nsize = \"8GiB\"\nnuma_node = 1\n");
    REQUIRE(config.pools.size() == 5);
    CHECK(config.pools[0].page_size == 2 * MiB);
    CHECK(config.pools[0].huge_pages == pool::HugePages::require);
    CHECK(config.pools[1].page_size == GiB);
    CHECK(config.pools[2].numa_nodes == std::vector<std::uint32_t>{0, 1});
    CHECK(config.pools[2].placement == pool::Placement::interleave);
    CHECK(config.pools[3].allow_page_cache);
    CHECK(config.pools[4].numa_nodes == std::vector<std::uint32_t>{1});

    const std::string numa = "[[pool]]\nkind = \"numa\"\nsize = \"1G\"\n";
    check_refused(numa, {"maru.toml:1: ", "no numa_node", "kind numa requires it"});
    check_refused(numa + "numa_node = -1", {"maru.toml:4: pool.numa_node = -1", "number of a node"});
    check_refused(numa + "numa_node = [0, \"1\"]", {"maru.toml:4: pool.numa_node"});
    check_refused(numa + "numa_node = 0\nplacement = \"near\"",
                  {"maru.toml:5: pool.placement", "interleave"});
    check_refused("[[pool]]\nkind = \"fsdax\"\nsize = \"1G\"", {"maru.toml:1: ", "no path", "folder"});
    check_refused("[[pool]]\nkind = \"hugetlb\"\nsize = \"1G\"\npage_size = \"3MiB\"",
                  {"maru.toml:4: pool.page_size = \"3MiB\"", "power of two"});
    check_refused(one_pool + "page_size = \"2MiB\"", {"maru.toml:1: ", "page_size is for kind hugetlb"});
    check_refused(one_pool + "allow_page_cache = true",
                  {"maru.toml:1: ", "allow_page_cache is for kind fsdax"});
    check_refused(one_pool + "placement = \"interleave\"", {"maru.toml:1: ", "placement without numa_node"});
    check_refused(one_pool + "path = \"any\"", {"maru.toml:1: ", "\"any\" is for kind devdax"});
    check_refused("[[pool]]\nkind = \"fsdax\"\npath = \"/mnt\"\nsize = \"8GiB\"\nnuma_node = 0",
                  {"maru.toml:1: ", "numa_node is not for kind fsdax"});
}
