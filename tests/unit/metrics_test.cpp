// Given a domain and clients that come, look up and go, then a scrape reads what they did, and never less.
#include <sys/mman.h>

#include <map>
#include <set>

#include "daemon/metrics/exposition.hpp"
#include "domain_fixture.hpp"

namespace maru::daemon {
namespace {

using table::Client;
using table::Domain;
using table::Identity;

/// A client under an instance id of the test's choice.
struct Instance {
    Instance(Domain& in, const std::string& name, std::uint32_t host = 0)
        : domain(in), identity(connect(in, name, host)), client(in, identity) {}
    static Identity connect(Domain& domain, const std::string& name, std::uint32_t host) {
        table::ClientFacts facts;
        facts.host = host;
        facts.instance_id = name;
        const auto identity = table::open_client(domain.control(), facts);
        REQUIRE(bool(identity));
        REQUIRE(table::activate_client(domain.control(), *identity));
        return *identity;
    }
    void miss(int times) {
        for (int i = 0; i < times; ++i)
            CHECK_FALSE(client.get("absent"));
    }
    /// As the reaper does it.
    void leave(InstanceUsage* usage) {
        REQUIRE(table::declare_dead(domain.control(), identity));
        usage->look_at_leaving(identity);
        table::sweep_dead(domain.daemon(), identity);
    }

    Domain& domain;
    Identity identity;
    Client client;
};

std::map<std::string, std::uint64_t> lookups_of(const InstanceUsage& usage) {
    std::map<std::string, std::uint64_t> lookups;
    for (const auto& row : usage.rows())
        lookups[row.instance] += row.lookups;
    return lookups;
}

std::uint64_t sum(const std::map<std::string, std::uint64_t>& counts) {
    std::uint64_t sum = 0;
    for (const auto& [name, count] : counts)
        sum += count;
    return sum;
}

TEST_CASE("lookups and hits count under the instance's name") {
    Domain domain;
    InstanceUsage usage(domain.control(), 0);
    Client& writer = domain.client();
    REQUIRE(writer.put("k", "value") == Code::ok);
    Instance reader(domain, "decode-0");
    CHECK(reader.client.get("k"));
    reader.miss(3);
    usage.look();
    REQUIRE(usage.rows().size() == 1);
    CHECK(usage.rows()[0].instance == "decode-0");
    CHECK(usage.rows()[0].lookups == 4);
    CHECK(usage.rows()[0].hits == 1);
    usage.look();
    CHECK(usage.rows()[0].lookups == 4);
}

TEST_CASE("what was counted before the daemon came is not counted again") {
    Domain domain;
    Instance reader(domain, "decode-0");
    reader.miss(5);
    InstanceUsage usage(domain.control(), 0);
    reader.miss(2);
    usage.look();
    CHECK(lookups_of(usage)["decode-0"] == 2);
}

TEST_CASE("an instance goes on in its row when it leaves and comes back") {
    Domain domain;
    InstanceUsage usage(domain.control(), 0);
    {
        Instance first(domain, "decode-0");
        first.miss(5);
        first.leave(&usage);  // without a look in between
    }
    usage.look();
    CHECK(lookups_of(usage)["decode-0"] == 5);
    Instance second(domain, "decode-0");
    usage.look();
    CHECK(lookups_of(usage)["decode-0"] == 5);
    second.miss(2);
    usage.look();
    CHECK(lookups_of(usage)["decode-0"] == 7);
}

TEST_CASE("clients of another host are that host's to count") {
    Domain domain;
    InstanceUsage usage(domain.control(), 0);
    Instance elsewhere(domain, "decode-0", 1);
    elsewhere.miss(5);
    usage.look();
    CHECK(usage.rows().empty());
}

TEST_CASE("only the busiest have names, and nothing that was counted is lost") {
    Domain domain({.pins = 200 * table::pins_per_chunk, .clients = 200});
    InstanceUsage usage(domain.control(), 0);
    std::vector<std::unique_ptr<Instance>> instances;
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < named_instances_max + 20; ++i) {
        instances.push_back(std::make_unique<Instance>(domain, "idle-" + std::to_string(i)));
        instances.back()->miss(1);
        ++expected;
    }
    usage.look();
    auto lookups = lookups_of(usage);
    CHECK(lookups.size() == named_instances_max + 1);
    CHECK(lookups["other"] == 20);
    CHECK(sum(lookups) == expected);

    Instance busy(domain, "busy");
    busy.miss(10);
    expected += 10;
    usage.look();
    lookups = lookups_of(usage);
    CHECK(lookups["busy"] == 10);
    CHECK(lookups["other"] == 21);
    CHECK(lookups.size() == named_instances_max + 1);
    CHECK(sum(lookups) == expected);

    // Whoever left gives up his name first, however busy he was; an equal of those with names gets none.
    busy.leave(&usage);
    Instance late(domain, "late");
    late.miss(1);
    usage.look();
    lookups = lookups_of(usage);
    CHECK(lookups["late"] == 1);
    CHECK(lookups.count("busy") == 0);
    CHECK(lookups["other"] == 31);
    Instance equal(domain, "equal");
    equal.miss(1);
    usage.look();
    CHECK(lookups_of(usage).count("equal") == 0);
    CHECK(sum(lookups_of(usage)) == expected + 2);
}

TEST_CASE("no row counts down, whatever happens") {
    Domain domain({.pins = 200 * table::pins_per_chunk, .clients = 200});
    InstanceUsage usage(domain.control(), 0);
    std::map<std::string, std::uint64_t> before;
    std::vector<std::unique_ptr<Instance>> instances;
    for (int round = 0; round < 300; ++round) {
        instances.push_back(std::make_unique<Instance>(domain, "engine-" + std::to_string(round * 7 % 90)));
        instances.back()->miss(1 + round % 13);
        if (round % 3 == 0) usage.look();
        if (instances.size() > 80) {
            instances.front()->leave(&usage);
            instances.erase(instances.begin());
        }
        const auto now = lookups_of(usage);
        CHECK(sum(now) >= sum(before));
        CHECK(now.size() <= named_instances_max + 1);
        if (before.count("other") != 0) CHECK(now.at("other") >= before["other"]);
        before = now;
    }
}

TEST_CASE("an instance that calls itself other counts among them") {
    Domain domain;
    InstanceUsage usage(domain.control(), 0);
    Instance named(domain, "other");
    named.miss(3);
    usage.count_expired(named.identity.slot, 2);
    usage.look();
    REQUIRE(usage.rows().size() == 1);
    CHECK(usage.rows()[0].lookups == 3);
    CHECK(usage.rows()[0].expired_key_pins == 2);
}

struct Scrape {
    explicit Scrape(const Domain& domain, std::vector<InstanceUsage::Row> rows = {}) {
        DaemonFacts facts;
        facts.version = "1.2.3";
        facts.commit = "0123abc";
        Census census(domain.control());
        while (!census.refresh(deadline_after(std::chrono::milliseconds(100)))) {
        }
        text = expose({domain.control(), facts, census.latest(), std::move(rows)});
    }
    bool has(const std::string& line) const { return text.find(line + "\n") != std::string::npos; }
    std::string text;
};

TEST_CASE("a scrape tells what is in the pools") {
    Domain domain;
    Client& writer = domain.client();
    REQUIRE(writer.put("k", "value") == Code::ok);
    const auto page = writer.alloc();
    const auto view = writer.hold("k");
    const Scrape scrape(domain);
    CAPTURE(scrape.text);
    CHECK(scrape.has("maru_build_info{version=\"1.2.3\",commit=\"0123abc\"} 1"));
    CHECK(scrape.has("maru_pool_bytes{pool=\"test\",state=\"published\"} 262144"));
    CHECK(scrape.has("maru_pool_bytes{pool=\"test\",state=\"reserved\"} 262144"));
    CHECK(scrape.has("maru_pool_pinned_bytes{pool=\"test\"} 262144"));
    CHECK(scrape.has("maru_regions{pool=\"test\",state=\"held\"} 1"));
    CHECK(scrape.has("maru_pins{kind=\"lease\"} 1"));
    CHECK(scrape.has("maru_stores_total 1"));
    CHECK(scrape.has("maru_domain_hits_total 1"));
    CHECK(scrape.has("maru_request_seconds_count{kind=\"claim\"} 0"));
    // Nothing expired and nobody has looked up by name: no such rows.
    CHECK(scrape.text.find("maru_expired_key_pins_total") == std::string::npos);
    writer.worker.release(view.token);
    writer.worker.free(page);
}

TEST_CASE("a scrape writes nothing to shared memory") {
    Domain domain;
    InstanceUsage usage(domain.control(), 0);
    Client& writer = domain.client();
    REQUIRE(writer.put("k", "value") == Code::ok);
    CHECK(writer.get("k"));
    const auto memory = domain.control_memory();
    REQUIRE(::mprotect(memory.data(), memory.size(), PROT_READ) == 0);
    usage.look();
    const Scrape scrape(domain, usage.rows());  // a write would end the program
    REQUIRE(::mprotect(memory.data(), memory.size(), PROT_READ | PROT_WRITE) == 0);
    CHECK(scrape.has("maru_domain_lookups_total 1"));
}

TEST_CASE("names that would break the format do not") {
    Domain domain;
    InstanceUsage usage(domain.control(), 0);
    const std::string hostile =
        "a\"b\\c\nd\xff"
        "e} 1\nmaru_stores_total 99";
    Instance reader(domain, hostile);
    reader.miss(1);
    usage.look();
    const Scrape scrape(domain, usage.rows());
    CAPTURE(scrape.text);
    CHECK(scrape.text.find("\nmaru_stores_total 99") == std::string::npos);
    CHECK(
        scrape.text.find("instance=\"a\\\"b\\\\\\\\c\\\\x0ad\\\\xffe} 1\\\\x0amaru_stores_total 99\"} 1\n") !=
        std::string::npos);
}

}  // namespace
}  // namespace maru::daemon
