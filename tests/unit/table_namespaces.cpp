// Namespaces in the table: made, changed and forgotten; what they hold; what a flush takes and what it
// leaves.
#include "domain_fixture.hpp"
#include "table/namespaces.hpp"
#include "table/repair.hpp"

namespace maru::table {
namespace {

/// A namespace with a region of its own, and one writer.
struct Tenant {
    Tenant(Domain& of, const std::string& name, std::uint64_t quota = 0)
        : control(of.control()),
          id(make_namespace(control, name, {quota, {}, false}).value()),
          client(of.reader()) {
        const auto region =
            claim_region(of.daemon(), wanted(), client.identity.holder_word(), false, nullptr);
        REQUIRE(bool(region));
        regions.push_back(region->number);
    }
    PageClass wanted() const { return {page_of_256k, id}; }
    Page store(const std::string& key) {
        Page page;
        REQUIRE(client.worker.alloc_from(regions, wanted(), &page) == Code::ok);
        REQUIRE(client.worker.publish(control.key(id, key), page, 8) == Code::ok);
        return page;
    }
    void put(const std::string& key) {
        const Page page = store(key);
        CHECK(client.worker.free(page) == Code::ok);
    }
    bool has(const std::string& key) { return client.worker.exists(control.key(id, key)); }
    Flushed flush(Domain& domain, bool dry = false) {
        if (!dry) begin_flush(control, id);
        return look(domain, dry);
    }
    Flushed look(Domain& domain, bool dry = false) {
        Flushed seen;
        for (std::uint32_t number = 0; number < control.region_count(); ++number)
            if (const auto view = read_region(control, number); view && view->name_space == id)
                flush_records(domain.daemon(), id, view->first_record, view->page_count, dry, &seen);
        return seen;
    }
    const Control& control;
    const std::uint32_t id;
    Client& client;
    std::vector<std::uint32_t> regions;
};

constexpr std::uint64_t page_bytes = std::uint64_t{page_of_256k} * page_align;

}  // namespace

TEST_SUITE("table namespaces") {
    TEST_CASE("one is made with what was decided, changed as a whole, and forgotten") {
        Domain domain;
        const Control& control = domain.control();
        NamespacePolicy policy{5 * MiB, {{1001}, {7, 8}, {9}}, true};
        const auto id = make_namespace(control, "team", policy);
        REQUIRE(bool(id));
        CHECK(*id == 1);
        CHECK(find_namespace(control, "team") == 1u);
        CHECK(find_namespace(control, "default") == 0u);
        CHECK_FALSE(find_namespace(control, "other"));
        const auto made = read_namespace(control, *id);
        REQUIRE(made);
        CHECK(made->policy.quota == 5 * MiB);
        CHECK(made->policy.rules == policy.rules);
        CHECK(made->policy.by_administrator);
        for (const NamespaceRules& rules : {NamespaceRules{{}, {}, {3}}, NamespaceRules{{1, 2, 3}, {}, {}},
                                            NamespaceRules{std::vector<std::uint32_t>(16, 4), {}, {}}}) {
            set_policy(control, *id, {1, rules, false});
            CHECK(read_namespace(control, *id)->policy.rules == rules);
            CHECK_FALSE(read_namespace(control, *id)->policy.by_administrator);
        }
        const Key before = control.key(*id, "k");
        forget_namespace(control, *id);
        CHECK_FALSE(read_namespace(control, *id));
        CHECK(make_namespace(control, "again", {}).value() == *id);
        CHECK(read_namespace(control, *id)->policy.rules == NamespaceRules{});
        CHECK(read_namespace(control, *id)->policy.quota == 0);
        CHECK(control.key(*id, "k").low != before.low);
    }

    TEST_CASE("what cannot be is refused, and an entry that is not filled is not there") {
        Domain domain;
        const Control& control = domain.control();
        for (const std::string& name :
             {std::string(), std::string("a b"), std::string(64, 'x'), std::string("a\n")})
            CHECK(make_namespace(control, name, {}).error().code == Code::invalid);
        CHECK(make_namespace(control, std::string(63, 'x'), {}));
        NamespacePolicy many;
        many.rules.users.assign(17, 1);
        CHECK(make_namespace(control, "many", many).error().text.find("at most 16") != std::string::npos);
        for (std::uint32_t made = 2; made < control.namespace_count(); ++made)
            REQUIRE(make_namespace(control, "n" + std::to_string(made), {}));
        CHECK(make_namespace(control, "full", {}).error().code == Code::full);
        CHECK_FALSE(read_namespace(control, control.namespace_count()));
    }

    TEST_CASE("memory of a namespace: claimed by regions, used by pages") {
        Domain domain;
        Tenant tenant(domain, "a", 3 * MiB);
        CHECK(used_bytes(tenant.control, tenant.id) == 0);
        CHECK(claimed_bytes(tenant.control, tenant.id) == 8 * page_bytes);
        CHECK_FALSE(is_claimed_up(tenant.control, tenant.id));
        CHECK(recount_claimed(tenant.control, tenant.id) == 8 * page_bytes);
        CHECK_FALSE(is_claimed_up(tenant.control, tenant.id));
        tenant.put("x");
        Page page;
        REQUIRE(tenant.client.worker.alloc_from(tenant.regions, tenant.wanted(), &page) == Code::ok);
        CHECK(used_bytes(tenant.control, tenant.id) == 2 * page_bytes);
        CHECK(tenant.client.worker.free(page) == Code::ok);
        CHECK(used_bytes(tenant.control, tenant.id) == page_bytes);
        set_policy(tenant.control, tenant.id, {8 * page_bytes, {}, false});
        CHECK(is_claimed_up(tenant.control, tenant.id));
        set_policy(tenant.control, tenant.id, {8 * page_bytes + 1, {}, false});
        CHECK_FALSE(is_claimed_up(tenant.control, tenant.id));
        set_policy(tenant.control, tenant.id, {});
        CHECK_FALSE(is_claimed_up(tenant.control, tenant.id));
    }

    TEST_CASE("eviction stays in its namespace, also over all page sizes") {
        Domain domain;
        Tenant one(domain, "one"), two(domain, "two");
        for (int i = 0; i < 4; ++i) {
            one.put("k" + std::to_string(i));
            two.put("k" + std::to_string(i));
        }
        CHECK(domain.daemon().evict({0, one.id}, 100) == 4);
        CHECK_FALSE(one.has("k0"));
        CHECK(two.has("k0"));
        CHECK(domain.daemon().evict({page_of_256k, one.id}, 100) == 0);
        CHECK(domain.daemon().evict({page_of_256k, two.id}, 100) == 4);
    }

    TEST_CASE("a flush hides everything at once, takes what nobody holds, and leaves what comes after") {
        Domain domain;
        Tenant tenant(domain, "a"), other(domain, "b");
        for (int i = 0; i < 5; ++i)
            tenant.put("k" + std::to_string(i));
        other.put("k0");
        const Flushed dry = tenant.flush(domain, true);
        CHECK(dry.gone == 5);
        CHECK(dry.gone_bytes == 5 * page_bytes);
        CHECK(tenant.has("k0"));

        View view;
        REQUIRE(tenant.client.worker.retrieve(tenant.control.key(tenant.id, "k1"), &view) == Code::ok);
        begin_flush(tenant.control, tenant.id);
        CHECK(read_namespace(tenant.control, tenant.id)->flushing);
        for (int i = 0; i < 5; ++i)
            CHECK_FALSE(tenant.has("k" + std::to_string(i)));
        tenant.put("k1");  // again, beside the one that is read
        const Flushed seen = tenant.look(domain);
        CHECK(seen.gone == 4);
        CHECK(seen.held == 1);
        CHECK(seen.held_bytes == page_bytes);
        CHECK(tenant.has("k1"));
        CHECK(other.has("k0"));
        CHECK(used_bytes(tenant.control, tenant.id) == 2 * page_bytes);
        CHECK(tenant.client.worker.release(view.token) == Code::ok);
        CHECK(tenant.look(domain).gone == 1);
        CHECK(tenant.look(domain).gone == 0);
        CHECK(tenant.has("k1"));
        CHECK(used_bytes(tenant.control, tenant.id) == page_bytes);
    }

    TEST_CASE("marks say what is under way, and leave name and generation alone") {
        Domain domain;
        const auto id = make_namespace(domain.control(), "a", {}).value();
        const auto before = read_namespace(domain.control(), id);
        mark_namespace(domain.control(), id, true, true);
        const auto marked = read_namespace(domain.control(), id);
        REQUIRE(marked);
        CHECK(marked->flushing);
        CHECK(marked->removing);
        CHECK(marked->generation == before->generation);
        CHECK(look(domain.control()).findings_total == 0);
        mark_namespace(domain.control(), id, false, false);
        CHECK_FALSE(read_namespace(domain.control(), id)->removing);
    }

    TEST_CASE("impossible rules are a finding and open the namespace to nobody") {
        Domain domain;
        const Control& control = domain.control();
        const auto id = make_namespace(control, "a", {0, {{5}, {}, {}}, false}).value();
        domain.expect_damage();
        for (const std::uint64_t word : {std::uint64_t{1} << 40, namespace_rules::Users::put(17)}) {
            control.name_space(id).rules.store(word, shm::relaxed);
            CHECK(look(control).findings_total == 1);
            CHECK(read_namespace(control, id)->policy.rules == NamespaceRules{{0}, {}, {}});
        }
        control.name_space(id).rules.store(0, shm::relaxed);
        control.name_space(id).state.fetch_or(8, shm::relaxed);
        CHECK(look(control).findings_total == 1);
    }
}

}  // namespace maru::table
