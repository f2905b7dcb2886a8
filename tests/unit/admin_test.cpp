// Given a domain with clients and objects, when an administrator asks, then the JSON says what is there.
#include "daemon/admin.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "daemon/admin/census.hpp"
#include "domain_fixture.hpp"
#include "wire/key_text.hpp"

namespace maru::daemon {
namespace {

using nlohmann::json;
using table::Client;
using table::Domain;

/// A daemon's answers over a domain of a test.
struct Desk {
    explicit Desk(const Domain& of) : domain(of) {
        admin.emplace(config, domain.control(), facts);
        facts.version = "1.2.3";
        facts.pid = 77;
        facts.socket = "/run/test.sock";
        facts.event_backend = "io_uring";
        facts.first_sweep_done = true;
    }

    json ask(const std::string& command, const std::string& arguments = "") {
        if (counted_slowly)
            admin.emplace(config, domain.control(), facts);  // such a count is good for a second
        counted_slowly = false;
        json answer = ask_once(command, arguments);
        if (arguments.empty()) ask_on(command, &answer);
        return answer;
    }
    json ask_once(const std::string& command, const std::string& arguments) {
        const auto answer = admin->answer(command, arguments);
        REQUIRE_MESSAGE(bool(answer), (answer ? "" : answer.error().text));
        return json::parse(*answer);
    }
    /// On a slow machine an answer ends when its time does: the rest is asked for.
    void ask_on(const std::string& command, json* answer) {
        for (int part = 0; part < 1000 && answer->value("complete", true) == false; ++part) {
            *answer = ask_once(command, "");
            counted_slowly = true;
        }
        for (int part = 0; part < 1000 && answer->contains("next") && !(*answer)["next"].is_null(); ++part) {
            const json more = ask_once(command, json{{"cursor", (*answer)["next"]}}.dump());
            for (const auto& [name, rows] : more.items())
                if (rows.is_array())
                    (*answer)[name].insert((*answer)[name].end(), rows.begin(), rows.end());
                else
                    (*answer)[name] = rows;
        }
    }
    Error refusal(const std::string& command, const std::string& arguments = "") {
        const auto answer = admin->answer(command, arguments);
        REQUIRE_FALSE(bool(answer));
        return answer.error();
    }
    /// All keys, in parts of `limit`.
    std::vector<json> all_keys(std::uint64_t limit, std::size_t* parts, const std::string& prefix_hex = "") {
        std::vector<json> keys;
        json arguments{{"limit", limit}};
        if (!prefix_hex.empty()) arguments["prefix_hex"] = prefix_hex;
        for (*parts = 1; *parts < 10'000; ++*parts) {
            const auto part = ask("keys", arguments.dump());
            CHECK(part["keys"].size() <= limit);
            for (const auto& key : part["keys"])
                keys.push_back(key);
            if (part["next"].is_null()) break;
            arguments["cursor"] = part["next"];
        }
        return keys;
    }

    Config config;
    DaemonFacts facts;
    const Domain& domain;
    std::optional<Admin> admin;
    bool counted_slowly = false;
};

bool has_warning(const json& status, const std::string& kind) {
    for (const auto& warning : status["warnings"])
        if (warning["kind"] == kind) return !warning["text"].empty() && !warning["remedy"].empty();
    return false;
}

TEST_CASE("status counts objects and bytes by state") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    REQUIRE(engine.put("first", "abc") == Code::ok);
    REQUIRE(engine.put("second", "defgh") == Code::ok);
    const auto reserved = engine.alloc();

    const auto status = desk.ask("status");
    CHECK(status["complete"] == true);
    CHECK(status["daemon"]["version"] == "1.2.3");
    CHECK(status["daemon"]["pid"] == 77);
    CHECK(status["daemon"]["socket"] == "/run/test.sock");
    CHECK(status["daemon"]["event_backend"] == "io_uring");
    CHECK(status["domain"]["uuid"] == domain.control().domain().text());
    CHECK(status["domain"]["coherence"] == "local");
    CHECK(status["objects"]["count"] == 2);
    CHECK(status["objects"]["value_bytes"] == 8);
    CHECK(status["pages"]["total"] == 8);
    CHECK(status["pages"]["free"] == 5);
    CHECK(status["bytes"]["published"] == 2 * 256 * KiB);
    CHECK(status["bytes"]["reserved"] == 256 * KiB);
    CHECK(status["bytes"]["free"] == 5 * 256 * KiB);
    CHECK(status["bytes"]["pinned"] == 0);
    CHECK(status["clients"]["active"] == 1);
    CHECK(status["counters"]["stores"] == 2);
    CHECK(status["pools"].size() == 1);
    const auto& bytes = status["bytes"];
    std::uint64_t sum = 0;
    for (const char* state :
         {"unclaimed", "free", "reserved", "published", "retired", "quarantined", "sealed", "bad", "slack"})
        sum += bytes[state].get<std::uint64_t>();
    CHECK(sum == bytes["total"].get<std::uint64_t>());

    CHECK(engine.worker.free(reserved) == Code::ok);
    CHECK(desk.ask("status")["pages"]["free"] == 6);
}

TEST_CASE("status tells the hit rate and what is pinned") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    CHECK(desk.ask("status")["counters"]["hit_rate"].is_null());
    REQUIRE(engine.put("hot", "x") == Code::ok);
    Client& reader = domain.reader();
    const auto view = reader.hold("hot");
    CHECK_FALSE(reader.get("cold").has_value());

    const auto status = desk.ask("status");
    CHECK(status["counters"]["lookups"] == 2);
    CHECK(status["counters"]["hits"] == 1);
    CHECK(status["counters"]["hit_rate"] == doctest::Approx(0.5));
    CHECK(status["bytes"]["pinned"] == 256 * KiB);
    CHECK(status["pins"]["leases"] == 1);

    CHECK(reader.worker.release(view.token) == Code::ok);
    CHECK(desk.ask("status")["bytes"]["pinned"] == 0);
}

TEST_CASE("status names who holds quarantined bytes") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    const auto reserved = engine.alloc();
    CHECK_FALSE(has_warning(desk.ask("status"), "quarantined"));

    REQUIRE(table::quarantine_client(domain.control(), engine.identity));
    const auto status = desk.ask("status");
    CHECK(status["bytes"]["quarantined"] == 256 * KiB);
    CHECK(status["bytes"]["reserved"] == 0);
    CHECK(status["clients"]["quarantined"] == 1);
    CHECK(has_warning(status, "quarantined"));

    domain.bury(engine);
    const auto after = desk.ask("status");
    CHECK(after["bytes"]["quarantined"] == 0);
    CHECK_FALSE(has_warning(after, "quarantined"));
    CHECK(reserved.record != 0);
}

TEST_CASE("a full pool warns when nothing can be evicted, and when nothing may be") {
    table::Shape shape;
    shape.pool_bytes = 8 * MiB;
    Domain domain(shape);
    Desk desk(domain);
    std::vector<table::Page> held;
    Client& engine = domain.client();
    while (true) {
        table::Page page;
        if (engine.worker.alloc_from(engine.regions, {table::page_of_256k, 0}, &page) == Code::ok) {
            held.push_back(page);
            continue;
        }
        std::string warning;
        const auto region = table::claim_region(domain.daemon(), {table::page_of_256k, 0},
                                                engine.identity.holder_word(), false, &warning);
        if (!region) break;
        engine.regions.push_back(region->number);
    }
    REQUIRE_FALSE(held.empty());
    CHECK(has_warning(desk.ask("status"), "full"));
    for (const auto& page : held)
        CHECK(engine.worker.free(page) == Code::ok);
    CHECK_FALSE(has_warning(desk.ask("status"), "full"));
}

TEST_CASE("pools, regions and namespaces add up") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    domain.claim(engine);
    REQUIRE(engine.put("key", "value") == Code::ok);

    const auto pools = desk.ask("pools")["pools"];
    REQUIRE(pools.size() == 1);
    CHECK(pools[0]["name"] == "test");
    CHECK(pools[0]["regions"] == 2);
    CHECK(pools[0]["bytes"]["published"] == 256 * KiB);
    CHECK(pools[0]["bytes"]["unclaimed"] == (pools[0]["units"].get<std::uint64_t>() - 2) * 2 * MiB);

    const auto regions = desk.ask("regions");
    REQUIRE(regions["regions"].size() == 2);
    CHECK(regions["next"].is_null());
    CHECK(regions["regions"][0]["page_bytes"] == 256 * KiB);
    CHECK(regions["regions"][0]["page_count"] == 8);
    CHECK(regions["regions"][0]["holder"]["slot"] == engine.identity.slot);
    const auto part = desk.ask("regions", R"({"limit": 1})");
    REQUIRE(part["regions"].size() == 1);
    const auto rest = desk.ask("regions", json{{"cursor", part["next"]}}.dump());
    REQUIRE(rest["regions"].size() == 1);
    CHECK(rest["regions"][0]["region"] != part["regions"][0]["region"]);

    const auto namespaces = desk.ask("namespaces")["namespaces"];
    REQUIRE(namespaces.size() == 1);
    CHECK(namespaces[0]["objects"] == 1);
    CHECK(namespaces[0]["value_bytes"] == 5);
}

TEST_CASE("clients show their memory, pins and counters") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    REQUIRE(engine.put("key", "value") == Code::ok);
    const auto reserved = engine.alloc();
    const auto view = engine.hold("key");

    const auto clients = desk.ask("clients")["clients"];
    REQUIRE(clients.size() == 2);
    const auto& row = clients[0]["slot"] == engine.identity.slot ? clients[0] : clients[1];
    const auto& daemon = clients[0]["slot"] == engine.identity.slot ? clients[1] : clients[0];
    CHECK(daemon["is_daemon"] == true);
    CHECK(row["state"] == "ACTIVE");
    CHECK(row["regions"] == 1);
    CHECK(row["region_bytes"] == 2 * MiB);
    CHECK(row["reserved_bytes"] == 256 * KiB);
    CHECK(row["leases"] == 1);
    CHECK(row["counters"]["stores"] == 1);
    CHECK(row["counters"]["hits"] == 1);
    CHECK(engine.worker.release(view.token) == Code::ok);
    CHECK(engine.worker.free(reserved) == Code::ok);

    std::set<int> slots;
    json arguments{{"limit", 1}};
    for (int part = 0; part < 10; ++part) {
        const auto answer = desk.ask("clients", arguments.dump());
        for (const auto& client : answer["clients"])
            CHECK(slots.insert(client["slot"].get<int>()).second);
        if (answer["next"].is_null()) break;
        arguments["cursor"] = answer["next"];
    }
    CHECK(slots.size() == 2);
}

TEST_CASE("keys come in parts, each exactly once") {
    table::Shape shape;
    shape.records = 4096;
    Domain domain(shape);
    Desk desk(domain);
    Client& engine = domain.client();
    std::set<std::string> stored;
    for (int i = 0; stored.size() < 40; ++i) {
        if (i % 8 == 0 && i > 0) domain.claim(engine);
        const std::string key = (i % 2 == 0 ? "even/" : "odd/") + std::to_string(i);
        REQUIRE(engine.put(key, std::string(static_cast<std::size_t>(i), 'v')) == Code::ok);
        stored.insert(key);
    }
    for (const std::uint64_t limit : {1u, 7u, 40u, 1000u}) {
        std::size_t parts = 0;
        std::set<std::string> seen;
        for (const auto& row : desk.all_keys(limit, &parts)) {
            CHECK(seen.insert(row["key"].get<std::string>()).second);
            CHECK(row["key_complete"] == true);
            CHECK(row["state"] == "PUBLISHED");
        }
        CHECK(seen == stored);
        CHECK(parts >= 40 / limit);
    }
    std::size_t parts = 0;
    const auto even = desk.all_keys(3, &parts, wire::hex_of("even/"));
    CHECK(even.size() == 20);
    for (const auto& row : even)
        CHECK(row["key"].get<std::string>().rfind("even/", 0) == 0);
    CHECK(desk.all_keys(3, &parts, wire::hex_of("none")).empty());
}

TEST_CASE("keys show size, pins and place; removed ones are gone") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    const auto page = engine.put_and_hold("key", "12345");
    Client& reader = domain.reader();
    const auto view = reader.hold("key");

    const auto row = desk.ask("keys")["keys"][0];
    CHECK(row["size"] == 5);
    CHECK(row["leases"] == 2);
    CHECK(row["key_pins"] == 0);
    CHECK(row["region"] == page.location.region);
    CHECK(row["page"] == page.location.page_index);
    CHECK(row["page_bytes"] == 256 * KiB);

    CHECK(engine.worker.free(page) == Code::ok);
    CHECK(engine.remove("key") == table::DeleteResult::deleted);
    CHECK(desk.ask("keys")["keys"].empty());
    CHECK(desk.ask("status")["bytes"]["retired"] == 256 * KiB);
    CHECK(reader.worker.release(view.token) == Code::ok);
}

TEST_CASE("keys of any bytes are shown safely and can be written back") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    const std::string binary("\x00\xff\x1b[2J\n", 7);
    const std::string integer = wire::integer_key(-42);
    const std::string long_key(4096, 'k');
    for (const auto& key :
         {binary, integer, long_key, std::string("gr\xc3\xbc\xc3\x9f"), std::string("hex:zz")})
        REQUIRE(engine.put(key, "v") == Code::ok);

    std::set<std::string> shown;
    const auto answer = desk.ask("keys");
    for (const auto& row : answer["keys"]) {
        const auto text = row["key"].get<std::string>();
        CHECK(wire::is_printable(text));
        if (row["key_complete"] == true) {
            CHECK(wire::hex_of(*wire::parse_key(text)) == row["key_hex"]);
            shown.insert(text);
        } else {
            CHECK(row["key_length"] == 4096);
            CHECK(row["key_hex"].get<std::string>().size() == 2 * table::key_inline_max);
        }
    }
    CHECK(shown ==
          std::set<std::string>{"hex:00ff1b5b324a0a", "int:-42", "gr\xc3\xbc\xc3\x9f", "hex:6865783a7a7a"});
}

TEST_CASE("wrong commands and arguments are refused with what would be right") {
    Domain domain;
    Desk desk(domain);
    const auto refused = [&](const std::string& command, const std::string& arguments,
                             const std::string& says) {
        const auto error = desk.refusal(command, arguments);
        CHECK(error.code == Code::invalid);
        CHECK_MESSAGE(error.text.find(says) != std::string::npos, error.text);
    };
    refused("statsu", "", "status");
    refused("", "", "unknown");
    refused(std::string(100'000, 'x'), "", "unknown");
    refused("keys", "[1]", "JSON object");
    refused("keys", "{", "JSON object");
    refused("keys", std::string(100'000, '['), "allowed");
    refused("keys", std::string(5'000, '['), "allowed");
    refused("keys", std::string(4'000, '['), "JSON object");
    refused("keys", R"({"limit": 0})", "whole number");
    refused("keys", R"({"limit": -1})", "whole number");
    refused("keys", R"({"limit": 1.5})", "whole number");
    refused("keys", R"({"limit": "all"})", "whole number");
    refused("keys", R"({"cursor": null})", "whole number");
    const std::string deep = std::string(2'000, '[') + std::string(2'000, ']');
    refused("keys", R"({"cursor": )" + deep + "}", "is array; it takes a whole number");
    refused("keys", R"({"prefix_hex": )" + deep + "}", "is array; it takes a string");
    refused("keys", R"({"prefix_hex": "0"})", "two digits");
    refused("keys", R"({"prefix_hex": "zz"})", "hexadecimal");
    refused("keys", R"({"prefix_hex": 7})", "string");
    refused("keys", json{{"prefix_hex", std::string(242, 'a')}}.dump(), "120");
    refused("keys", R"({"perfix": "a"})", "perfix");
    refused("status", R"({"limit": 1})", "limit");
    refused("regions", R"({"prefix_hex": "00"})", "prefix_hex");
    // Cursors beyond the end are the end.
    const auto past = desk.ask("keys", R"({"cursor": 18446744073709551615})");
    CHECK(past["keys"].empty());
    CHECK(past["next"].is_null());
    CHECK(desk.ask("clients", R"({"cursor": 18446744073709551615})")["next"].is_null());
    CHECK(desk.ask("regions", R"({"cursor": 18446744073709551615})")["next"].is_null());
    CHECK(desk.ask("keys", R"({"limit": 18446744073709551615})")["keys"].empty());
}

TEST_CASE("a count that is cut into slices comes to the same numbers") {
    Domain domain;
    Client& engine = domain.client();
    domain.claim(engine, 1);  // 512 pages of 4 KiB: several steps
    REQUIRE(engine.put("key", "value") == Code::ok);
    const auto view = engine.hold("key");

    Census census(domain.control());
    int calls = 1;
    while (!census.refresh(MonotonicClock::now())) {
        CHECK(census.latest().regions.empty());
        REQUIRE(++calls < 1000);
    }
    CHECK(calls > 3);
    REQUIRE(census.latest().regions.size() == 2);
    const auto& first = census.latest().regions[0].pages;
    CHECK(first.published == 1);
    CHECK(first.pinned == 1);
    CHECK(first.free == 7);
    CHECK(census.latest().regions[1].pages.free == 512);
    CHECK(census.records_done() == 520);
    CHECK(census.latest().leases == 1);
    // It is kept for a while, so that one who asks for all parts of a list does not start it over.
    CHECK(census.refresh(MonotonicClock::now()));
    CHECK(census.latest().regions.size() == 2);
    CHECK(engine.worker.release(view.token) == Code::ok);
}

TEST_CASE("ping tells who answers") {
    Domain domain;
    Desk desk(domain);
    const auto answer = desk.ask("ping");
    CHECK(answer["version"] == "1.2.3");
    CHECK(answer["pid"] == 77);
    CHECK(answer["page_bytes_max"] == table::page_bytes_max(domain.control()));
}

TEST_CASE("check is clean for a sound domain and has findings for a damaged one") {
    Domain domain;
    Client& engine = domain.client();
    REQUIRE(engine.put("key", "value") == Code::ok);
    const auto clean = json::parse(check_domain(domain.control()));
    CHECK(clean["clean"] == true);
    CHECK(clean["findings"].empty());
    CHECK(clean["objects"] == 1);
    CHECK(clean["pages"]["PUBLISHED"] == 1);

    const auto view = engine.hold("key");
    CHECK(engine.worker.release(view.token) == Code::ok);
    domain.expect_damage();
    domain.set_phase(view.record, table::Phase::free);
    const auto damaged = json::parse(check_domain(domain.control()));
    CHECK(damaged["clean"] == false);
    CHECK(damaged["findings_total"].get<int>() >= 1);
    REQUIRE_FALSE(damaged["findings"].empty());
    CHECK_FALSE(damaged["findings"][0]["what"].get<std::string>().empty());
    CHECK_FALSE(damaged["findings"][0]["where"].get<std::string>().empty());
}

TEST_CASE("damaged shared memory gives an answer, not a crash") {
    Domain domain;
    Desk desk(domain);
    Client& engine = domain.client();
    REQUIRE(engine.put("key", "value") == Code::ok);
    const auto view = engine.hold("key");
    CHECK(engine.worker.release(view.token) == Code::ok);
    domain.expect_damage();
    auto& control = domain.control();
    auto& record = control.record(view.record);
    record.key_length.store(60'000, shm::relaxed);
    record.length.store(~0ull, shm::relaxed);
    record.region.store(~0u, shm::relaxed);
    record.name_space.store(0xffff, shm::relaxed);
    control.client(engine.identity.slot).instance_id.set("\xff\xfe\x1b]0;title");
    control.super().pin_high_water.store(~0ull, shm::relaxed);
    control.pool(0).name.set("\xc3");
    control.pool(0).kind.store(99, shm::relaxed);
    control.pool(0).state.store(99, shm::relaxed);

    for (const char* command : {"status", "pools", "regions", "clients", "namespaces", "keys"}) {
        const auto text = desk.ask(command).dump();
        CHECK_MESSAGE(text.find('\x1b') == std::string::npos, command);
    }
    CHECK(desk.ask("status")["objects"]["value_bytes"].get<std::uint64_t>() <= 256 * KiB);
    CHECK(desk.ask("keys")["keys"].empty());
}

TEST_CASE("keys are read as they are written") {
    using wire::parse_key;
    CHECK(*parse_key("plain") == "plain");
    CHECK(*parse_key("hex:00fF") == std::string("\x00\xff", 2));
    CHECK(*parse_key("int:42") == std::string("\0i\x2a\0\0\0\0\0\0\0", 10));
    CHECK(*parse_key("int:42") != *parse_key("42"));
    CHECK(*parse_key("int:-1") == std::string("\0i\xff\xff\xff\xff\xff\xff\xff\xff", 10));
    for (const char* wrong :
         {"hex:0", "hex:0g", "int:", "int:1.5", "int:9223372036854775808", "int: 1", "int:0x10"})
        CHECK_FALSE_MESSAGE(bool(parse_key(wrong)), wrong);
    for (const auto& key :
         {std::string("a b"), std::string("\x7f"), std::string("\xc2\x9b"), std::string("\xe2\x80\xae"),
          std::string("\xed\xa0\x80"), std::string("\xf4\x90\x80\x80"), std::string("a\\n"),
          std::string(1, '\0'), std::string("\xc3")}) {
        const auto text = wire::key_text(key);
        CHECK(wire::is_printable(text));
        CHECK(*parse_key(text) == key);
    }
    CHECK(wire::printable("a\\\n\x1b") == "a\\\\\\x0a\\x1b");
}

}  // namespace
}  // namespace maru::daemon
