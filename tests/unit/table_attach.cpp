// Attaching: what a format laid down is accepted anywhere, everything else refused with its reason.
#include "domain_fixture.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace maru;
using namespace maru::table;

namespace {

/// A copy of a domain's control region, for doing harm to.
struct Copy {
    explicit Copy(const Domain& domain) : memory(domain.control_memory().size()) {
        std::memcpy(memory.bytes().data(), domain.control_memory().data(), memory.bytes().size());
    }
    template <class T>
    void put(std::size_t offset, T value) {
        std::memcpy(memory.bytes().data() + offset, &value, sizeof value);
    }
    /// Makes the immutable part match its checksum again, as an author of foreign memory could.
    void sign() {
        put<std::uint64_t>(offsetof(Superblock, checksum),
                           XXH3_64bits(memory.bytes().data(), offsetof(Superblock, checksum)));
    }
    Error refusal() {
        const auto control = Control::attach(memory.bytes());
        REQUIRE_FALSE(bool(control));
        CHECK_FALSE(control.error().text.empty());
        return control.error();
    }
    AlignedMemory memory;
};

}  // namespace

TEST_SUITE("table attach") {
    TEST_CASE("a format can be attached, with the sizes that were planned") {
        Domain domain;
        const auto attached = Control::attach(domain.control_memory());
        REQUIRE(bool(attached));
        const Control& made = domain.control();
        CHECK(attached->domain() == made.domain());
        CHECK_FALSE(attached->domain().empty());
        CHECK(attached->record_count() == made.record_count());
        CHECK(attached->bucket_count() == made.bucket_count());
        CHECK(attached->region_unit() == 2 * MiB);
        CHECK(attached->control_bytes() == made.control_bytes());
        CHECK(attached->client_count() > 16);
        CHECK(attached->epoch() >= 1);
        CHECK(attached->name_space(0).name.get() == "default");
        CHECK_FALSE(Control::is_blank(domain.control_memory()));
    }

    TEST_CASE("the region works at any address: a byte copy elsewhere serves the same objects") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("prompt", "value") == Code::ok);

        Copy copy(domain);
        const auto elsewhere = Control::attach(copy.memory.bytes());
        REQUIRE(bool(elsewhere));
        Worker worker(*elsewhere, engine.identity);
        CHECK(worker.exists(elsewhere->key(0, "prompt")));
        CHECK_FALSE(worker.exists(elsewhere->key(0, "other")));
        CHECK(look(*elsewhere).findings_total == 0);
    }

    TEST_CASE("keys hash alike in every attachment, and unlike in another domain") {
        Domain one, two;
        const auto again = Control::attach(one.control_memory());
        REQUIRE(bool(again));
        CHECK(again->key(0, "k").low == one.control().key(0, "k").low);
        CHECK(again->key(0, "k").high == one.control().key(0, "k").high);
        CHECK(two.control().key(0, "k").low != one.control().key(0, "k").low);  // a secret seed of its own
        CHECK(one.control().key(1, "k").low != one.control().key(0, "k").low);  // namespaces never meet
    }

    TEST_CASE("a second format starts empty, whatever was there") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("old", "value") == Code::ok);
        FormatPlan plan;
        plan.domain = Uuid::random();
        plan.region_unit = 2 * MiB;
        plan.clients = 16;
        plan.pins = 4096;
        plan.pools.resize(1);
        plan.pools[0].bytes = 16 * MiB;
        plan.pools[0].name = "again";

        Copy copy(domain);
        std::memset(copy.memory.bytes().data(), 0xa5, copy.memory.bytes().size());
        const auto control = Control::format(copy.memory.bytes(), plan);
        REQUIRE_MESSAGE(bool(control), (control ? "" : control.error().text));
        const CheckReport report = look(*control);
        CHECK_MESSAGE(report.findings_total == 0, describe(report));
        CHECK(report.objects == 0);
        CHECK(report.clients == 0);
        CHECK(report.pins == 0);
        Worker worker(*control, engine.identity);
        CHECK_FALSE(worker.exists(control->key(0, "old")));
    }

    TEST_CASE("a format into too little memory is refused with both numbers and writes nothing") {
        Domain domain;
        FormatPlan plan;
        plan.pools.resize(1);
        plan.pools[0].bytes = 16 * MiB;
        AlignedMemory memory(4096);
        const auto refused = Control::format(memory.bytes(), plan);
        REQUIRE_FALSE(bool(refused));
        CHECK(refused.error().text.find_first_of("0123456789") != std::string::npos);
        CHECK(Control::is_blank(memory.bytes()));
    }

    TEST_CASE("blank memory reads as blank and is refused") {
        AlignedMemory blank(1 * MiB);
        CHECK(Control::is_blank(blank.bytes()));
        const auto refused = Control::attach(blank.bytes());
        REQUIRE_FALSE(bool(refused));
        CHECK(refused.error().text.find("blank") != std::string::npos);
    }

    TEST_CASE("a format that was cut short reads as blank") {
        Domain domain;
        Copy copy(domain);
        copy.put<std::uint64_t>(offsetof(Superblock, magic), 0);
        CHECK(Control::is_blank(copy.memory.bytes()));
        CHECK(copy.refusal().text.find("blank") != std::string::npos);
    }

    TEST_CASE("foreign memory is refused with its magic, and is not blank") {
        Domain domain;
        Copy copy(domain);
        copy.put<std::uint64_t>(offsetof(Superblock, magic), 0x1122334455667788);
        CHECK_FALSE(Control::is_blank(copy.memory.bytes()));
        CHECK(copy.refusal().text.find("1122334455667788") != std::string::npos);
    }

    TEST_CASE("another version is refused with both numbers, whether its checksum fits or not") {
        Domain domain;
        for (const bool sign : {false, true}) {
            Copy copy(domain);
            copy.put<std::uint32_t>(offsetof(Superblock, version), 7777);
            if (sign) copy.sign();
            const Error refused = copy.refusal();
            CHECK(refused.code == Code::version);
            CHECK(refused.text.find("7777") != std::string::npos);
            CHECK(refused.text.find(std::to_string(layout_version)) != std::string::npos);
        }
    }

    TEST_CASE("a flipped bit in any byte of the immutable part is refused") {
        Domain domain;
        Copy copy(domain);
        auto* bytes = reinterpret_cast<unsigned char*>(copy.memory.bytes().data());
        for (std::size_t at = 0; at < 1024; ++at) {
            const auto flip = static_cast<unsigned char>(1u << (at % 8));
            bytes[at] ^= flip;
            CAPTURE(at);
            const Error refused = copy.refusal();
            CHECK(refused.code != Code::ok);
            bytes[at] ^= flip;
        }
        CHECK(bool(Control::attach(copy.memory.bytes())));
    }

    TEST_CASE("memory that ends too early is refused at every length") {
        Domain domain;
        const auto memory = domain.control_memory();
        const std::size_t whole = domain.control().control_bytes();
        for (const std::size_t length :
             {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{1023}, std::size_t{4095},
              std::size_t{4096}, whole / 2, whole - 4096, whole - 1}) {
            CAPTURE(length);
            const auto refused = Control::attach(memory.first(length));
            REQUIRE_FALSE(bool(refused));
            CHECK(refused.error().code == Code::damaged);
        }
        CHECK(bool(Control::attach(memory.first(whole))));
    }

    TEST_CASE("memory on a crooked address is refused, not read") {
        Domain domain;
        CHECK_FALSE(bool(Control::attach(domain.control_memory().subspan(8))));
    }

    TEST_CASE("tables that do not lie inside are refused, also under a right checksum") {
        Domain domain;
        const std::uint64_t whole = domain.control().control_bytes();
        const std::size_t places[] = {
            offsetof(Superblock, pools_at),          offsetof(Superblock, hosts_at),
            offsetof(Superblock, clients_at),        offsetof(Superblock, client_stats_at),
            offsetof(Superblock, namespaces_at),     offsetof(Superblock, regions_at),
            offsetof(Superblock, records_at),        offsetof(Superblock, pin_chunks_at),
            offsetof(Superblock, index_at),          offsetof(Superblock, overflow_claims_at),
            offsetof(Superblock, granule_claims_at), offsetof(Superblock, hints_at),
        };
        for (const std::size_t place : places)
            for (const std::uint64_t value :
                 {std::uint64_t{0}, whole - 8, whole, whole + 64, ~std::uint64_t{0}, ~std::uint64_t{63},
                  std::uint64_t{1} << 63, std::uint64_t{4096 + 1}}) {
                CAPTURE(place);
                CAPTURE(value);
                Copy copy(domain);
                copy.put(place, value);
                copy.sign();
                CHECK(copy.refusal().code == Code::damaged);
            }
    }

    TEST_CASE("impossible counts are refused, also under a right checksum") {
        Domain domain;
        const std::size_t counts[] = {
            offsetof(Superblock, records),
            offsetof(Superblock, index_buckets),
            offsetof(Superblock, overflow_buckets),
            offsetof(Superblock, clients),
            offsetof(Superblock, hosts),
            offsetof(Superblock, namespaces),
            offsetof(Superblock, pools),
            offsetof(Superblock, regions),
            offsetof(Superblock, pin_chunks),
        };
        for (const std::size_t count : counts)
            for (const std::uint32_t value : {0u, 0x7fffffffu, 0xffffffffu}) {
                CAPTURE(count);
                CAPTURE(value);
                Copy copy(domain);
                copy.put(count, value);
                copy.sign();
                CHECK(copy.refusal().code == Code::damaged);
            }
        for (const std::size_t mode :
             {offsetof(Superblock, coherence), offsetof(Superblock, checksum_mode)}) {
            Copy copy(domain);
            copy.put(mode, 99u);
            copy.sign();
            CHECK(copy.refusal().code == Code::damaged);
        }
        for (const std::uint64_t unit : {0ull, 1ull, 3ull << 20, ~0ull}) {
            CAPTURE(unit);
            Copy copy(domain);
            copy.put<std::uint64_t>(offsetof(Superblock, region_unit), unit);
            copy.sign();
            CHECK(copy.refusal().code == Code::damaged);
        }
    }

    TEST_CASE("a whole size that is a lie is refused") {
        Domain domain;
        for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{64},
                                          domain.control().control_bytes() + 4096, ~std::uint64_t{0}}) {
            Copy copy(domain);
            copy.put(offsetof(Superblock, control_bytes), bytes);
            copy.sign();
            CHECK(copy.refusal().code == Code::damaged);
        }
    }

    TEST_CASE("later damage to the superblock moves nothing in an attached control region") {
        Domain domain;
        Client& engine = domain.client();
        REQUIRE(engine.put("kept", "value") == Code::ok);
        domain.expect_damage();
        std::memset(domain.control_memory().data(), 0xff, 1024);
        CHECK(engine.get("kept") == "value");
        CHECK(domain.control().record_count() < max_records);
    }

    TEST_CASE("every page has a place of its own inside the pool; places outside are refused") {
        Domain domain;
        const Control& control = domain.control();
        std::uint32_t pool = 99;
        std::uint64_t offset = 0;
        CHECK(control.place({0, 0, page_of_256k}, &pool, &offset));
        CHECK(pool == 0);
        CHECK(offset >= control.control_bytes());
        const std::uint32_t units = control.pool(0).unit_count.load(shm::relaxed);
        CHECK(control.place({units - 1, 7, page_of_256k}, &pool, &offset));
        CHECK(offset + 256 * KiB <= 16 * MiB);
        CHECK_FALSE(control.place({units - 1, 8, page_of_256k}, &pool, &offset));
        CHECK_FALSE(control.place({units, 0, page_of_256k}, &pool, &offset));
        CHECK_FALSE(control.place({0xffffffff, 0, page_of_256k}, &pool, &offset));
        CHECK_FALSE(control.place({0, 0, 0}, &pool, &offset));
        CHECK_FALSE(control.place({0, 0xffffffff, 0xffffffff}, &pool, &offset));
        CHECK_FALSE(control.place({0, 0xffffffff, 1}, &pool, &offset));
    }
}
