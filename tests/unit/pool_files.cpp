// Conformance of the kinds that are files with a name: what is refused, what a death leaves, what is given
// back.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/clock.hpp"
#include "pool_kinds.hpp"

using namespace maru;
using namespace maru::pool_tests;

TEST_CASE("the whole size is taken at once, and for this user only") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        CHECK(taken_bytes(scratch.file()) >= kind.size);
        CHECK((status_of(scratch.file()).st_mode & 07777) == 0600);
        CHECK(status_of(scratch.file()).st_size == static_cast<off_t>(kind.size));
        check_contains(pool->describe(), {"reserved"});
    });
}

TEST_CASE("the file mask of the caller does not show") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const mode_t before = ::umask(0777);
        const auto result = pool::open(kind.config(scratch));
        ::umask(before);
        REQUIRE(result);
        CHECK((status_of(scratch.file()).st_mode & 07777) == 0600);
    });
}

TEST_CASE("a size below one unit is refused, and makes nothing") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, kind.unit - 1})
            check_contains(refusal(kind.config(scratch, size)),
                           {"'test'", std::to_string(size), "raise [[pool]] size"});
        CHECK(scratch.is_empty());
    });
}

TEST_CASE("a size beyond what there is says what is free and what is needed, and makes nothing") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const auto free = pool::free_bytes_of(kind.parent);
        REQUIRE(free);
        const std::uint64_t needed = round_up(*free * 2 + TiB, kind.unit);
        const auto result = pool::open(kind.config(scratch, needed));
        REQUIRE_FALSE(result);
        CHECK(result.error().code == Code::full);
        if (kind.base.kind == pool::Kind::hugetlb)
            check_contains(result.error().text,
                           {"pool 'test'", "huge pages of " + format_size(kind.unit),
                            std::to_string(needed / kind.unit) + " (" + format_size(needed) + ") are needed",
                            "nr_hugepages"});
        else
            check_contains(result.error().text,
                           {kind.parent, " free, pool 'test' needs " + format_size(needed),
                            ": lower [[pool]] size, or give the container a larger "});
        CHECK(scratch.is_empty());
        const auto most = pool::open(kind.config(scratch, std::uint64_t{1} << 63));
        REQUIRE_FALSE(most);
        CHECK(scratch.is_empty());
    });
}

TEST_CASE("a size beyond what this process may write is an error, and makes nothing") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
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
    for_each_file([](const auto& kind, const Scratch& scratch) {
        for (const std::uint64_t bytes : {kind.size / 2, kind.size * 2}) {
            make_file(scratch.file(), bytes, 0600, "somebody's bytes");
            const std::uint64_t taken = taken_bytes(scratch.file());
            REQUIRE(taken > 0);
            check_contains(refusal(kind.config(scratch)), {scratch.file(), std::to_string(bytes),
                                                           std::to_string(kind.size), "remove the file"});
            CHECK(status_of(scratch.file()).st_size == static_cast<off_t>(bytes));
            CHECK(taken_bytes(scratch.file()) == taken);
            std::filesystem::remove(scratch.file());
        }
    });
}

TEST_CASE("a file of another owner is refused, and not changed") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        auto config = kind.config(scratch);
        if (::geteuid() == 0) {
            make_file(scratch.file(), kind.size);
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
    for_each_file([](const auto& kind, const Scratch& scratch) {
        make_file(scratch.file(), kind.size, 0640);
        check_contains(refusal(kind.config(scratch)), {scratch.file(), "0640", "chmod 600"});
        CHECK((status_of(scratch.file()).st_mode & 07777) == 0640);
        CHECK(taken_bytes(scratch.file()) == 0);
    });
}

TEST_CASE("a symbolic link is refused, wherever it leads") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        make_file(scratch.file("target"), kind.size);
        std::error_code none;
        std::filesystem::create_symlink(scratch.file("target"), scratch.file(), none);
        if (kind.base.kind == pool::Kind::hugetlb && none) return;  // a hugetlbfs may have no links at all
        REQUIRE_FALSE(none);
        check_contains(refusal(kind.config(scratch)), {scratch.file(), "symbolic link"});
        CHECK(taken_bytes(scratch.file("target")) == 0);
        std::filesystem::remove(scratch.file());

        std::filesystem::create_symlink(scratch.file("nowhere"), scratch.file());
        check_contains(refusal(kind.config(scratch)), {"symbolic link"});
        CHECK_FALSE(exists(scratch.file("nowhere")));
    });
}

TEST_CASE("what is no regular file is refused, and nothing waits for it") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const auto config = kind.config(scratch);
        REQUIRE(::mkfifo(scratch.file().c_str(), 0600) == 0);
        check_contains(refusal(config), {scratch.file(), "a pipe"});
        std::filesystem::remove(scratch.file());

        if (kind.base.kind != pool::Kind::fsdax) {  // there a folder is what a path names
            std::filesystem::create_directory(scratch.file());
            check_contains(refusal(config), {scratch.file(), "a folder"});
            std::filesystem::remove(scratch.file());
        }

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
    for_each_file([](const auto& kind, const Scratch& scratch) {
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

TEST_CASE("remove deletes the file, and mappings keep their bytes") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
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
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const auto pool = opened(kind.config(scratch));
        std::filesystem::remove(scratch.file());
        make_file(scratch.file(), 2 * kind.unit, 0600, "another");
        const auto removed = pool->remove();
        REQUIRE_FALSE(removed);
        check_contains(removed.error().text, {scratch.file(), "another file"});
        CHECK(status_of(scratch.file()).st_size == static_cast<off_t>(2 * kind.unit));
    });
}

TEST_CASE("what a death in the middle of an open leaves is taken over") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const std::uint64_t left_sizes[] = {0, kind.unit, kind.size,
                                            2 * kind.size};  // and no block of memory
        for (const std::uint64_t left : left_sizes) {
            CAPTURE(left);
            make_file(scratch.file(), left);
            const auto pool = opened(kind.config(scratch));
            CHECK(pool->is_new());
            CHECK(pool->size() == kind.size);
            CHECK(taken_bytes(scratch.file()) >= kind.size);
            CHECK(status_of(scratch.file()).st_size == static_cast<off_t>(kind.size));
            REQUIRE(pool->remove());
        }
        // Sized, and half reserved.
        make_file(scratch.file(), kind.size);
        const Descriptor file(::open(scratch.file().c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(::fallocate(file.get(), 0, 0, static_cast<off_t>(kind.size / 2)) == 0);
        CHECK(opened(kind.config(scratch))->is_new());
        CHECK(taken_bytes(scratch.file()) >= kind.size);
    });
}

TEST_CASE("an open that is killed leaves what the next one takes over") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const std::uint64_t bytes = kind.unit > 2 * MiB ? kind.size : 192 * MiB;
        const auto config = kind.config(scratch, bytes);
        for (int round = 0; round < 8; ++round) {
            const pid_t child = ::fork();
            REQUIRE(child >= 0);
            if (child == 0) {
                const auto result = pool::open(config);
                ::pause();
                ::_exit(1);
            }
            // Killed as soon as as much is taken as this round says, or the whole.
            const std::uint64_t enough = static_cast<std::uint64_t>(round) * bytes / 8;
            const auto deadline = deadline_after(std::chrono::seconds(20));
            struct stat status {};
            while (milliseconds_left(deadline) > 0)
                if (::lstat(config.path.c_str(), &status) == 0 &&
                    static_cast<std::uint64_t>(status.st_blocks) * 512 >= enough)
                    break;
            REQUIRE(::kill(child, SIGKILL) == 0);
            REQUIRE(::waitpid(child, nullptr, 0) == child);
            REQUIRE(milliseconds_left(deadline) > 0);
            const auto pool = opened(config);
            CHECK(pool->is_new());
            CHECK(pool->size() == bytes);
            CHECK(taken_bytes(config.path) >= bytes);
            REQUIRE(pool->remove());
        }
    });
}

TEST_CASE("opens at the same time all get the same pool") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
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
    for_each_file([](const auto& kind, const Scratch& scratch) {
        auto config = kind.config(scratch, 64 * MiB);
        config.reserve = false;
        if (!kind.sparse) return check_contains(refusal(config), {"'test'", "cannot be sparse"});
        const auto pool = opened(config);
        CHECK(pool->facts().warnings.size() >= 1);
        check_contains(pool->facts().warnings.back(), {"'test' of 64.0 MiB is sparse", "reserve = true"});
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
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const std::uint64_t part = kind.size / 4;
        auto config = kind.config(scratch);
        if (kind.sparse) {
            config.reserve = false;
            const auto pool = opened(config);
            const auto memory = mapped(*pool, 0, pool->size());
            std::memset(memory.data(), 1, memory.size());
            REQUIRE(pool->discard(part, 2 * part));
            CHECK(taken_bytes(scratch.file()) / part == 2);
            CHECK(memory.bytes()[part - 1] == std::byte{1});
            CHECK(memory.bytes()[part] == std::byte{0});
            CHECK(memory.bytes()[3 * part] == std::byte{1});
            REQUIRE(pool->discard(part, 0));
        }
        config.reserve = true;
        const auto pool = opened(config);
        for (const auto& [offset, length] :
             {std::pair{kind.size, kind.unit}, std::pair{std::uint64_t{1}, kind.unit},
              std::pair{kind.unit, std::uint64_t{1}}, std::pair{0 * KiB, 2 * kind.size},
              std::pair{kind.unit, round_down(~std::uint64_t{0}, kind.unit)}})
            CHECK_FALSE(pool->discard(offset, length));
        REQUIRE(pool->discard(0, kind.size));
        CHECK(taken_bytes(scratch.file()) >= kind.size);
    });
}

TEST_CASE("what an open would find can be asked without opening") {
    for_each_file([](const auto& kind, const Scratch& scratch) {
        const auto config = kind.config(scratch);
        CHECK_FALSE(pool::existing_bytes(config));
        CHECK(scratch.is_empty());
        opened(config);
        CHECK(pool::existing_bytes(config) == std::optional<std::uint64_t>(kind.size));
    });
}
