// [[namespace]]: what is read, what is refused and in which words.
#include <doctest/doctest.h>

#include "base/size.hpp"
#include "config_words.hpp"
#include "daemon/principals.hpp"

using namespace maru;
using namespace maru::daemon;

TEST_CASE("namespaces are read with quota and rules, and their lines are kept") {
    const auto config = parse_config(
        "[[namespace]]\nname = \"default\"\nquota = \"1GiB\"\n"
        "[[namespace]]\nname = \"team-a\"\nuids = [\"root\", 1001, 0]\ngids = [\"root\"]\n"
        "readonly_gids = [2000]\n",
        "maru.toml");
    REQUIRE(config);
    REQUIRE(config->namespaces.size() == 2);
    CHECK(config->namespaces[0].name == "default");
    CHECK(config->namespaces[0].policy.quota == GiB);
    CHECK(config->namespaces[0].policy.rules == table::NamespaceRules{});
    const table::NamespaceRules rules{{0, 1001}, {0}, {2000}};  // whoever is named twice counts once
    CHECK(config->namespaces[1].policy.rules == rules);
    CHECK(config->namespaces[1].policy.quota == 0);
    CHECK(config->origins.at("namespace.team-a.uids") == "maru.toml:6");
    CHECK(parse_config("namespace = []", "maru.toml"));
}

TEST_CASE("a wrong namespace is an error with its line and what is allowed") {
    const std::string head = "[[namespace]]\nname = \"a\"\n";
    check_refused("[[namespace]]\nquota = 1\n", {"maru.toml:1: ", "has no name"});
    check_refused(head + "qouta = 1\n", {"maru.toml:3: ", "unknown key namespace.qouta", "namespace.quota"});
    check_refused("[[namespce]]\nname = \"a\"\n", {"maru.toml:1: ", "did you mean [[namespace]]?"});
    check_refused("[namespace]\nname = \"a\"\n", {"maru.toml:1: ", "write each as [[namespace]]"});
    check_refused(head + "quota = \"much\"\n", {"maru.toml:3: namespace.quota = \"much\"", "a size"});
    check_refused(head + "quota = -1\n", {"maru.toml:3: namespace.quota = -1"});
    check_refused("[[namespace]]\nname = \"\"\n", {"maru.toml:2: namespace.name", "1 to 63 bytes"});
    check_refused("[[namespace]]\nname = \"a b\"\n", {"maru.toml:2: namespace.name", "without blanks"});
    check_refused("[[namespace]]\nname = \"" + std::string(64, 'x') + "\"\n", {"namespace.name", "1 to 63"});
    check_refused("[[namespace]]\nname = 5\n", {"maru.toml:2: namespace.name = 5"});
    check_refused(head + "uids = 5\n", {"maru.toml:3: namespace.uids = 5", "a list of users"});
    check_refused(
        head + "uids = [\"no-such-user-here\"]\n",
        {"maru.toml:3: namespace.uids: there is no user \"no-such-user-here\" here", "getent passwd"});
    check_refused(head + "gids = [\"no-such-group-here\"]\n",
                  {"namespace.gids: there is no group \"no-such-group-here\"", "getent group"});
    check_refused(head + "readonly_gids = [4294967295]\n", {"namespace.readonly_gids", "0 to 4294967294"});
    check_refused(head + "gids = [-1]\n", {"namespace.gids", "-1"});
    check_refused(head + "gids = [true]\n", {"namespace.gids", "neither a name nor a number"});
    check_refused(head + head, {"maru.toml:3: namespace name 'a' is taken", "maru.toml:1"});
    check_refused(head + "uids = [1,2,3,4,5,6,7,8,9]\ngids = [1,2,3,4,5,6,7,8]\n",
                  {"maru.toml:1: ", "at most 16", "these name 17"});
}

TEST_CASE("more namespaces than control.max_namespaces are refused; default is always one") {
    const std::string three =
        "[control]\nmax_namespaces = 2\n[[namespace]]\nname = \"default\"\n"
        "[[namespace]]\nname = \"a\"\n";
    CHECK(parse_config(three, "maru.toml"));
    check_refused(three + "[[namespace]]\nname = \"b\"\n",
                  {"maru.toml:7: namespace 'b' is one too many", "control.max_namespaces = 2"});
}

TEST_CASE("--check-config shows namespaces and reads back as the same") {
    CommandLine line;
    auto config = parse_config(
        "[daemon]\nsocket = \"/x/s\"\n[[pool]]\nkind = \"shm\"\nsize = \"64MiB\"\n[[namespace]]\nname = "
        "\"a\"\n"
        "quota = \"10MiB\"\nreadonly_gids = [7]\n",
        "maru.toml");
    REQUIRE(config);
    const auto text = explain_config(*config, line);
    REQUIRE(text);
    INFO(*text);
    CHECK(text->find("quota = \"10MiB\"") != std::string::npos);
    CHECK(text->find("# maru.toml:8") != std::string::npos);
    const auto again = parse_config(*text, "again.toml");
    REQUIRE(again);
    REQUIRE(again->namespaces.size() == 1);
    CHECK(again->namespaces[0].policy.quota == 10 * MiB);
    CHECK(again->namespaces[0].policy.rules.readers == std::vector<std::uint32_t>{7});
}

TEST_CASE("users and groups are taken by name and by number") {
    CHECK(*parse_principal(Principal::user, "root") == 0);
    CHECK(*parse_principal(Principal::group, "root") == 0);
    CHECK(*parse_principal(Principal::user, "4294967294") == principal_max);
    for (const std::string text : {"4294967295", "99999999999999999999", "", "no-such-one-here", "-1"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_principal(Principal::user, text));
    }
}
