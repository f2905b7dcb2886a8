// The config: what is read, what is refused and in which words, where values come from, what conf/maru.toml
// says.
#include <doctest/doctest.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/log.hpp"
#include "base/size.hpp"
#include "base/uuid.hpp"
#include "config_words.hpp"
#include "daemon/config.hpp"
#include "daemon/config_check.hpp"
#include "daemon/config_keys.hpp"

using namespace maru;
using namespace maru::daemon;

namespace {

/// Sets or clears a variable of the environment, and puts it back.
class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        if (value != nullptr)
            ::setenv(name, value, 1);
        else
            ::unsetenv(name);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() {
        if (before_)
            ::setenv(name_, before_->c_str(), 1);
        else
            ::unsetenv(name_);
    }

  private:
    const char* name_;
    std::optional<std::string> before_;
};

/// A file of this test alone.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& text)
        : path_(std::filesystem::temp_directory_path() /
                ("maru-config-test-" + std::to_string(::getpid()) + "-" + std::to_string(random_bits()))) {
        std::ofstream(path_) << text;
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() { std::filesystem::remove(path_); }
    std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

std::string show(const Config& config, const std::string& name) {
    for (const auto& key : config_keys())
        if (key.name == name) return key.show(config);
    FAIL("no key " << name);
    return {};
}

}  // namespace

TEST_CASE("an empty file leaves every default") {
    const Config config = parsed("");
    CHECK(config.pools.empty());
    CHECK(config.origins.empty());
    for (const auto& key : config_keys())
        CHECK(show(config, key.name) == key.show(Config{}));
}

TEST_CASE("every key is read, and its line is kept") {
    const Config config = parsed(
        "[daemon]\nsocket = \"/run/x.sock\"\nsocket_mode = \"0600\"\ngroup = \"staff\"\nlog_level = "
        "\"WARNING\"\n"
        "log_file = \"/var/log/maru\"\nhost_id = \"node-7.rack_2\"\nevent_backend = \"epoll\"\n"
        "[control]\npool = \"b\"\nmax_objects = 1000\nmax_clients = 2\nmax_hosts = 1\nmax_namespaces = 1\n"
        "max_pins = 64\nmax_pool_bytes = \"1GiB\"\nregion_size = \"4MiB\"\nmin_page = 8192\nkey_pin_ttl = "
        "\"1500ms\"\ncoherence = "
        "\"local\"\n"
        "[eviction]\npolicy = \"none\"\nlow_free = \"1.5%\"\nhigh_free = 10\n"
        "[checksum]\nmode = \"verify\"\n"
        "[host]\ngrace = \"4500ms\"\n"
        "[metrics]\nlisten = \"[::1]:0\"\n"
        "[[pool]]\nname = \"a\"\nkind = \"shm\"\nsize = \"64MiB\"\n"
        "[[pool]]\nname = \"b\"\nkind = \"shm\"\npath = \"/dev/shm/x\"\nsize = 67108864\npage_size = "
        "0\nnuma_node = [0]\nplacement = \"bind\"\nallow_page_cache = false\nhugepages = "
        "\"never\"\n"
        "prefault = \"all\"\nreserve = false\n");
    CHECK(config.daemon.socket == "/run/x.sock");
    CHECK(config.daemon.socket_mode == 0600);
    CHECK(config.daemon.group == "staff");
    CHECK(config.daemon.log_level == "warn");
    CHECK(config.daemon.log_file == "/var/log/maru");
    CHECK(config.daemon.host_id == "node-7.rack_2");
    CHECK(config.daemon.event_backend == "epoll");
    CHECK(config.control.pool == "b");
    CHECK(config.control.max_objects == 1000);
    CHECK(config.control.max_clients == 2);
    CHECK(config.control.max_hosts == 1);
    CHECK(config.control.max_namespaces == 1);
    CHECK(config.control.max_pins == 64);
    CHECK(config.control.max_pool_bytes == 1 * GiB);
    CHECK(config.control.region_size == 4 * MiB);
    CHECK(config.control.min_page == 8192);
    CHECK(config.control.key_pin_ttl == std::chrono::milliseconds(1500));
    CHECK(config.eviction.policy == "none");
    CHECK(config.eviction.low_free_percent == 1.5);
    CHECK(config.eviction.high_free_percent == 10);
    CHECK(config.checksum.mode == table::ChecksumMode::verify);
    CHECK(config.host.grace == std::chrono::milliseconds(4500));
    CHECK(config.metrics.listen == "[::1]:0");
    // The pool of the control region comes first.
    REQUIRE(config.pools.size() == 2);
    CHECK(config.pools[0].name == "b");
    CHECK(config.pools[0].path == "/dev/shm/x");
    CHECK(config.pools[0].size == 64 * MiB);
    CHECK(config.pools[0].huge_pages == pool::HugePages::never);
    CHECK(config.pools[0].prefault == pool::Prefault::all);
    CHECK_FALSE(config.pools[0].reserve);
    CHECK(config.pools[1].name == "a");
    CHECK(config.pools[1].reserve);
    // Every key of the lists is in the text above, and has its line.
    for (const auto& key : config_keys()) {
        CAPTURE(key.name);
        CHECK(config.origins.count(key.name) == 1);
    }
    for (const auto& key : pool_keys()) {
        CAPTURE(key.name);
        CHECK(config.origins.count("pool.b." + key.name.substr(5)) == 1);
    }
    CHECK(config.origins.at("daemon.socket_mode") == "maru.toml:3");
    CHECK(config.origins.at("pool.b") == "maru.toml:35");
    CHECK(config.origins.at("pool.b.reserve") == "maru.toml:46");
}

TEST_CASE("dotted keys and inline tables are the same as sections") {
    const Config config = parsed(
        "control.max_clients = 7\neviction = { low_free = \"1%\", high_free = \"3%\" }\n"
        "pool = [ { kind = \"shm\", size = \"1GiB\" } ]\n");
    CHECK(config.control.max_clients == 7);
    CHECK(config.eviction.high_free_percent == 3);
    CHECK(config.pools.at(0).name == "shm0");
    CHECK(config.origins.at("eviction.high_free") == "maru.toml:2");
}

TEST_CASE("pools without a name have their kind and position") {
    const Config config =
        parsed(one_pool + "[[pool]]\nname = \"big\"\nkind = \"shm\"\nsize = \"1GiB\"\n" + one_pool);
    REQUIRE(config.pools.size() == 3);
    CHECK(config.pools[0].name == "shm0");
    CHECK(config.pools[1].name == "big");
    CHECK(config.pools[2].name == "shm2");
}

TEST_CASE("an unknown key is an error with its line and the nearest known key") {
    check_refused("\n[daemon]\nsokcet = \"/run/x\"\n",
                  {"maru.toml:3: ", "unknown key daemon.sokcet", "did you mean daemon.socket?"});
    check_refused("[control]\nmax_client = 3\n", {"maru.toml:2: ", "did you mean control.max_clients?"});
    check_refused("[daemon]\nmax_objects = 3\n", {"daemon.max_objects", "did you mean control.max_objects?"});
    check_refused("[evicton]\npolicy = \"clock\"\n", {"maru.toml:1: ", "unknown table evicton"});
    check_refused("socket = \"/x\"\n", {"unknown key socket", "did you mean daemon.socket?"});
    check_refused(one_pool + "hugepage = \"never\"\n",
                  {"maru.toml:4: ", "unknown key pool.hugepage", "did you mean pool.hugepages?"});
    check_refused("[daemon]\nxyzzyxyzzyxyzzy = 1\n", {"unknown key daemon.xyzzyxyzzyxyzzy"});
    CHECK(refusal("[daemon]\nxyzzyxyzzyxyzzy = 1\n").find("did you mean") == std::string::npos);
    check_refused("[daemon]\n" + std::string(5000, 'a') + " = 1\n", {"maru.toml:2: ", "unknown key"});
    check_refused("[daemon.socket]\npath = 1\n", {"daemon.socket = a table", "absolute path"});
}

TEST_CASE("keys that this version does not have are refused by name, not passed over") {
    for (const std::string key :
         {"listen.tcp = \"[::]:9860\"", "listen.key_file = \"/x\"", "remote.nodes = []"}) {
        CAPTURE(key);
        check_refused("# first line\n" + key, {"maru.toml:2: ", "is not supported by this version"});
    }
    const std::string whole = refusal(
        "[listen]\ntcp = \"[::]:9860\"\nkey_file = \"/x\"\n[remote]\nlisten = \"[::]:9861\"\nucx_device = "
        "\"mlx5_0\"\n"
        "key_file = \"/y\"\nallow_unchecked_transport = true\nnodes = [\"host:9860\"]\nnodes_key_file = "
        "\"/z\"\n");
    for (const std::string named :
         {"maru.toml:2: listen.tcp ", "maru.toml:3: listen.key_file ", "maru.toml:5: remote.listen ",
          "maru.toml:6: remote.ucx_device ", "maru.toml:7: remote.key_file ",
          "maru.toml:8: remote.allow_unchecked_transport ", "maru.toml:9: remote.nodes ",
          "maru.toml:10: remote.nodes_key_file "}) {
        CAPTURE(whole);
        CHECK(whole.find(named + "is not supported by this version: remove it") != std::string::npos);
    }
    check_refused("[listen]", {"maru.toml:1: [listen] is not supported by this version"});
    check_refused("[remote]", {"maru.toml:1: [remote] is not supported by this version"});
    check_refused("[listen]\ntpc = 1", {"maru.toml:2: ", "unknown key listen.tpc"});
    check_refused("control.coherence = \"software\"",
                  {"maru.toml:1: control.coherence = \"software\"", "local", "hardware"});
}

TEST_CASE("a wrong type or value is an error with line, key, value and what is allowed") {
    struct Bad {
        std::string key, value, allowed;
    };
    const Bad values[] = {
        {"daemon.socket", "3", "absolute path"},
        {"daemon.socket", "\"run/maru.sock\"", "absolute path"},
        {"daemon.socket", "\"/a\\u0000b\"", "absolute path"},
        {"daemon.socket_mode", "660", "octal"},
        {"daemon.socket_mode", "400", "octal"},
        {"daemon.socket_mode", "\"0999\"", "octal"},
        {"daemon.socket_mode", "\"01777\"", "octal"},
        {"daemon.socket_mode", "\"0060\"", "octal"},
        {"daemon.socket_mode", "\"\"", "octal"},
        {"daemon.socket_mode", "true", "octal"},
        {"daemon.group", "\"\"", "name of a group"},
        {"daemon.group", "3", "name of a group"},
        {"daemon.log_level", "\"loud\"", "trace, debug, info, warn or error"},
        {"daemon.log_level", "1", "trace, debug, info, warn or error"},
        {"daemon.log_file", "\"maru.log\"", "absolute path"},
        {"daemon.host_id", "\"node 7\"", "letters, digits"},
        {"daemon.event_backend", "\"select\"", "auto, io_uring or epoll"},
        {"control.pool", "1", "name of a pool"},
        {"control.max_objects", "-1", "a number from 0 to "},
        {"control.max_objects", "1000000000", "a number from 0 to "},
        {"control.max_objects", "\"1000\"", "a number from 0 to "},
        {"control.max_clients", "1", "a number from 2 to 1023"},
        {"control.max_clients", "1024", "a number from 2 to 1023"},
        {"control.max_clients", "4294967552", "a number from 2 to 1023"},  // 256 in the lower 32 bits
        {"control.max_clients", "2.5", "a number from 2 to 1023"},
        {"control.max_hosts", "0", "a number from 1 to 64"},
        {"control.max_namespaces", "4097", "a number from 1 to 4096"},
        {"control.max_pins", "63", "a number from 64 to 16777216"},
        {"control.max_pool_bytes", "\"1XiB\"", "0 for twice the pools of the format"},
        {"control.region_size", "\"3MiB\"", "power of two"},
        {"control.region_size", "\"2KiB\"", "power of two"},
        {"control.region_size", "\"2XiB\"", "power of two"},
        {"control.region_size", "-2097152", "power of two"},
        {"control.min_page", "0", "multiple of 4 KiB"},
        {"control.min_page", "\"6KiB\"", "multiple of 4 KiB"},
        {"control.key_pin_ttl", "\"soon\"", "a duration"},
        {"control.key_pin_ttl", "-1", "a duration"},
        {"control.key_pin_ttl", "nan", "a duration"},
        {"control.key_pin_ttl", "1e300", "a duration"},
        {"control.key_pin_ttl", "true", "a duration"},
        {"control.coherence", "\"Local\"", "local"},
        {"eviction.policy", "\"lru\"", "clock or none"},
        {"eviction.low_free", "\"2\"", "percentage"},
        {"eviction.low_free", "\"-2%\"", "percentage"},
        {"eviction.low_free", "\"101%\"", "percentage"},
        {"eviction.low_free", "\"2%%\"", "percentage"},
        {"eviction.high_free", "nan", "percentage"},
        {"eviction.high_free", "false", "percentage"},
        {"checksum.mode", "\"on\"", "off, publish or verify"},
        {"checksum.mode", "true", "off, publish or verify"},
        {"host.grace", "\"2999ms\"", "from 3 seconds to a day"},
        {"host.grace", "\"25h\"", "from 3 seconds to a day"},
        {"host.grace", "0", "from 3 seconds to a day"},
        {"metrics.listen", "9464", "an address and a port"},
        {"metrics.listen", "\":9464\"", "an address and a port"},
        {"metrics.listen", "\"localhost:9464\"", "an address and a port"},
        {"metrics.listen", "\"127.0.0.1\"", "an address and a port"},
        {"metrics.listen", "\"127.0.0.1:\"", "an address and a port"},
        {"metrics.listen", "\"127.0.0.1:65536\"", "an address and a port"},
        {"metrics.listen", "\"127.0.0.1:-1\"", "an address and a port"},
        {"metrics.listen", "\"127.0.0.1:94 64\"", "an address and a port"},
        {"metrics.listen", "\"::1:9464\"", "an address and a port"},
        {"metrics.listen", "\"[127.0.0.1]:9464\"", "an address and a port"},
    };
    std::set<std::string> tried;
    for (const auto& bad : values) {
        tried.insert(bad.key);
        CAPTURE(bad.key);
        check_refused("\n" + bad.key + " = " + bad.value + "\n",
                      {"maru.toml:2: " + bad.key + " = ", " is not allowed: write ", bad.allowed});
    }
    for (const auto& key : config_keys()) {
        CAPTURE(key.name);
        CHECK(tried.count(key.name) == 1);
        check_refused(key.name + " = { a = 1 }\n", {key.name + " = a table is not allowed: "});
        check_refused(key.name + " = [1]\n", {key.name + " = an array is not allowed: "});
        check_refused(key.name + " = 1979-05-27\n", {key.name + " = 1979-05-27 is not allowed: "});
    }
}

TEST_CASE("a wrong value of a pool is an error with line, key, value and what is allowed") {
    const std::pair<std::string, std::string> values[] = {
        {"name = \"\"", "pool.name = \"\""},
        {"name = \"a/b\"", "pool.name = \"a/b\""},
        {"name = 3", "pool.name = 3"},
        {"path = \"shm\"", "pool.path = \"shm\""},
        {"hugepages = true", "pool.hugepages = true"},
        {"prefault = \"yes\"", "pool.prefault = \"yes\""},
        {"reserve = \"true\"", "pool.reserve = \"true\""},
        {"reserve = 1", "pool.reserve = 1"},
    };
    for (const auto& [line, shown] : values)
        check_refused(one_pool + line, {"maru.toml:4: " + shown + " is not allowed: write "});
    for (const std::string size : {"\"4Gx\"", "\"\"", "-1", "0", "4095", "1.5", "\"99999999999TiB\"", "true"})
        check_refused("[[pool]]\nkind = \"shm\"\nsize = " + size,
                      {"maru.toml:3: pool.size = " + size, "\"4GiB\"", "at least 4 KiB"});
    check_refused("[[pool]]\nkind = \"ram\"\nsize = \"1G\"", {"maru.toml:2: pool.kind = \"ram\"", "shm"});
}

TEST_CASE("a pool without kind or size is an error at its line") {
    check_refused("\n[[pool]]\nsize = \"1GiB\"\n", {"maru.toml:2: ", "no kind"});
    check_refused("\n[[pool]]\nkind = \"shm\"\n", {"maru.toml:2: ", "no size"});
}

TEST_CASE("a table where a value belongs, and the other way round, is an error") {
    check_refused("daemon = 3\n", {"maru.toml:1: daemon = 3", "must be a table, written [daemon]"});
    check_refused("[[daemon]]\nsocket = \"/x\"\n", {"daemon = an array", "written [daemon]"});
    check_refused("[pool]\nkind = \"shm\"\n", {"maru.toml:1: ", "[[pool]]"});
    check_refused("pool = [1, 2]\n", {"maru.toml:1: ", "[[pool]]"});
    check_refused("pool = \"shm\"\n", {"maru.toml:1: ", "[[pool]]"});
    CHECK(parsed("pool = []\n").pools.empty());
}

TEST_CASE("two pools of one name or one file are refused with both lines") {
    const std::string named = "[[pool]]\nname = \"a\"\nkind = \"shm\"\nsize = \"64MiB\"\n";
    check_refused(named + named, {"maru.toml:5: ", "'a'", "maru.toml:1"});
    check_refused("[[pool]]\nname = \"shm1\"\nkind = \"shm\"\nsize = \"64MiB\"\n" + one_pool, {"'shm1'"});
    const std::string filed = "[[pool]]\nkind = \"shm\"\nsize = \"64MiB\"\npath = \"/dev/shm/x\"\n";
    check_refused(filed + filed, {"maru.toml:5: ", "/dev/shm/x", "maru.toml:1"});
    check_refused(one_pool + "[[pool]]\nname = \"b\"\nkind = \"shm\"\nsize = \"64MiB\"\npath = \"" +
                      pool::default_shm_path("shm0") + "\"\n",
                  {"pool 'b'", "'shm0'"});
    std::string many;
    for (int i = 0; i < 65; ++i)
        many += one_pool;
    check_refused(many, {"maru.toml:193: ", "at most 64"});
}

TEST_CASE("values that do not go together are refused with a line") {
    check_refused("[eviction]\nlow_free = \"5%\"\n", {"maru.toml:2: ", "low_free must be below"});
    check_refused("[eviction]\nlow_free = \"6%\"\nhigh_free = \"6%\"\n",
                  {"maru.toml:3: ", "low_free must be below"});
    check_refused("control.pool = \"c\"\n" + one_pool, {"maru.toml:1: ", "control.pool = \"c\"", "shm0"});
}

TEST_CASE("all problems of a file come at once, in the order of its lines") {
    const std::string error =
        refusal("[eviction]\npolicy = \"lru\"\n[daemon]\nsokcet = 1\n[control]\nmax_pins = 1\n");
    const auto first = error.find("maru.toml:2: "), second = error.find("maru.toml:4: "),
               third = error.find("maru.toml:6: ");
    REQUIRE(third != std::string::npos);
    CHECK(first < second);
    CHECK(second < third);
    std::string many = "[daemon]\n";
    for (int i = 0; i < 100; ++i)
        many += "x" + std::to_string(i) + " = 1\n";
    check_refused(many, {"and 80 more"});
}

TEST_CASE("what is no TOML is refused with its line") {
    for (const std::string text :
         {"a = 1\n[daemon\n", "a = 1\nb b\n", "a = 1\n[daemon]\n[daemon]\n", "a = 1\na = 2\n",
          "a = 1\nb = \"x\n", "a = 1\nb = 0660\n", "a = 1\nb = \xff\n"}) {
        CAPTURE(text);
        const std::string error = refusal(text);
        CHECK(error.compare(0, 10, "maru.toml:") == 0);
        CHECK(error.find(": not TOML: ") != std::string::npos);
    }
    CHECK(refusal("a = 1\nb b\n").compare(0, 12, "maru.toml:2:") == 0);
    refusal(std::string("a = \"\0\"", 8));
    refusal(std::string(100000, '['));
}

TEST_CASE("a key of very many parts is refused with its line") {
    std::string deep = "a";
    for (int part = 0; part < 200'000; ++part)
        deep += ".a";
    for (const auto& text : {deep + " = 1\n", "[" + deep + "]\n", "[daemon]\ngroup = { " + deep + " = 1 }\n"})
        CHECK(refusal(text).find("dots in one line") != std::string::npos);
    CHECK(refusal("\n\n" + deep).compare(0, 12, "maru.toml:3:") == 0);
    const std::string some(900, '.');
    CHECK(parse_config("# " + some + "\n[daemon]\nlog_file = \"/" + some + "\"\n", "maru.toml"));
}

TEST_CASE("edit distance") {
    CHECK(edit_distance("", "") == 0);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("socket", "socket") == 0);
    CHECK(edit_distance("sokcet", "socket") == 1);
    CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("pools of the command line") {
    const auto config = load_config(with_pools({"shm:a:64MiB", "shm:b:1GiB"}));
    REQUIRE(config);
    REQUIRE(config->pools.size() == 2);
    CHECK(config->pools[0].name == "a");
    CHECK(config->pools[0].kind == pool::Kind::shm);
    CHECK(config->pools[0].size == 64 * MiB);
    CHECK(config->pools[1].size == GiB);
    CHECK_FALSE(config->embedded_default);
    CHECK(config->origins.at("pool.a") == "command line");
}

TEST_CASE("a pool of the command line that cannot be is refused with what was written") {
    for (const std::string text : {"",
                                   "shm",
                                   "shm:",
                                   "shm:a",
                                   "shm:a:",
                                   "shm::1GiB",
                                   "shm:a:b:1GiB",
                                   "shm:a/b:1GiB",
                                   "shm:a:-1",
                                   "shm:a:0",
                                   "shm:a:big",
                                   "ram:a:1GiB",
                                   "fsdax:/mnt/x",
                                   "fsdax:mnt:64GiB",
                                   "hugetlb:8GiB",
                                   "hugetlb:big:8GiB",
                                   "numa:2",
                                   "numa:two:64GiB",
                                   "numa:1,:64GiB",
                                   "numa:12345:64GiB",
                                   "SHM:a:1GiB"}) {
        CAPTURE(text);
        const auto config = load_config(with_pools({text}));
        REQUIRE_FALSE(config);
        CHECK(config.error().code == Code::invalid);
        check_contains(config.error().text, {"--pool " + text + ": "});
    }
    const auto twice = load_config(with_pools({"shm:a:1GiB", "shm:a:1GiB"}));
    REQUIRE_FALSE(twice);
    check_contains(twice.error().text, {"'a'", "command line"});
    for (const std::string text : {"devdax:", "devdax:dax0.0"}) {
        const auto devdax = load_config(with_pools({text}));
        REQUIRE_FALSE(devdax);
        check_contains(devdax.error().text, {"--pool " + text + ": ", "devdax:/dev/dax0.0"});
    }
}

TEST_CASE("the command line goes before the file, and its pools replace the file's") {
    const TemporaryFile file(
        "[daemon]\nsocket = \"/run/file.sock\"\nlog_level = \"error\"\nhost_id = \"x\"\n" + one_pool);
    CommandLine line;
    line.config_file = file.path();
    auto config = load_config(line);
    REQUIRE(config);
    CHECK(config->daemon.socket == "/run/file.sock");
    CHECK(config->daemon.log_level == "error");
    CHECK(config->pools.at(0).name == "shm0");
    CHECK_FALSE(config->embedded_default);

    line.socket = "/run/line.sock";
    line.log_level = "Debug";
    line.pools = {"shm:main:128MiB"};
    config = load_config(line);
    REQUIRE(config);
    CHECK(config->daemon.socket == "/run/line.sock");
    CHECK(config->daemon.log_level == "debug");
    CHECK(config->daemon.host_id == "x");
    REQUIRE(config->pools.size() == 1);
    CHECK(config->pools[0].name == "main");
    CHECK(config->origins.at("daemon.socket") == "command line");
    CHECK(config->origins.at("daemon.host_id") == file.path() + ":4");
    CHECK(config->origins.count("pool.shm0") == 0);

    line.log_level = "loud";
    const auto refused = load_config(line);
    REQUIRE_FALSE(refused);
    check_contains(refused.error().text, {"--log-level", "\"loud\"", "trace, debug"});
}

TEST_CASE("a relative --socket is meant from the current folder") {
    CommandLine line = with_pools({"shm:a:64MiB"});
    line.socket = "x.sock";
    const auto config = load_config(line);
    REQUIRE(config);
    CHECK(config->daemon.socket == (std::filesystem::current_path() / "x.sock").string());
}

TEST_CASE("control.pool may name a pool of the command line") {
    const TemporaryFile file("control.pool = \"b\"\n");
    CommandLine line = with_pools({"shm:a:64MiB", "shm:b:64MiB", "shm:c:64MiB"});
    line.config_file = file.path();
    auto config = load_config(line);
    REQUIRE(config);
    CHECK(config->pools[0].name == "b");
    CHECK(config->pools[1].name == "a");
    CHECK(config->pools[2].name == "c");
    line.pools = {"shm:a:64MiB"};
    const auto refused = load_config(line);
    REQUIRE_FALSE(refused);
    check_contains(refused.error().text, {file.path() + ":1: ", "\"b\""});
}

TEST_CASE("without a pool there is one that fits, and nothing is made") {
    const std::string path = pool::default_shm_path("default");
    const bool there = std::filesystem::exists(path);
    const auto config = load_config({});
    REQUIRE(config);
    REQUIRE(config->pools.size() == 1);
    CHECK(config->embedded_default);
    CHECK(config->pools[0].name == "default");
    CHECK(config->pools[0].kind == pool::Kind::shm);
    CHECK(config->pools[0].reserve);
    CHECK(std::filesystem::exists(path) == there);
    if (there) {
        CHECK(config->pools[0].size == std::filesystem::file_size(path));
    } else {
        const auto free = pool::free_bytes_of("/dev/shm");
        REQUIRE(free);
        CHECK(config->pools[0].size <= GiB);
        CHECK(config->pools[0].size <= *free / 4 + 2 * MiB);
        CHECK(config->pools[0].size % (2 * MiB) == 0);
    }
    const TemporaryFile file("[daemon]\nlog_level = \"debug\"\n");
    CommandLine line;
    line.config_file = file.path();
    const auto from_file = load_config(line);
    REQUIRE(from_file);
    CHECK(from_file->embedded_default);
}

TEST_CASE("a config file that cannot be read is an error with its name") {
    CommandLine line;
    for (const std::string path : {"/nonexistent/maru.toml", "/dev", "/dev/zero"}) {
        line.config_file = path;
        const auto config = load_config(line);
        REQUIRE_FALSE(config);
        check_contains(config.error().text, {path});
    }
    const TemporaryFile large("#" + std::string(2 * MiB, 'x'));
    line.config_file = large.path();
    const auto config = load_config(line);
    REQUIRE_FALSE(config);
    check_contains(config.error().text, {large.path(), "larger than 1.0 MiB"});
}

TEST_CASE("the socket: the first that applies") {
    const Variable no_socket("MARU_SOCKET", nullptr), no_runtime("RUNTIME_DIRECTORY", nullptr),
        no_session("XDG_RUNTIME_DIR", nullptr);
    const auto found = [](const Config& config) {
        const auto path = find_socket(config);
        REQUIRE(path);
        const auto same = socket_path(config);
        REQUIRE(same);
        CHECK(*same == path->path);
        return path->path + " " + path->origin;
    };
    Config config;
    const std::string mine = "/tmp/maru-" + std::to_string(::geteuid()) + "/maru.sock";
    const bool root = ::geteuid() == 0;
    CHECK(found(config) == (root ? "/run/maru/maru.sock default for root" : mine + " default"));
    const Variable session("XDG_RUNTIME_DIR", "/run/user/7");
    CHECK(found(config) ==
          (root ? "/run/maru/maru.sock default for root" : "/run/user/7/maru.sock $XDG_RUNTIME_DIR"));
    const Variable runtime("RUNTIME_DIRECTORY", "/run/one:/run/two");
    CHECK(found(config) == "/run/one/maru.sock $RUNTIME_DIRECTORY");
    const Variable socket("MARU_SOCKET", "/x/y.sock");
    CHECK(found(config) == "/x/y.sock $MARU_SOCKET");
    config = parsed("daemon.socket = \"/z.sock\"\n");
    CHECK(found(config) == "/z.sock maru.toml:1");
}

TEST_CASE("a socket path that no address holds is an error") {
    const Variable no_runtime("RUNTIME_DIRECTORY", nullptr);
    Config config;
    config.daemon.socket = "/" + std::string(106, 'x');
    CHECK(find_socket(config));
    config.daemon.socket += "x";
    const auto path = find_socket(config);
    REQUIRE_FALSE(path);
    CHECK(path.error().code == Code::too_large);
    check_contains(path.error().text, {config.daemon.socket, "108", "107"});
    config.daemon.socket.clear();
    const Variable relative("MARU_SOCKET", "maru.sock");
    const auto refused = socket_path(config);
    REQUIRE_FALSE(refused);
    check_contains(refused.error().text, {"\"maru.sock\"", "$MARU_SOCKET", "not absolute"});
}

TEST_CASE("a format lays down what the config says") {
    Config config = parsed(
        "[control]\nmax_objects = 500\nmax_clients = 9\nmax_hosts = 3\nmax_namespaces = 5\n"
        "max_pins = 128\nregion_size = \"4MiB\"\nmin_page = \"8KiB\"\n[checksum]\nmode = \"publish\"\n" +
        one_pool + one_pool);
    const auto plan = format_plan(config, {100 * MiB, 200 * MiB});
    CHECK(plan.records == 500);
    CHECK(plan.clients == 9);
    CHECK(plan.hosts == 3);
    CHECK(plan.namespaces == 5);
    CHECK(plan.pins == 128);
    CHECK(plan.region_unit == 4 * MiB);
    CHECK(plan.min_page == 8 * KiB);
    CHECK(plan.checksum == table::ChecksumMode::publish);
    CHECK(plan.coherence == table::Coherence::local);
    CHECK_FALSE(plan.domain.empty());
    REQUIRE(plan.pools.size() == 2);
    CHECK(plan.pools[0].bytes == 100 * MiB);
    CHECK(plan.pools[1].bytes == 200 * MiB);
    CHECK(plan.pools[1].name == "shm1");
    CHECK(plan.pools[1].kind == 3);
    CHECK_FALSE(plan.pools[0].uuid.empty());
    CHECK_FALSE(plan.pools[0].uuid == plan.pools[1].uuid);
}

TEST_CASE("--check-config says what is in effect, from where, and reads back as the same") {
    const Variable no_socket("MARU_SOCKET", nullptr);
    const TemporaryFile file(
        "[daemon]\ngroup = \"no-such-group-here\"\n[control]\nmax_clients = 10\n[[pool]]\nname = \"a\"\n"
        "kind = \"shm\"\nsize = \"64MiB\"\n[[pool]]\nname = \"b\"\nkind = \"shm\"\nsize = \"100MiB\"\n");
    CommandLine line;
    line.config_file = file.path();
    line.log_level = "debug";
    line.socket = "/x/maru.sock";
    const auto config = load_config(line);
    REQUIRE(config);
    const auto text = explain_config(*config, line);
    INFO((text ? std::string() : text.error().text));
    REQUIRE(text);
    INFO(*text);
    const auto lines = [&](const std::string& begin) {
        std::istringstream all(*text);
        std::vector<std::string> found;
        for (std::string one; std::getline(all, one);)
            if (one.compare(0, begin.size(), begin) == 0) found.push_back(one);
        return found;
    };
    check_contains(lines("max_clients").at(0), {"max_clients = 10 ", "# " + file.path() + ":4"});
    check_contains(lines("max_pins").at(0), {"max_pins = 65536 ", "# default"});
    check_contains(lines("max_pool_bytes").at(0), {"by the size of the pools"});
    check_contains(lines("log_level").at(0), {"\"debug\"", "# command line"});
    check_contains(lines("socket ").at(0), {"\"/x/maru.sock\"", "# command line"});
    check_contains(lines("group").at(0), {"no such group"});
    check_contains(lines("size").at(1), {"\"100MiB\"", file.path() + ":12"});
    check_contains(lines("# pool 'a'").at(0), {"64.0 MiB", "control region ", " units of "});
    check_contains(lines("# pool 'b'").at(0), {"100.0 MiB", " units of "});
    CHECK(lines("# control region").size() == 1);
    CHECK_FALSE(std::filesystem::exists(pool::default_shm_path("a")));

    const Config again = parsed(*text);
    for (const auto& key : config_keys()) {
        CAPTURE(key.name);
        const std::set<std::string> settled = {"control.pool", "control.max_objects", "control.region_size",
                                               "control.max_pool_bytes"};
        if (settled.count(key.name) == 0) CHECK(key.show(again) == key.show(*config));
    }
    const auto sizes = table::plan_control(format_plan(*config, {64 * MiB, 100 * MiB}));
    const auto same = table::plan_control(format_plan(again, {64 * MiB, 100 * MiB}));
    REQUIRE(sizes);
    REQUIRE(same);
    CHECK(sizes->control_bytes == same->control_bytes);
    CHECK(sizes->units_of_pool == same->units_of_pool);
}

TEST_CASE("--check-config of a pool that is too small for its control region is an error") {
    auto config = load_config(with_pools({"shm:tiny:64KiB"}));
    REQUIRE(config);
    config->daemon.socket = "/x";
    const auto text = explain_config(*config, {});
    REQUIRE_FALSE(text);
    check_contains(text.error().text, {"'tiny'", "64.0 KiB"});
}

TEST_CASE("conf/maru.toml shows every key with the default of the code") {
    std::ifstream in(MARU_SOURCE_ROOT "/conf/maru.toml");
    REQUIRE(in);
    std::string shipped, uncommented;
    for (std::string line; std::getline(in, line);) {
        shipped += line + "\n";
        const bool value = line.size() > 1 && line[0] == '#' && line[1] != ' ';
        uncommented += (value ? line.substr(1) : line) + "\n";
        CHECK(line.size() <= 115);
    }
    const Config as_shipped = parsed(shipped);
    CHECK(as_shipped.origins.empty());
    CHECK(as_shipped.pools.empty());

    const Config config = parsed(uncommented);
    for (const auto& key : config_keys()) {
        CAPTURE(key.name);
        CHECK(config.origins.count(key.name) == 1);
        CHECK(key.show(config) == key.show(Config{}));
    }
    REQUIRE(config.pools.size() == 1);
    pool::PoolConfig expected;
    expected.name = "shm0";
    expected.size = GiB;
    for (const auto& key : pool_keys()) {
        CAPTURE(key.name);
        CHECK(config.origins.count("pool.shm0." + key.name.substr(5)) == 1);
        CHECK(key.show(config.pools[0]) == key.show(expected));
    }
    REQUIRE(config.namespaces.size() == 1);
    NamespaceConfig default_namespace;
    default_namespace.name = "default";
    for (const auto& key : namespace_keys()) {
        CAPTURE(key.name);
        CHECK(config.origins.count("namespace.default." + key.name.substr(10)) == 1);
        CHECK(key.show(config.namespaces[0]) == key.show(default_namespace));
    }
}

TEST_CASE("log levels are read in any case, and nothing else is one") {
    for (const std::string level : {"trace", "debug", "info", "warn", "error"}) {
        const auto parsed_level = parse_log_level(level);
        REQUIRE(parsed_level);
        CHECK(*parsed_level == level);
    }
    CHECK(*parse_log_level("WARNING") == "warn");
    CHECK(*parse_log_level("eRRor") == "error");
    for (const std::string text : {"", "warnings", "off", "info ", "3"}) {
        const auto refused = parse_log_level(text);
        REQUIRE_FALSE(refused);
        check_contains(refused.error().text, {"\"" + text + "\"", "trace, debug, info, warn or error"});
    }
}

TEST_CASE("the log goes to its file, from its level up, and that can change") {
    const TemporaryFile file("");
    REQUIRE(start_log("info", file.path()));
    spdlog::debug("not yet");
    spdlog::info("one {}", 1);
    REQUIRE(set_log_level("debug"));
    spdlog::debug("now");
    spdlog::default_logger()->flush();
    CHECK_FALSE(set_log_level("loud"));
    CHECK_FALSE(start_log("loud", ""));
    const auto unwritable = start_log("info", "/proc/no-such-folder/maru.log");
    REQUIRE_FALSE(unwritable);
    check_contains(unwritable.error().text, {"/proc/no-such-folder/maru.log", "daemon.log_file"});
    spdlog::info("still here");  // a log that cannot be opened leaves the one there was
    spdlog::default_logger()->flush();
    std::ifstream in(file.path());
    std::ostringstream text;
    text << in.rdbuf();
    check_contains(text.str(), {" info one 1\n", " debug now\n", " info still here\n"});
    CHECK(text.str().find("not yet") == std::string::npos);
    REQUIRE(start_log("info", ""));
}
