// Conformance of pools: every kind that this build has runs the same cases. A kind is added to `kinds()`.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/size.hpp"
#include "base/uuid.hpp"
#include "pool/huge_pages.hpp"
#include "pool/pool.hpp"
#include "shm/mapping.hpp"

using namespace maru;
using pool::PoolConfig;

namespace {

/// A folder of this test alone, on the file system that the kind needs; goes with everything in it.
class Scratch {
  public:
    explicit Scratch(const std::string& parent)
        : folder_(parent + "/maru-pool-test-" + std::to_string(::getpid()) + "-" +
                  std::to_string(random_bits())) {
        std::filesystem::create_directory(folder_);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    std::string file(const std::string& name = "pool") const { return folder_ + "/" + name; }
    bool is_empty() const { return std::filesystem::is_empty(folder_); }

  private:
    std::string folder_;
};

struct KindUnderTest {
    pool::Kind kind;
    std::string parent;  // of its files
    PoolConfig config(const Scratch& scratch, std::uint64_t size = 4 * MiB) const {
        PoolConfig made;
        made.name = "test";
        made.kind = kind;
        made.path = scratch.file();
        made.size = size;
        return made;
    }
};

std::vector<KindUnderTest> kinds() {
    return {{pool::Kind::shm, "/dev/shm"}};
}

/// Runs a case for each kind, with an empty folder each.
void for_each_kind(const std::function<void(const KindUnderTest&, const Scratch&)>& story) {
    for (const auto& kind : kinds()) {
        INFO("kind " << std::string(pool::name_of(kind.kind)));
        const Scratch scratch(kind.parent);
        story(kind, scratch);
    }
}

std::unique_ptr<pool::Pool> opened(const PoolConfig& config) {
    auto result = pool::open(config);
    INFO((result ? std::string() : result.error().text));
    REQUIRE(result);
    return std::move(*result);
}

/// The error of an open that must fail.
std::string refusal(const PoolConfig& config) {
    const auto result = pool::open(config);
    REQUIRE_FALSE(result);
    return result.error().text;
}

shm::Mapping mapped(const pool::Pool& pool, std::uint64_t offset, std::uint64_t length) {
    auto result = shm::Mapping::map(pool.descriptor(), offset, length, "test", pool.alignment());
    REQUIRE(result);
    return std::move(*result);
}

void make_file(const std::string& path, std::uint64_t bytes, mode_t mode = 0600,
               const std::string& content = {}) {
    const Descriptor file(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode));
    REQUIRE(file);
    REQUIRE(::fchmod(file.get(), mode) == 0);
    REQUIRE(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
    if (!content.empty())
        REQUIRE(::pwrite(file.get(), content.data(), content.size(), 0) ==
                static_cast<ssize_t>(content.size()));
}

struct stat status_of(const std::string& path) {
    struct stat status {};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    return status;
}

std::uint64_t taken_bytes(const std::string& path) {
    return static_cast<std::uint64_t>(status_of(path).st_blocks) * 512;
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

void check_contains(const std::string& text, std::initializer_list<std::string> parts) {
    for (const auto& part : parts) {
        INFO("\"" << part << "\" in \"" << text << "\"");
        CHECK(text.find(part) != std::string::npos);
    }
}

}  // namespace

TEST_CASE("a new pool is what was asked for, and blank") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        CHECK(pool->kind() == kind.kind);
        CHECK(pool->name() == "test");
        CHECK(pool->path() == scratch.file());
        CHECK(pool->size() == 4 * MiB);
        CHECK(pool->is_new());
        CHECK(pool->descriptor() >= 0);
        CHECK_FALSE(pool->describe().empty());
        const auto memory = mapped(*pool, 0, pool->size());
        for (std::uint64_t at = 0; at < pool->size(); at += 4093)
            CHECK(memory.bytes()[at] == std::byte{0});
    });
}

TEST_CASE("the whole size is taken at once, and for this user only") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        CHECK(taken_bytes(scratch.file()) >= 4 * MiB);
        CHECK((status_of(scratch.file()).st_mode & 07777) == 0600);
        CHECK(status_of(scratch.file()).st_size == 4 * static_cast<off_t>(MiB));
        check_contains(pool->describe(), {"reserved"});
    });
}

TEST_CASE("the file mask of the caller does not show") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const mode_t before = ::umask(0777);
        const auto result = pool::open(kind.config(scratch));
        ::umask(before);
        REQUIRE(result);
        CHECK((status_of(scratch.file()).st_mode & 07777) == 0600);
    });
}

TEST_CASE("a pool that is opened again has its bytes") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        {
            const auto pool = opened(kind.config(scratch));
            const auto memory = mapped(*pool, 0, pool->size());
            std::memcpy(memory.data(), "head", 4);
            std::memcpy(memory.data() + pool->size() - 4, "tail", 4);
        }
        const auto pool = opened(kind.config(scratch));
        CHECK_FALSE(pool->is_new());
        const auto memory = mapped(*pool, 0, pool->size());
        CHECK(std::memcmp(memory.data(), "head", 4) == 0);
        CHECK(std::memcmp(memory.data() + pool->size() - 4, "tail", 4) == 0);
    });
}

TEST_CASE("a pool that nobody wrote to is still new when it is opened again") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        opened(kind.config(scratch));
        CHECK(opened(kind.config(scratch))->is_new());
    });
}

TEST_CASE("two mappings see each other, also through two opens") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto first = opened(kind.config(scratch));
        const auto second = opened(kind.config(scratch));
        const auto one = mapped(*first, 0, first->size());
        const auto two = mapped(*second, 0, second->size());
        REQUIRE(one.data() != two.data());
        one.bytes()[12345] = std::byte{42};
        CHECK(two.bytes()[12345] == std::byte{42});
        two.bytes()[54321] = std::byte{24};
        CHECK(one.bytes()[54321] == std::byte{24});
    });
}

TEST_CASE("a mapping at the alignment shows that part of the pool") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        const std::uint64_t unit = pool->alignment();
        const auto whole = mapped(*pool, 0, pool->size());
        for (const std::uint64_t offset : {unit, 3 * unit, pool->size() - unit}) {
            const auto part = mapped(*pool, offset, unit);
            CHECK(reinterpret_cast<std::uintptr_t>(part.data()) % unit == 0);
            whole.bytes()[offset] = std::byte{7};
            CHECK(part.bytes()[0] == std::byte{7});
        }
    });
}

TEST_CASE("the size is a multiple of the alignment, rounded down, and stays so") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        for (int round = 0; round < 2; ++round) {
            const auto pool = opened(kind.config(scratch, 4 * MiB + 4097));
            CHECK(pool->size() % pool->alignment() == 0);
            CHECK(pool->size() <= 4 * MiB + 4097);
            CHECK(pool->size() > 4 * MiB + 4097 - pool->alignment());
        }
    });
}

TEST_CASE("a size below one unit is refused, and makes nothing") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095}})
            check_contains(refusal(kind.config(scratch, size)),
                           {"'test'", std::to_string(size), "raise [[pool]] size"});
        CHECK(scratch.is_empty());
    });
}

TEST_CASE("a size beyond the file system says what is free and what is needed, and makes nothing") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto free = pool::free_bytes_of(kind.parent);
        REQUIRE(free);
        const auto result = pool::open(kind.config(scratch, round_up(*free * 2 + GiB, MiB)));
        REQUIRE_FALSE(result);
        CHECK(result.error().code == Code::full);
        check_contains(result.error().text,
                       {kind.parent, " free, pool 'test' needs " + format_size(*free * 2 + GiB),
                        ": lower [[pool]] size, or give the container a larger "});
        CHECK(scratch.is_empty());
        const auto most = pool::open(kind.config(scratch, std::uint64_t{1} << 63));
        REQUIRE_FALSE(most);
        CHECK(scratch.is_empty());
    });
}

TEST_CASE("a size beyond what this process may write is an error, and makes nothing") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        rlimit before{};
        REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
        const auto handler = ::signal(SIGXFSZ, SIG_IGN);
        const rlimit little{MiB, before.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
        const auto result = pool::open(kind.config(scratch));
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
        ::signal(SIGXFSZ, handler);
        REQUIRE_FALSE(result);
        check_contains(result.error().text, {scratch.file(), "File too large"});
        CHECK(scratch.is_empty());
    });
}

TEST_CASE("a file of another size is refused, and not changed") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        for (const std::uint64_t bytes : {2 * MiB, 8 * MiB}) {
            make_file(scratch.file(), bytes, 0600, "somebody's bytes");
            check_contains(refusal(kind.config(scratch)), {scratch.file(), std::to_string(bytes),
                                                           std::to_string(4 * MiB), "remove the file"});
            CHECK(status_of(scratch.file()).st_size == static_cast<off_t>(bytes));
            CHECK(taken_bytes(scratch.file()) == 4096);
            std::filesystem::remove(scratch.file());
        }
    });
}

TEST_CASE("a file of another owner is refused, and not changed") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        auto config = kind.config(scratch);
        if (::geteuid() == 0) {
            make_file(scratch.file(), 4 * MiB);
            REQUIRE(::chown(scratch.file().c_str(), 65534, 65534) == 0);
        } else {
            config.path = "/etc/passwd";  // root's, on every machine
        }
        const auto before = status_of(config.path);
        check_contains(refusal(config), {config.path, "belongs to user " + std::to_string(before.st_uid),
                                         "this is user " + std::to_string(::geteuid())});
        CHECK(status_of(config.path).st_blocks == before.st_blocks);
        CHECK(status_of(config.path).st_uid == before.st_uid);
    });
}

TEST_CASE("a file that others could open is refused, and not changed") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        make_file(scratch.file(), 4 * MiB, 0640);
        check_contains(refusal(kind.config(scratch)), {scratch.file(), "0640", "chmod 600"});
        CHECK((status_of(scratch.file()).st_mode & 07777) == 0640);
        CHECK(taken_bytes(scratch.file()) == 0);
    });
}

TEST_CASE("a symbolic link is refused, wherever it leads") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        make_file(scratch.file("target"), 4 * MiB);
        std::filesystem::create_symlink(scratch.file("target"), scratch.file());
        check_contains(refusal(kind.config(scratch)), {scratch.file(), "symbolic link"});
        CHECK(taken_bytes(scratch.file("target")) == 0);
        std::filesystem::remove(scratch.file());

        std::filesystem::create_symlink(scratch.file("nowhere"), scratch.file());
        check_contains(refusal(kind.config(scratch)), {"symbolic link"});
        CHECK_FALSE(exists(scratch.file("nowhere")));
    });
}

TEST_CASE("what is no regular file is refused, and nothing waits for it") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto config = kind.config(scratch);
        REQUIRE(::mkfifo(scratch.file().c_str(), 0600) == 0);
        check_contains(refusal(config), {scratch.file(), "a pipe"});
        std::filesystem::remove(scratch.file());

        std::filesystem::create_directory(scratch.file());
        check_contains(refusal(config), {scratch.file(), "a folder"});
        std::filesystem::remove(scratch.file());

        const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, scratch.file().c_str(), sizeof address.sun_path - 1);
        REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        check_contains(refusal(config), {scratch.file(), "a socket"});

        auto device = config;
        device.path = "/dev/null";
        check_contains(refusal(device), {"/dev/null", "a device"});
    });
}

TEST_CASE("a path that cannot be is refused with its reason") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        auto config = kind.config(scratch);
        config.path = "relative";
        check_contains(refusal(config), {"\"relative\"", "not absolute"});
        config.path = scratch.file("missing/pool");
        check_contains(refusal(config), {config.path, "No such file or directory"});
        config.path = scratch.file(std::string(300, 'x'));
        check_contains(refusal(config), {"File name too long"});
        config.path = scratch.file() + std::string("\0x", 2);
        refusal(config);
        CHECK(scratch.is_empty());
    });
}

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

TEST_CASE("remove deletes the file, and mappings keep their bytes") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        const auto memory = mapped(*pool, 0, pool->size());
        memory.bytes()[100] = std::byte{9};
        REQUIRE(pool->remove());
        CHECK(scratch.is_empty());
        CHECK(memory.bytes()[100] == std::byte{9});
        CHECK(pool->remove());  // gone already is no error
        CHECK(opened(kind.config(scratch))->is_new());
    });
}

TEST_CASE("remove deletes no file but its own") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        std::filesystem::remove(scratch.file());
        make_file(scratch.file(), MiB, 0600, "another");
        const auto removed = pool->remove();
        REQUIRE_FALSE(removed);
        check_contains(removed.error().text, {scratch.file(), "another file"});
        CHECK(status_of(scratch.file()).st_size == static_cast<off_t>(MiB));
    });
}

TEST_CASE("bytes stay for who maps them when the pool object goes") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        auto pool = opened(kind.config(scratch));
        const auto memory = mapped(*pool, 0, pool->size());
        memory.bytes()[4 * MiB - 1] = std::byte{5};
        pool.reset();
        CHECK(memory.bytes()[4 * MiB - 1] == std::byte{5});
        memory.bytes()[0] = std::byte{6};
        const auto again = opened(kind.config(scratch));
        CHECK(mapped(*again, 0, 4096).bytes()[0] == std::byte{6});
    });
}

TEST_CASE("what a death in the middle of an open leaves is taken over") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const std::uint64_t left_sizes[] = {0, MiB, 4 * MiB, 8 * MiB};  // and no block of memory
        for (const std::uint64_t left : left_sizes) {
            CAPTURE(left);
            make_file(scratch.file(), left);
            const auto pool = opened(kind.config(scratch));
            CHECK(pool->is_new());
            CHECK(pool->size() == 4 * MiB);
            CHECK(taken_bytes(scratch.file()) >= 4 * MiB);
            CHECK(status_of(scratch.file()).st_size == static_cast<off_t>(4 * MiB));
            REQUIRE(pool->remove());
        }
        // Sized, and half reserved.
        make_file(scratch.file(), 4 * MiB);
        const Descriptor file(::open(scratch.file().c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(::fallocate(file.get(), 0, 0, 2 * MiB) == 0);
        CHECK(opened(kind.config(scratch))->is_new());
        CHECK(taken_bytes(scratch.file()) >= 4 * MiB);
    });
}

TEST_CASE("an open that is killed leaves what the next one takes over") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto config = kind.config(scratch, 192 * MiB);
        for (int round = 0; round < 8; ++round) {
            const pid_t child = ::fork();
            REQUIRE(child >= 0);
            if (child == 0) {
                const auto result = pool::open(config);
                ::pause();
                ::_exit(1);
            }
            // Killed as soon as as much is taken as this round says, or the whole.
            const std::uint64_t enough = static_cast<std::uint64_t>(round) * 24 * MiB;
            const auto deadline = deadline_after(std::chrono::seconds(20));
            struct stat status {};
            while (milliseconds_left(deadline) > 0)
                if (::lstat(config.path.c_str(), &status) == 0 &&
                    static_cast<std::uint64_t>(status.st_blocks) * 512 >= enough)
                    break;
            REQUIRE(milliseconds_left(deadline) > 0);
            REQUIRE(::kill(child, SIGKILL) == 0);
            REQUIRE(::waitpid(child, nullptr, 0) == child);
            const auto pool = opened(config);
            CHECK(pool->is_new());
            CHECK(pool->size() == 192 * MiB);
            CHECK(taken_bytes(config.path) >= 192 * MiB);
            REQUIRE(pool->remove());
        }
    });
}

TEST_CASE("opens at the same time all get the same pool") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        constexpr int openers = 8;
        for (int round = 0; round < 5; ++round) {
            std::vector<std::unique_ptr<pool::Pool>> pools(openers);
            std::atomic<int> failures = 0;
            {
                std::barrier start(openers);
                std::vector<std::jthread> threads;
                for (int i = 0; i < openers; ++i)
                    threads.emplace_back([&, i] {
                        start.arrive_and_wait();
                        auto result = pool::open(kind.config(scratch));
                        if (result)
                            pools[static_cast<std::size_t>(i)] = std::move(*result);
                        else
                            ++failures;
                    });
            }
            REQUIRE(failures == 0);
            mapped(*pools.front(), 0, 4096).bytes()[17] = std::byte{3};
            for (const auto& pool : pools)
                CHECK(mapped(*pool, 0, 4096).bytes()[17] == std::byte{3});
            REQUIRE(pools.front()->remove());
        }
    });
}

TEST_CASE("a sparse pool takes memory at first use only, and says so") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        auto config = kind.config(scratch, 64 * MiB);
        config.reserve = false;
        const auto pool = opened(config);
        CHECK(pool->size() == 64 * MiB);
        CHECK(taken_bytes(scratch.file()) < 8 * MiB);
        check_contains(pool->describe(), {"sparse"});
        mapped(*pool, 32 * MiB, 4096).bytes()[0] = std::byte{1};
        CHECK(taken_bytes(scratch.file()) > 0);
        CHECK_FALSE(opened(config)->describe().empty());

        config.reserve = true;  // reserving it later keeps what is there
        const auto reserved = opened(config);
        CHECK(taken_bytes(scratch.file()) >= 64 * MiB);
        CHECK(mapped(*reserved, 32 * MiB, 4096).bytes()[0] == std::byte{1});
    });
}

TEST_CASE("discard gives memory of a sparse pool back, and leaves a reserved one whole") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        auto config = kind.config(scratch);
        config.reserve = false;
        {
            const auto pool = opened(config);
            const auto memory = mapped(*pool, 0, pool->size());
            std::memset(memory.data(), 1, memory.size());
            REQUIRE(pool->discard(MiB, 2 * MiB));
            CHECK(taken_bytes(scratch.file()) == 2 * MiB);
            CHECK(memory.bytes()[MiB - 1] == std::byte{1});
            CHECK(memory.bytes()[MiB] == std::byte{0});
            CHECK(memory.bytes()[3 * MiB] == std::byte{1});
            REQUIRE(pool->discard(MiB, 0));
            for (const auto& [offset, length] :
                 {std::pair{4 * MiB, 4 * KiB}, std::pair{std::uint64_t{1}, 4 * KiB},
                  std::pair{4 * KiB, std::uint64_t{1}}, std::pair{0 * KiB, 8 * MiB},
                  std::pair{4 * KiB, round_down(~std::uint64_t{0}, 4 * KiB)}})
                CHECK_FALSE(pool->discard(offset, length));
        }
        config.reserve = true;
        const auto pool = opened(config);
        REQUIRE(pool->discard(0, 4 * MiB));
        CHECK(taken_bytes(scratch.file()) >= 4 * MiB);
    });
}

TEST_CASE("what an open would find can be asked without opening") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
        const auto config = kind.config(scratch);
        CHECK_FALSE(pool::existing_bytes(config));
        CHECK(scratch.is_empty());
        opened(config);
        CHECK(pool::existing_bytes(config) == std::optional<std::uint64_t>(4 * MiB));
    });
}

TEST_CASE("huge pages are reported as the kernel gives them, and required only where it does") {
    for_each_kind([](const auto& kind, const Scratch& scratch) {
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
