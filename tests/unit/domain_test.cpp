// Attach, format or refuse; locks that a death frees; what a lost daemon leaves behind.
#include "daemon/domain.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/size.hpp"
#include "daemon/listener.hpp"
#include "daemon/name_space.hpp"
#include "daemon/process.hpp"
#include "daemon/reload.hpp"

using namespace maru;
using namespace maru::daemon;

namespace {

/// A folder on tmpfs for pools, locks and sockets of one test.
struct Folder {
    std::string path;
    Folder() {
        char name[] = "/dev/shm/maru-unit-XXXXXX";
        REQUIRE(::mkdtemp(name) != nullptr);
        path = name;
    }
    ~Folder() {
        for (const char* file : {"/a", "/a.lock", "/b", "/b.lock", "/s", "/s.lock"})
            ::unlink((path + file).c_str());
        ::rmdir(path.c_str());
    }
    Config config() const {
        Config made;
        pool::PoolConfig pool;
        pool.name = "a";
        pool.path = path + "/a";
        pool.size = 32 * MiB;
        pool.prefault = pool::Prefault::none;
        made.pools.push_back(pool);
        return made;
    }
};

/// Overwrites bytes of a pool's file.
void scribble(const std::string& path, off_t at, const void* bytes, std::size_t size) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(::pwrite(file.get(), bytes, size, at) == static_cast<ssize_t>(size));
}

/// The first 4 MiB of a file: superblock and tables.
std::string first_bytes(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string bytes(4 * MiB, 0);
    REQUIRE(::pread(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return bytes;
}

Result<Domain> open_again(const Config& config, ExitCode* exit) {
    return open_domain(config, exit);
}

/// A child that runs `body` and then waits to be killed; returns once the child says that it is ready.
template <class Body>
pid_t child_that_holds(Body body) {
    int ready[2];
    REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const bool held = body();
        if (::write(ready[1], held ? "y" : "n", 1) != 1) ::_exit(1);
        for (;;)
            ::pause();
    }
    ::close(ready[1]);
    char answer = 0;
    REQUIRE(::read(ready[0], &answer, 1) == 1);
    ::close(ready[0]);
    REQUIRE(answer == 'y');
    return child;
}

void kill_and_reap(pid_t child) {
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
}

}  // namespace

TEST_CASE("the decision: attach, format or refuse") {
    std::string reason;
    const Head sound{false, {}}, blank{true, {}},
        damaged{false, Error{Code::damaged, "superblock checksum is wrong"}};
    CHECK(decide(sound, table::Coherence::local, false, &reason) == Decision::attach);
    CHECK(decide(sound, table::Coherence::hardware, false, &reason) == Decision::attach);
    CHECK(decide(blank, table::Coherence::local, false, &reason) == Decision::format);
    CHECK(reason.empty());
    CHECK(decide(blank, table::Coherence::hardware, false, &reason) == Decision::refuse);
    CHECK(reason.find("--format") != std::string::npos);
    CHECK(decide(damaged, table::Coherence::local, false, &reason) == Decision::refuse);
    CHECK(reason.find("superblock checksum is wrong") != std::string::npos);
    CHECK(decide(damaged, table::Coherence::local, true, &reason) == Decision::format);
}

TEST_CASE("blank memory is formatted, and found again as it was") {
    Folder folder;
    ExitCode exit = ExitCode::failure;
    Uuid first;
    {
        auto domain = open_domain(folder.config(), &exit);
        REQUIRE_MESSAGE(domain, (domain ? "" : domain.error().text));
        CHECK(exit == ExitCode::clean);
        CHECK(domain->formatted);
        CHECK(domain->warnings.empty());
        first = domain->control->domain();
        CHECK_FALSE(first.empty());
        CHECK_FALSE(uuid_of_pool(*domain->control, 0).empty());
    }
    auto domain = open_again(folder.config(), &exit);
    REQUIRE(domain);
    CHECK_FALSE(domain->formatted);
    CHECK(domain->control->domain() == first);
}

TEST_CASE("the table has room for max_clients beside the daemon and its successor") {
    Folder folder;
    ExitCode exit = ExitCode::failure;
    Config config = folder.config();
    config.control.max_clients = 3;
    auto domain = open_domain(config, &exit);
    REQUIRE(domain);
    CHECK(domain->control->client_count() == 1 + 3 + daemon_slots(table::Coherence::local, 16));
    CHECK(daemon_slots(table::Coherence::hardware, 16) == 32);
}

TEST_CASE("damage, another version and foreign memory are refused and left as they are") {
    Folder folder;
    ExitCode exit = ExitCode::clean;
    REQUIRE(open_domain(folder.config(), &exit));
    const std::string file = folder.path + "/a";
    SUBCASE("a bit of the superblock") {
        scribble(file, 200, "\xff", 1);
    }
    SUBCASE("another layout version") {
        const std::uint32_t version = 77;
        scribble(file, offsetof(table::Superblock, version), &version, sizeof version);
    }
    SUBCASE("something else") {
        scribble(file, 0, "NOTMARU!", 8);
    }
    SUBCASE("an impossible length") {
        const std::uint64_t bytes = ~std::uint64_t{0};
        scribble(file, offsetof(table::Superblock, control_bytes), &bytes, sizeof bytes);
    }
    const std::string before = first_bytes(file);
    const auto refused = open_again(folder.config(), &exit);
    REQUIRE_FALSE(refused);
    CHECK(exit == ExitCode::no_pool);
    CHECK(refused.error().text.find(file) != std::string::npos);
    CHECK(refused.error().text.find("--format") != std::string::npos);
    CHECK((first_bytes(file) == before));
}

TEST_CASE("a format that was cut short reads as blank and is done again") {
    Folder folder;
    ExitCode exit = ExitCode::clean;
    REQUIRE(open_domain(folder.config(), &exit));
    const std::uint64_t no_magic = 0;
    scribble(folder.path + "/a", 0, &no_magic, sizeof no_magic);
    const auto domain = open_again(folder.config(), &exit);
    REQUIRE(domain);
    CHECK(domain->formatted);
}

TEST_CASE("a config that differs from the format is named with both values") {
    Folder folder;
    ExitCode exit = ExitCode::clean;
    REQUIRE(open_domain(folder.config(), &exit));
    Config config = folder.config();
    config.control.max_objects = 12'800;
    config.control.max_clients = 7;
    const auto domain = open_again(config, &exit);
    REQUIRE(domain);
    REQUIRE(domain->warnings.size() == 2);
    CHECK(domain->warnings[0].find("control.max_objects is 12800") != std::string::npos);
    CHECK(domain->warnings[1].find("control.max_clients is 7") != std::string::npos);
    CHECK(domain->warnings[1].find("256") != std::string::npos);
}

TEST_CASE("pools of the domain are all needed; others stay out") {
    Folder folder;
    ExitCode exit = ExitCode::clean;
    Config two = folder.config();
    two.pools.push_back(two.pools[0]);
    two.pools[1].name = "b";
    two.pools[1].path = folder.path + "/b";
    SUBCASE("one is missing from the config") {
        REQUIRE(open_domain(two, &exit));
        const auto refused = open_again(folder.config(), &exit);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().text.find("pool 'b'") != std::string::npos);
    }
    SUBCASE("one is new") {
        REQUIRE(open_domain(folder.config(), &exit));
        const auto domain = open_again(two, &exit);
        REQUIRE(domain);
        CHECK(domain->pools.size() == 1);  // the server adds it
        CHECK(domain->warnings.empty());
    }
    SUBCASE("the order of the config does not matter behind the control pool") {
        two.pools.push_back(two.pools[0]);
        two.pools[2].name = "c";
        two.pools[2].path = folder.path + "/s";
        {
            const auto domain = open_domain(two, &exit);
            REQUIRE(domain);
            CHECK(domain->pools[1]->name() == "b");
        }
        std::swap(two.pools[1], two.pools[2]);
        const auto domain = open_again(two, &exit);
        REQUIRE(domain);
        CHECK(domain->pools[1]->name() == "b");
        CHECK(domain->pools[2]->name() == "c");
    }
}

TEST_CASE("a second daemon of the domain is told who has it; a killed one leaves nothing in the way") {
    Folder folder;
    ExitCode exit = ExitCode::clean;
    std::optional<Domain> kept;
    const pid_t child = child_that_holds([&] {
        auto domain = open_domain(folder.config(), &exit);
        if (domain) kept = std::move(*domain);
        return kept.has_value();
    });
    const auto refused = open_domain(folder.config(), &exit);
    REQUIRE_FALSE(refused);
    CHECK(exit == ExitCode::owned);
    CHECK(refused.error().text.find("process " + std::to_string(child)) != std::string::npos);
    kill_and_reap(child);
    const auto domain = open_domain(folder.config(), &exit);
    REQUIRE_MESSAGE(domain, (domain ? "" : domain.error().text));
    CHECK_FALSE(domain->lock().is_new());
}

TEST_CASE("a client's byte is locked as long as anybody has its descriptor") {
    Folder folder;
    bool busy = false;
    auto lock = LockFile::take(folder.path + "/s", &busy);
    REQUIRE(lock);
    CHECK(lock->is_new());
    CHECK_FALSE(lock->held(5));
    auto handed = lock->lock_for(5);
    REQUIRE(handed);
    REQUIRE(*handed);
    CHECK(lock->held(5));
    CHECK(lock->held(1, 100));
    CHECK_FALSE(lock->held(6));
    auto again = lock->lock_for(5);
    REQUIRE(again);
    CHECK_FALSE(again->has_value());
    Descriptor copy(::dup((*handed)->get()));
    (*handed)->reset();
    CHECK(lock->held(5));
    copy.reset();
    CHECK_FALSE(lock->held(5));
}

TEST_CASE("a lock file that is deleted under its owner does not make two owners of the new one") {
    Folder folder;
    bool busy = false;
    auto first = LockFile::take(folder.path + "/s", &busy);
    REQUIRE(first);
    first->remove();
    auto second = LockFile::take(folder.path + "/s", &busy);
    REQUIRE(second);
    CHECK(second->is_new());
    CHECK_FALSE(LockFile::take(folder.path + "/s", &busy));
    CHECK(busy);
}

TEST_CASE("a socket: one daemon, whatever was left there") {
    Folder folder;
    bool busy = false;
    const Listener::Wish wish{folder.path + "/s", 0600, ""};
    SUBCASE("the file of a killed daemon is taken over") {
        std::optional<Listener> kept;
        const pid_t child = child_that_holds([&] {
            auto opened = Listener::open(wish, &busy);
            if (opened) kept = std::move(*opened);
            return kept.has_value();
        });
        auto refused = Listener::open(wish, &busy);
        REQUIRE_FALSE(refused);
        CHECK(busy);
        CHECK(refused.error().text.find(std::to_string(child)) != std::string::npos);
        kill_and_reap(child);
        REQUIRE(::access(wish.path.c_str(), F_OK) == 0);
        auto opened = Listener::open(wish, &busy);
        REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().text));
        struct stat status {};
        REQUIRE(::stat(wish.path.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
        opened->close();
        CHECK(::access(wish.path.c_str(), F_OK) != 0);
    }
    SUBCASE("a file of another type stays") {
        const Descriptor file(::open(wish.path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        CHECK_FALSE(Listener::open(wish, &busy));
        CHECK_FALSE(busy);
        CHECK(::access(wish.path.c_str(), F_OK) == 0);
    }
    SUBCASE("a path that does not fit names both lengths") {
        const auto refused = Listener::open({folder.path + "/" + std::string(200, 'x'), 0600, ""}, &busy);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().text.find("107") != std::string::npos);
    }
}

TEST_CASE("a process is known by its start time, and its end by its pidfd") {
    const pid_t child = child_that_holds([] { return true; });
    const auto pid = static_cast<std::uint32_t>(child);
    CHECK(start_time_of(pid) >= start_time_of(static_cast<std::uint32_t>(::getpid())));
    CHECK(start_time_of(static_cast<std::uint32_t>(::getpid())) > 0);
    const Descriptor process = open_process(pid);
    REQUIRE(process);
    CHECK_FALSE(has_ended(process.get()));
    kill_and_reap(child);
    CHECK(has_ended(process.get()));
    CHECK_FALSE(open_process(pid));
    CHECK(start_time_of(pid) == 0);
}

TEST_CASE("namespaces are made on first use, up to their number") {
    Folder folder;
    ExitCode exit = ExitCode::clean;
    Config config = folder.config();
    config.control.max_namespaces = 3;
    auto domain = open_domain(config, &exit);
    REQUIRE(domain);
    const auto& control = *domain->control;
    CHECK(find_or_make_namespace(control, "").value() == 0);
    CHECK(find_or_make_namespace(control, "default").value() == 0);
    const auto one = find_or_make_namespace(control, "one");
    REQUIRE(one);
    CHECK(*one == 1);
    CHECK(find_or_make_namespace(control, "one").value() == 1);
    CHECK(find_or_make_namespace(control, "two").value() == 2);
    const auto full = find_or_make_namespace(control, "three");
    REQUIRE_FALSE(full);
    CHECK(full.error().code == Code::full);
    CHECK(full.error().text.find("control.max_namespaces") != std::string::npos);
    CHECK(find_or_make_namespace(control, "has blank").error().code == Code::invalid);
    CHECK(find_or_make_namespace(control, std::string(64, 'n')).error().code == Code::invalid);
}

TEST_CASE("access: who is named writes, readers read, and empty lists open to everybody") {
    const auto someone = [](std::uint32_t uid, std::uint32_t gid, std::vector<std::uint32_t> groups) {
        Peer peer;
        peer.uid = uid;
        peer.gid = gid;
        peer.groups = std::move(groups);
        return peer;
    };
    const std::uint32_t other = ::geteuid() + 1000;
    const table::NamespaceRules open{}, readers{{}, {}, {30}}, named{{other + 1}, {20}, {30}};
    CHECK(access_of(open, someone(other, 10, {})) == Access::write);
    CHECK(access_of(readers, someone(other, 10, {})) == Access::write);
    CHECK(access_of(readers, someone(other, 30, {})) == Access::read);
    CHECK(access_of(readers, someone(other, 10, {5, 30})) == Access::read);
    CHECK(access_of(named, someone(other, 10, {5})) == Access::none);
    CHECK(access_of(named, someone(other + 1, 10, {})) == Access::write);
    CHECK(access_of(named, someone(other, 20, {})) == Access::write);
    CHECK(access_of(named, someone(other, 10, {20, 30})) == Access::write);
    CHECK(access_of(named, someone(other, 10, {30})) == Access::read);
    CHECK(access_of(named, someone(0, 10, {30})) == Access::write);
    CHECK(access_of(named, someone(::geteuid(), 10, {})) == Access::write);
}

TEST_CASE("a reload takes over what can change and says what cannot") {
    Folder folder;
    Config running = folder.config(), fresh = folder.config();
    CHECK(apply_changes(fresh, &running).empty());
    fresh.daemon.log_level = "debug";
    fresh.control.key_pin_ttl = std::chrono::milliseconds(5000);
    fresh.control.max_objects = 4096;
    fresh.pools[0].size = 64 * MiB;
    const auto notices = apply_changes(fresh, &running);
    REQUIRE(notices.size() == 2);
    CHECK(notices[0].find("control.max_objects") != std::string::npos);
    CHECK(notices[1].find("[[pool]]") != std::string::npos);
    CHECK(running.daemon.log_level == "debug");
    CHECK(running.control.key_pin_ttl == std::chrono::milliseconds(5000));
    CHECK(running.control.max_objects == 0);
    CHECK(running.pools[0].size == 32 * MiB);
}
