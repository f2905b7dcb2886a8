// Repair: whatever is scribbled over a control region, afterwards it is sound, each object in it has its own
// key and bytes, and none is missing whose record was left alone. MARU_REPAIR_SEEDS sets the rounds a table
// (24), MARU_REPAIR_FIRST the first seed (1).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "domain_fixture.hpp"
#include "scribble.hpp"
#include "table/repair.hpp"

using namespace maru;
using namespace maru::table;

namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Expected {
    std::string value;
    std::uint32_t record = 0;
};

/// A domain in which everything happens, and whose clients are all dead now.
class Populated {
  public:
    explicit Populated(ChecksumMode checksum = ChecksumMode::off)
        : domain({.pool_bytes = 32 * MiB, .pins = 16 * pins_per_chunk, .clients = 6, .checksum = checksum}) {
        domain.expect_damage();
        Client& large = domain.client(page_of_256k);
        Client& small = domain.client(1);
        for (int i = 0; i < 5; ++i)
            store(large, page_of_256k, "large-" + std::to_string(i),
                  std::string(1000u * (1u + unsigned(i)), char('a' + i)));
        for (int i = 0; i < 60; ++i)
            store(small, 1, "small-" + std::to_string(i), "value of " + std::to_string(i));
        for (const auto& key : keys_of_bucket(domain.control(), 3, 18))  // two overflow buckets
            store(small, 1, key, "beside others " + key);
        for (const std::size_t length : {120u, 121u, 300u, 4096u})
            store(small, 1, std::string(length, 'k'), "long " + std::to_string(length));
        store(small, 1, std::string("\0i\x01\0\0\0\0\0\0\0", 10), "an integer key");
        leave_things(large, small);
    }

    void store(Client& client, std::uint32_t page_4k, const std::string& key, const std::string& value) {
        Page page;
        REQUIRE(client.worker.alloc_from(client.regions, {page_4k, 0}, &page) == Code::ok);
        std::memcpy(domain.bytes_of(page.location), value.data(), value.size());
        const std::uint64_t sum = domain.control().checksum_mode() == ChecksumMode::off
                                      ? 0
                                      : XXH3_64bits(value.data(), value.size());
        REQUIRE(client.worker.publish(client.key(key), page, value.size(), sum) == Code::ok);
        client.worker.free(page);
        expected[key] = {value, page.record};
    }

    RepairSources sources() {
        RepairSources made;
        PoolPlan pool;
        pool.name = "test";
        pool.bytes = 32 * MiB;
        made.pools.push_back(pool);
        made.checksum_of = [this](std::uint32_t, std::uint64_t offset,
                                  std::uint64_t length) -> std::optional<std::uint64_t> {
            const std::uint64_t begin = domain.control().pool(0).data_offset.load(shm::relaxed);
            PageLocation first{0, 0, 1};
            const std::byte* base = domain.find_bytes(first);
            if (offset < begin || offset + length > 32 * MiB) return std::nullopt;
            return XXH3_64bits(base + (offset - begin), length);
        };
        return made;
    }

    Domain domain;
    std::map<std::string, Expected> expected;

  private:
    /// What clients leave that die anywhere.
    void leave_things(Client& large, Client& small) {
        large.alloc();
        store(small, 1, "deleted", "gone");
        REQUIRE(small.remove("deleted") == DeleteResult::deleted);
        expected.erase("deleted");
        store(small, 1, "read while deleted", "gone");
        small.hold("read while deleted");
        REQUIRE(small.remove("read while deleted") == DeleteResult::deleted);
        expected.erase("read while deleted");
        std::uint64_t token = 0;
        std::uint32_t record = 0;
        REQUIRE(small.worker.pin_key(small.key("small-1"), &token, &record) == Code::ok);
        domain.set_phase(expected["small-2"].record, Phase::retiring_evict, small.identity.owner());
        domain.set_phase(expected["small-3"].record, Phase::retiring_delete, small.identity.owner());
        domain.set_phase(expected["small-4"].record, Phase::publishing, small.identity.owner());
        domain.set_phase(expected["small-5"].record, Phase::publishing, small.identity.owner());
        domain.slots_of(expected["small-5"].record).at(0)->fetch_or(slot::Tentative::put(1), shm::seq_cst);
        expected.erase("small-5");  // never committed
        domain.control().overflow_claim(9).store(overflow_claim::pack(small.identity.owner(), 5),
                                                 shm::seq_cst);
    }
};

/// A copy of a domain's control region that other processes of this test share.
class Copy {
  public:
    explicit Copy(const Domain& domain) : size_(domain.control_memory().size()) {
        void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        begin_ = static_cast<std::byte*>(memory);
        std::memcpy(begin_, domain.control_memory().data(), size_);
    }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    ~Copy() { ::munmap(begin_, size_); }
    std::span<std::byte> bytes() const { return {begin_, size_}; }

  private:
    std::size_t size_;
    std::byte* begin_ = nullptr;
};

/// A client of a control region that is not the fixture's own.
struct Guest {
    explicit Guest(const Control& of) : control(of) {
        const auto opened = open_client(control, {});
        REQUIRE_MESSAGE(bool(opened), (opened ? "" : opened.error().text));
        REQUIRE(activate_client(control, *opened));
        worker = std::make_unique<Worker>(control, *opened);
    }
    std::optional<std::string> get(const Domain& bytes, const std::string& key) {
        View view;
        if (worker->retrieve(control.key(0, key), &view) != Code::ok) return {};
        const std::byte* at = bytes.find_bytes(view.location);
        REQUIRE(at != nullptr);
        std::string value(view.length, '\0');
        std::memcpy(value.data(), at, view.length);
        CHECK(worker->release(view.token) == Code::ok);
        return value;
    }
    const Control& control;
    std::unique_ptr<Worker> worker;
};

/// The objects that the copy still has are those that it must have, whole.
std::size_t expect_objects(Populated& given, const Control& control, const std::vector<std::byte>& before) {
    Guest guest(control);
    const auto* records = reinterpret_cast<const std::byte*>(&given.domain.control().record(0));
    const auto at = static_cast<std::size_t>(records - given.domain.control_memory().data());
    std::size_t present = 0;
    for (const auto& entry : given.expected) {
        const std::string& key = entry.first;
        const Expected& expected = entry.second;
        const std::size_t record = at + expected.record * sizeof(PageRecord);
        const bool untouched =
            std::memcmp(before.data() + record, given.domain.control_memory().data() + record,
                        sizeof(PageRecord)) == 0;
        const auto value = guest.get(given.domain, key);
        INFO("key of ", key.size(), " bytes: ", key.substr(0, 40), ", record ", expected.record);
        // A commit that its writer did not live to confirm stands in the index alone.
        const bool confirmed = given.domain.phase(expected.record) != Phase::publishing;
        if (untouched && confirmed)
            CHECK_MESSAGE(value.has_value(), "an object whose record was left alone is lost");
        if (!value) continue;
        ++present;
        CHECK_MESSAGE(*value == expected.value, "an object has other bytes than its own");
    }
    sweep_gone(*guest.worker, guest.worker->identity());
    declare_dead(control, guest.worker->identity());
    sweep_dead(*guest.worker, guest.worker->identity());
    return present;
}

/// Everything that a domain is for goes on.
void use(const Domain& payload, const Control& control) {
    Guest guest(control);
    Worker& worker = *guest.worker;
    std::string warning;
    const auto region = claim_region(worker, {1, 0}, worker.identity().holder_word(), true, &warning);
    REQUIRE_MESSAGE(bool(region), (region ? "" : region.error().text));
    const std::uint32_t regions[] = {region->number};
    for (int i = 0; i < 20; ++i) {
        const std::string key = "new-" + std::to_string(i), value = "new value " + std::to_string(i);
        Page page;
        Code code = worker.alloc_from(regions, {1, 0}, &page);
        if (code == Code::full) code = worker.evict_to_reuse({1, 0}, &page);
        REQUIRE(code == Code::ok);
        std::byte* at = payload.find_bytes(page.location);
        REQUIRE(at != nullptr);
        std::string former(value.size(), '\0');
        std::memcpy(former.data(), at, value.size());
        REQUIRE(worker.publish(control.key(0, key), page, value.size()) == Code::ok);
        View view;
        REQUIRE(worker.retrieve(control.key(0, key), &view) == Code::ok);
        CHECK(worker.release(view.token) == Code::ok);
        worker.free(page);
    }
    CHECK(worker.evict({0, 0}, 5) == 5);
    int deleted = 0;
    for (int i = 0; i < 20; ++i)
        deleted += worker.remove(control.key(0, "new-" + std::to_string(i))) == DeleteResult::deleted;
    CHECK(deleted >= 15);
    const CheckReport after = look(control);
    CHECK_MESSAGE(after.findings_total == 0, describe(after));
}

/// A flush looks like this, too: there is nothing to tell it from.
void spare_epochs(const Control& damaged, const Control& original) {
    for (std::uint32_t id = 0; id < original.namespace_count(); ++id)
        damaged.name_space(id).epoch.store(original.name_space(id).epoch.load(shm::relaxed), shm::relaxed);
}

std::vector<Table> tables_in(const Domain& domain, const Copy& copy) {
    auto tables = tables_of(domain.control());
    for (auto& table : tables)
        table.begin = copy.bytes().data() + (table.begin - domain.control_memory().data());
    return tables;
}

void round(Populated& given, std::uint64_t seed, std::size_t table_number) {
    std::mt19937_64 random(seed);
    const Copy copy(given.domain);
    const Table table = tables_in(given.domain, copy)[table_number];
    const auto whole = Control::attach(copy.bytes());
    REQUIRE(bool(whole));
    for (std::uint64_t harms = 1 + random() % 3; harms > 0; --harms)
        harm(table, random);
    spare_epochs(*whole, given.domain.control());
    const std::vector<std::byte> before(copy.bytes().begin(), copy.bytes().end());
    const auto report = repair(copy.bytes(), given.sources());
    if (!report) {
        CHECK_MESSAGE(std::string(table.name) == "superblock", report.error().text);
        CHECK(report.error().text.size() > 20);
        return;
    }
    const auto control = Control::attach(copy.bytes());
    REQUIRE_MESSAGE(bool(control), (control ? "" : control.error().text));
    const CheckReport after = look(*control);
    REQUIRE_MESSAGE(after.findings_total == 0, describe(after));
    CHECK(after.objects == report->kept);
    CHECK(expect_objects(given, *control, before) == report->kept);
    use(given.domain, *control);
}

}  // namespace

TEST_SUITE("table repair") {
    TEST_CASE("a domain of the dead loses nothing, and nobody holds anything") {
        Populated given;
        const Copy copy(given.domain);
        const std::vector<std::byte> before(copy.bytes().begin(), copy.bytes().end());
        const auto report = repair(copy.bytes(), given.sources());
        REQUIRE_MESSAGE(bool(report), (report ? "" : report.error().text));
        CHECK(report->kept == given.expected.size());
        CHECK(report->lost_total == 0);
        CHECK(report->mended.empty());
        const auto control = Control::attach(copy.bytes());
        REQUIRE(bool(control));
        const CheckReport after = look(*control);
        CHECK_MESSAGE(after.findings_total == 0, describe(after));
        CHECK(after.pins == 0);
        CHECK(after.clients == 0);
        CHECK(after.pages[static_cast<int>(Phase::reserved)] == 0);
        CHECK(after.pages[static_cast<int>(Phase::retired)] == 0);
        CHECK(expect_objects(given, *control, before) == report->kept);
        use(given.domain, *control);
    }

    TEST_CASE("harm to one table at a time") {
        Populated given;
        const std::uint64_t first = setting("MARU_REPAIR_FIRST", 1),
                            rounds = setting("MARU_REPAIR_SEEDS", 24);
        const auto tables = tables_of(given.domain.control());
        for (std::size_t t = 0; t < tables.size(); ++t)
            for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
                const std::string table = tables[t].name;
                CAPTURE(table);
                CAPTURE(seed);
                round(given, seed, t);
            }
    }

    TEST_CASE("harm to one table of a domain with checksums") {
        Populated given(ChecksumMode::publish);
        const std::uint64_t first = setting("MARU_REPAIR_FIRST", 1),
                            rounds = setting("MARU_REPAIR_SEEDS", 24) / 3;
        for (const std::size_t t : {0u, 1u, 6u, 10u})
            for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
                CAPTURE(t);
                CAPTURE(seed);
                const Copy copy(given.domain);
                std::mt19937_64 random(seed);
                harm(tables_in(given.domain, copy)[t], random);
                const auto report = repair(copy.bytes(), given.sources());
                REQUIRE(bool(report));
                const auto control = Control::attach(copy.bytes());
                REQUIRE(bool(control));
                const CheckReport after = look(*control);
                CHECK_MESSAGE(after.findings_total == 0, describe(after));
                Guest guest(*control);
                for (const auto& [key, expected] : given.expected)
                    if (const auto value = guest.get(given.domain, key)) CHECK(*value == expected.value);
            }
    }

    TEST_CASE("what a check does not find hides no object") {
        Populated given;
        const std::uint64_t first = setting("MARU_REPAIR_FIRST", 1),
                            rounds = setting("MARU_REPAIR_SEEDS", 24);
        std::uint64_t found = 0;
        // Sound first: what the dead left would be found as well.
        const Copy sound(given.domain);
        REQUIRE(bool(repair(sound.bytes(), given.sources())));
        std::memcpy(given.domain.control_memory().data(), sound.bytes().data(), sound.bytes().size());
        const auto tables = tables_of(given.domain.control());
        for (std::size_t t = 0; t < tables.size(); ++t)
            for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
                const std::string table = tables[t].name;
                CAPTURE(table);
                CAPTURE(seed);
                std::mt19937_64 random(seed);
                const Copy copy(given.domain);
                const auto whole = Control::attach(copy.bytes());
                REQUIRE(bool(whole));
                harm(tables_in(given.domain, copy)[t], random);
                spare_epochs(*whole, given.domain.control());
                const auto control = Control::attach(copy.bytes());
                if (!control || look(*control).findings_total != 0) {
                    ++found;
                    continue;
                }
                Guest guest(*control);
                for (const auto& [key, expected] : given.expected)
                    CHECK(guest.get(given.domain, key) == expected.value);
            }
        CHECK(found > rounds);
    }

    TEST_CASE("a repair that is killed goes on where it stopped") {
        Populated given;
        std::mt19937_64 random(setting("MARU_REPAIR_FIRST", 1));
        int killed = 0;
        for (std::uint64_t round = 0; round < setting("MARU_REPAIR_SEEDS", 24); ++round) {
            CAPTURE(round);
            const Copy copy(given.domain);
            harm(tables_in(given.domain, copy)[round % 2 == 0 ? 1 : 6], random);
            const std::vector<std::byte> before(copy.bytes().begin(), copy.bytes().end());
            for (int kill = 0; kill < 6; ++kill) {
                const std::size_t page = random() % (copy.bytes().size() / 4096) * 4096;
                const pid_t child = ::fork();
                REQUIRE(child >= 0);
                if (child == 0) {  // dies at its first write to that page
                    ::signal(SIGSEGV, SIG_DFL);
                    ::mprotect(copy.bytes().data() + page, 4096, PROT_READ);
                    (void)bool(repair(copy.bytes(), given.sources()));
                    ::_exit(0);
                }
                int status = 0;
                REQUIRE(::waitpid(child, &status, 0) == child);
                if (!WIFSIGNALED(status)) continue;  // it had nothing to write there
                const auto* super = reinterpret_cast<const Superblock*>(copy.bytes().data());
                killed += page != 0;
                if (super->magic.load(shm::acquire) == superblock_magic) continue;
                const auto refused = Control::attach(copy.bytes());
                REQUIRE_FALSE(bool(refused));
                CHECK(refused.error().text.find("repair") != std::string::npos);
            }
            const auto report = repair(copy.bytes(), given.sources());
            REQUIRE_MESSAGE(bool(report), (report ? "" : report.error().text));
            const auto control = Control::attach(copy.bytes());
            REQUIRE(bool(control));
            const CheckReport after = look(*control);
            REQUIRE_MESSAGE(after.findings_total == 0, describe(after));
            CHECK(expect_objects(given, *control, before) >= given.expected.size() - 1);
        }
        CHECK(killed > 0);
    }

    TEST_CASE(
        "a superblock with one bit or one count wrong is made whole, another is refused with its fault") {
        Populated given;
        const Copy copy(given.domain);
        auto* super = reinterpret_cast<Superblock*>(copy.bytes().data());
        bool refused = false;
        SUBCASE("a bit of the hash seed") {
            super->hash_seed.store(super->hash_seed.load(shm::relaxed) ^ 1ull << 40, shm::relaxed);
        }
        SUBCASE("a bit of the checksum") {
            super->checksum.store(super->checksum.load(shm::relaxed) ^ 2, shm::relaxed);
        }
        SUBCASE("a count") {
            super->pin_chunks.store(0xffffffff, shm::relaxed);
        }
        SUBCASE("all places") {
            super->index_at.store(1, shm::relaxed);
            super->records_at.store(2, shm::relaxed);
            super->control_bytes.store(3, shm::relaxed);
        }
        SUBCASE("the magic") {
            super->magic.store(0, shm::relaxed);
            CHECK(Control::is_blank(copy.bytes()));  // a format that was cut short at its last word
            super->daemon_generation.store(1, shm::relaxed);
            CHECK_FALSE(Control::is_blank(copy.bytes()));
        }
        SUBCASE("the hash seed") {
            super->hash_seed.store(0, shm::relaxed);
            refused = true;
        }
        const std::vector<std::byte> before(copy.bytes().begin(), copy.bytes().end());
        const auto report = repair(copy.bytes(), given.sources());
        if (refused) {
            REQUIRE_FALSE(bool(report));
            CHECK(report.error().text.find("hash seed") != std::string::npos);
            CHECK(std::memcmp(before.data(), copy.bytes().data(), before.size()) == 0);
            return;
        }
        REQUIRE_MESSAGE(bool(report), (report ? "" : report.error().text));
        CHECK(report->kept == given.expected.size());
        CHECK(bool(Control::attach(copy.bytes())));
    }

    TEST_CASE("pools that are not the domain's are refused, and nothing is changed") {
        Populated given;
        const Copy copy(given.domain);
        const std::vector<std::byte> before(copy.bytes().begin(), copy.bytes().end());
        auto sources = given.sources();
        sources.pools[0].bytes = 48 * MiB;
        const auto report = repair(copy.bytes(), sources);
        REQUIRE_FALSE(bool(report));
        CHECK(report.error().text.find("48.0 MiB") != std::string::npos);
        CHECK(std::memcmp(before.data(), copy.bytes().data(), before.size()) == 0);
    }

    TEST_CASE("what is lost is named, with the reason") {
        Populated given;
        const Copy copy(given.domain);
        const auto control = Control::attach(copy.bytes());
        REQUIRE(bool(control));
        control->record(given.expected["small-7"].record).length.store(3, shm::relaxed);
        const auto report = repair(copy.bytes(), given.sources());
        REQUIRE(bool(report));
        REQUIRE(report->lost.size() == 1);
        CHECK(report->lost[0].key == "small-7");
        CHECK(report->lost[0].why.find("seal") != std::string::npos);
        CHECK(report->kept == given.expected.size() - 1);
    }

    TEST_CASE("a freed page whose old key still stands in its record is no object") {
        Populated given;
        const Copy copy(given.domain);
        const auto control = Control::attach(copy.bytes());
        REQUIRE(bool(control));
        const std::uint32_t record = given.expected["small-8"].record;
        Guest guest(*control);
        REQUIRE(guest.worker->remove(control->key(0, "small-8")) == DeleteResult::deleted);
        const std::uint64_t word = control->record(record).state.load(shm::relaxed);
        REQUIRE(phase_of(word) == Phase::free);
        control->record(record).state.store(state_word(Phase::published, generation_of(word)), shm::relaxed);
        const auto report = repair(copy.bytes(), given.sources());
        REQUIRE(bool(report));
        CHECK(report->kept == given.expected.size() - 1);
        Guest after(*control);
        CHECK_FALSE(after.get(given.domain, "small-8").has_value());
    }

    TEST_CASE("a bad page stays bad") {
        Populated given;
        const Copy copy(given.domain);
        const auto control = Control::attach(copy.bytes());
        REQUIRE(bool(control));
        const std::uint32_t record = given.expected["small-9"].record;
        const std::uint64_t word = control->record(record).state.load(shm::relaxed);
        control->record(record).state.store(state_word(Phase::bad, generation_of(word)), shm::relaxed);
        REQUIRE(bool(repair(copy.bytes(), given.sources())));
        CHECK(phase_of(control->record(record).state.load(shm::relaxed)) == Phase::bad);
    }
}
