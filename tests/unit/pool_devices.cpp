// DAX devices without any: a folder that looks like sysfs, and plain files as devices. The real ones are
// tested in virtual machines.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "pool/devices.hpp"
#include "pool/holders.hpp"
#include "pool_kinds.hpp"

using namespace maru;
using namespace maru::pool_tests;
using pool::DeviceHead;
using pool::DeviceHeader;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t alignment = 2 * MiB;

/// A machine with devices.
class Machine {
  public:
    Machine() : scratch_("/dev/shm") {
        fs::create_directories(tree().sysfs + "/bus/dax/devices");
        fs::create_directories(tree().dev);
        for (const char* driver : {"device_dax", "kmem"})
            fs::create_directories(tree().sysfs + "/bus/dax/drivers/" + driver);
    }
    pool::DeviceTree tree() const { return {scratch_.file("sys"), scratch_.file("dev"), true}; }

    std::string add(const std::string& name, std::uint64_t size = 16 * MiB,
                    const std::string& driver = "device_dax", const std::string& map = "ram") const {
        const std::string parent = tree().sysfs + "/devices/region0/" + name;
        const std::string real = parent + "/" + name;
        fs::create_directories(real);
        std::ofstream(parent + "/mode") << map << '\n';
        std::ofstream(real + "/size") << size << '\n';
        std::ofstream(real + "/align") << alignment << '\n';
        std::ofstream(real + "/target_node") << "3\n";
        if (!driver.empty())
            fs::create_symlink(tree().sysfs + "/bus/dax/drivers/" + driver, real + "/driver");
        fs::create_symlink(real, tree().sysfs + "/bus/dax/devices/" + name);
        make_file(path(name), size);
        return path(name);
    }
    std::string path(const std::string& name) const { return tree().dev + "/" + name; }

    void write(const std::string& name, std::uint64_t at, const std::string& bytes) const {
        std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(at));
        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        REQUIRE(file);
    }
    std::string read(const std::string& name, std::size_t bytes) const {
        std::ifstream file(path(name), std::ios::binary);
        std::string text(bytes, '\0');
        file.read(text.data(), static_cast<std::streamsize>(bytes));
        return text;
    }
    void give_header(const std::string& name, const DeviceHeader& header) const {
        auto opened = pool::open_device(path(name), tree());
        REQUIRE(opened);
        pool::write_device_header(opened->head.data(), header);
    }

  private:
    Scratch scratch_;
};

pool::PoolConfig config_of(const std::string& path) {
    pool::PoolConfig config;
    config.name = "cxl";
    config.kind = pool::Kind::devdax;
    config.path = path;
    return config;
}

DeviceHeader some_header() {
    DeviceHeader header;
    header.uuid = Uuid::random();
    header.domain = Uuid::random();
    header.size = 14 * MiB;
    header.region_size = 2 * MiB;
    header.role = pool::DeviceRole::control;
    return header;
}

template <class Value>
std::string text_of(const Result<Value>& result) {
    REQUIRE_FALSE(result);
    return result.error().text;
}

}  // namespace

TEST_CASE("device header: what is written reads back, at the places that other hosts expect") {
    alignas(64) unsigned char head[pool::device_head_bytes] = {};
    CHECK(pool::read_device_head(head).state == DeviceHead::State::blank);
    const DeviceHeader header = some_header();
    pool::write_device_header(head, header);
    const auto found = pool::read_device_head(head);
    CHECK(found.state == DeviceHead::State::header);
    CHECK(found.header == header);
    CHECK(std::memcmp(head, "MARUDEV\0\2\0\0\0", 12) == 0);
    CHECK(std::memcmp(head + 12, header.uuid.bytes.data(), 16) == 0);
    CHECK(std::memcmp(head + 28, "\0\0\0\0", 4) == 0);
    CHECK(std::memcmp(head + 32, header.domain.bytes.data(), 16) == 0);
    pool::clear_device_head(head);
    CHECK(pool::read_device_head(head).state == DeviceHead::State::blank);
}

TEST_CASE("device header: version 1 is read, later ones and every changed byte are refused") {
    alignas(64) unsigned char head[pool::device_head_bytes] = {};
    const Uuid uuid = Uuid::random();
    std::memcpy(head, "MARUDEV\0\1\0\0\0", 12);
    std::memcpy(head + 12, uuid.bytes.data(), 16);
    head[100] = 7;  // whatever an existing deployment has behind it
    auto found = pool::read_device_head(head);
    CHECK(found.state == DeviceHead::State::header);
    CHECK(found.header.version == 1);
    CHECK(found.header.uuid == uuid);
    CHECK(found.header.domain.empty());

    pool::clear_device_head(head);
    pool::write_device_header(head, some_header());
    for (std::size_t at = 0; at < 128; ++at) {
        head[at] = static_cast<unsigned char>(head[at] ^ 0x40);
        found = pool::read_device_head(head);
        CAPTURE(at);
        CHECK(found.state == (at < 8 ? DeviceHead::State::foreign : DeviceHead::State::damaged));
        CHECK_FALSE(found.fault.empty());
        head[at] = static_cast<unsigned char>(head[at] ^ 0x40);
    }
    CHECK(pool::read_device_head(head).state == DeviceHead::State::header);
    head[8] = 3;
    check_contains(pool::read_device_head(head).fault, {"version 3", "up to 2"});
}

TEST_CASE("devices are listed with size, alignment, mode and node") {
    const Machine machine;
    CHECK(pool::list_devices(machine.tree()).empty());
    machine.add("dax1.0", 32 * MiB, "kmem");
    machine.add("dax0.0", 16 * MiB, "device_dax", "pmem");
    machine.add("dax2.0", 16 * MiB, "");
    machine.add("dax3.0", 0);  // a seed: not a device yet
    const auto devices = pool::list_devices(machine.tree());
    REQUIRE(devices.size() == 3);
    CHECK(devices[0].name == "dax0.0");
    CHECK(devices[0].path == machine.path("dax0.0"));
    CHECK(devices[0].size == 16 * MiB);
    CHECK(devices[0].alignment == alignment);
    CHECK(devices[0].mode == pool::DeviceMode::devdax);
    CHECK(devices[0].target_node == 3);
    CHECK(devices[0].pages_on_device);
    CHECK(devices[1].mode == pool::DeviceMode::system_ram);
    CHECK_FALSE(devices[1].pages_on_device);
    CHECK(devices[2].mode == pool::DeviceMode::disabled);
}

TEST_CASE("a device that cannot be served is refused with the command that changes it") {
    const Machine machine;
    const auto refused = [&](const std::string& path) {
        return text_of(pool::open_devdax(config_of(path), machine.tree()));
    };
    check_contains(refused(machine.add("dax0.0", 16 * MiB, "kmem")),
                   {"'cxl'", "system RAM (node 3)", "kind numa",
                    "daxctl reconfigure-device --mode=devdax --force dax0.0"});
    check_contains(refused(machine.add("dax1.0", 16 * MiB, "")), {"disabled", "daxctl enable-device dax1.0"});
    check_contains(refused(machine.add("dax2.0", alignment)), {"no room behind a header"});
    check_contains(refused(machine.path("dax9.9")), {"No such file", "daxctl list"});
    make_file(machine.path("file"), 16 * MiB);
    check_contains(refused(machine.path("file")), {"no DAX device"});
    check_contains(refused("any"), {"no DAX device here"});
    check_contains(refused("uuid:x"), {"'cxl'"});
    check_contains(refused("uuid:" + Uuid::random().text()), {"no DAX device has UUID"});
}

TEST_CASE("the product takes character devices only") {
    const Machine machine;
    const std::string path = machine.add("dax0.0");
    check_contains(refusal(config_of(path)), {"no character device", "/dev/daxX.Y"});
    check_contains(refusal(config_of("/dev/null")), {"no DAX device"});
}

TEST_CASE("a blank device becomes a pool behind one unit of header") {
    const Machine machine;
    auto config = config_of(machine.add("dax0.0"));
    auto opened = pool::open_devdax(config, machine.tree());
    REQUIRE(opened);
    auto& pool = **opened;
    CHECK(pool.is_new());
    CHECK_FALSE(pool.facts().device);
    CHECK(pool.offset() == alignment);
    CHECK(pool.size() == 14 * MiB);
    CHECK(machine.read("dax0.0", 4096) == std::string(4096, '\0'));  // an open writes nothing
    const DeviceHeader header = some_header();
    REQUIRE(pool.enter_domain(header));
    {
        const auto memory = pool.map(0, alignment, "test");
        REQUIRE(memory);
        std::memcpy(memory->data(), "content", 7);
    }
    const auto again = pool::open_devdax(config, machine.tree());
    REQUIRE(again);
    CHECK_FALSE((*again)->is_new());
    CHECK((*again)->facts().device == header);
    CHECK(machine.read("dax0.0", alignment + 7).substr(alignment) == "content");

    REQUIRE((*again)->remove());  // of no domain any more: what is on it does not count
    const auto freed = pool::open_devdax(config, machine.tree());
    REQUIRE(freed);
    CHECK((*freed)->is_new());
    CHECK((*freed)->facts().device->uuid == header.uuid);
    CHECK((*freed)->facts().device->domain.empty());

    config.size = 4 * MiB;
    CHECK((*pool::open_devdax(config, machine.tree()))->size() == 4 * MiB);
    config.size = 16 * MiB;
    check_contains(text_of(pool::open_devdax(config, machine.tree())),
                   {"does not fit", "14.0 MiB behind its header"});
}

TEST_CASE("somebody's data and a damaged header are never taken") {
    const Machine machine;
    const auto config = config_of(machine.add("dax0.0"));
    machine.write("dax0.0", 1024, "\x53\xef");
    check_contains(text_of(pool::open_devdax(config, machine.tree())),
                   {"not maru's", "maructl device init --force"});
    CHECK(pool::usable_devices(machine.tree()).empty());
    machine.write("dax0.0", 1024, std::string(2, '\0'));
    machine.give_header("dax0.0", some_header());
    machine.write("dax0.0", 40, "xx");
    check_contains(text_of(pool::open_devdax(config, machine.tree())), {"checksum"});
}

TEST_CASE(
    "a device is known by its UUID, whatever its path; two with one UUID are an error that names both") {
    const Machine machine;
    for (const char* name : {"dax0.0", "dax1.0", "dax2.0"})
        machine.add(name);
    const DeviceHeader header = some_header();
    machine.give_header("dax1.0", header);
    CHECK(*pool::find_device(header.uuid, machine.tree()) == machine.path("dax1.0"));
    const auto opened = pool::open_devdax(config_of("uuid:" + header.uuid.text()), machine.tree());
    REQUIRE(opened);
    CHECK((*opened)->path() == machine.path("dax1.0"));
    CHECK(pool::usable_devices(machine.tree()).size() == 3);
    machine.give_header("dax2.0", header);
    check_contains(
        text_of(pool::find_device(header.uuid, machine.tree())),
        {"two devices", machine.path("dax1.0"), machine.path("dax2.0"), "maructl device init --force"});
}

TEST_CASE("a namespace that keeps the kernel's page descriptors on the device is warned of") {
    const Machine machine;
    const auto opened =
        pool::open_devdax(config_of(machine.add("dax0.0", 16 * MiB, "device_dax", "pmem")), machine.tree());
    REQUIRE(opened);
    REQUIRE((*opened)->facts().warnings.size() == 1);
    check_contains((*opened)->facts().warnings[0], {"--map=dev", "--map=mem"});
}

TEST_CASE(
    "a device under two names, and two devices with one UUID, are told apart before anything is locked") {
    const Machine machine;
    const std::string first = machine.add("dax0.0"), second = machine.add("dax1.0");
    const auto named = [](const std::string& name, const std::string& path) {
        auto config = config_of(path);
        config.name = name;
        return config;
    };
    CHECK(pool::check_devices({named("a", first), named("b", second)}, machine.tree()));
    fs::create_symlink(first, machine.path("link"));
    check_contains(
        text_of(pool::check_devices({named("a", first), named("b", machine.path("link"))}, machine.tree())),
        {"'a' and 'b' are one device", first});
    const DeviceHeader header = some_header();
    machine.give_header("dax0.0", header);
    check_contains(text_of(pool::check_devices({named("a", first), named("b", "uuid:" + header.uuid.text())},
                                               machine.tree())),
                   {"'a' and 'b' are one device", first});
    machine.give_header("dax1.0", header);
    check_contains(text_of(pool::check_devices({named("a", first), named("b", second)}, machine.tree())),
                   {"two devices have UUID " + header.uuid.text(), first, second});
    CHECK(pool::check_devices({named("a", first)}, machine.tree()));
}

TEST_CASE("who finds no device is told why each one is of no use") {
    const Machine machine;
    const std::string ram = machine.add("dax0.0", 16 * MiB, "kmem"), foreign = machine.add("dax1.0");
    machine.write("dax1.0", 1024, "\x53\xef");
    check_contains(text_of(pool::open_devdax(config_of("any"), machine.tree())),
                   {ram + ": it is system RAM (node 3)", foreign + ": ", "not maru's"});
    check_contains(text_of(pool::find_device(Uuid::random(), machine.tree())),
                   {ram + ": it is system RAM (node 3)"});
}

TEST_CASE("devices: one that comes, is bound, or goes changes what is asked often") {
    const Machine machine;
    const auto now = [&] { return pool::devices_now(machine.tree()); };
    CHECK(now().empty());
    machine.add("dax1.0", 16 * MiB, "");
    CHECK(now() == "dax1.0 \n");
    CHECK(pool::usable_devices(machine.tree()).empty());
    machine.add("dax0.0");
    CHECK(now() == "dax0.0 device_dax\ndax1.0 \n");
    const std::string driver = machine.tree().sysfs + "/bus/dax/devices/dax1.0/driver";
    fs::create_symlink(machine.tree().sysfs + "/bus/dax/drivers/device_dax", driver);
    CHECK(now() == "dax0.0 device_dax\ndax1.0 device_dax\n");
    CHECK(pool::usable_devices(machine.tree()) ==
          std::vector<std::string>{machine.path("dax0.0"), machine.path("dax1.0")});
    fs::remove(driver);
    fs::remove(machine.tree().sysfs + "/bus/dax/devices/dax0.0");
    CHECK(now() == "dax1.0 \n");
    CHECK(pool::usable_devices(machine.tree()).empty());
}

namespace {

/// A process that has done something with a file, and waits to be killed.
class Other {
  public:
    template <class Work>
    explicit Other(Work work) {
        int ready[2];
        REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            work();
            if (::write(ready[1], "y", 1) != 1) ::_exit(1);
            for (;;)
                ::pause();
        }
        ::close(ready[1]);
        char answer = 0;
        REQUIRE(::read(ready[0], &answer, 1) == 1);
        ::close(ready[0]);
    }
    ~Other() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    Other(const Other&) = delete;
    Other& operator=(const Other&) = delete;
    pid_t pid() const { return pid_; }

  private:
    pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("devices: who else has one open or mapped, by name and number") {
    const Machine machine;
    const std::string path = machine.add("dax0.0"), next = machine.add("dax1.0");
    const Descriptor ours(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const auto holders = [&] { return pool::holders_of(ours.get()); };
    CHECK(holders().empty());  // nobody but this process
    CHECK(pool::text_of(holders()) == "nobody");
    const Other neighbour([&] { REQUIRE(::open(next.c_str(), O_RDONLY) >= 0); });
    {
        // A fork has our own descriptor: it is closed, so that only what is done here counts.
        const auto without_ours = [&] { ::close(ours.get()); };
        const Other reader([&] {
            without_ours();
            REQUIRE(::open(path.c_str(), O_RDONLY) >= 0);
        });
        auto found = holders();
        // The neighbour got a copy of our descriptor when it was forked.
        std::erase_if(found, [&](const auto& holder) { return holder.pid == neighbour.pid(); });
        REQUIRE(found.size() == 1);
        CHECK(found[0].pid == reader.pid());
        CHECK(pool::text_of(found) ==
              "process " + std::to_string(reader.pid()) + " (" + found[0].program + ")");
        CHECK(std::string(program_invocation_short_name)
                  .compare(0, found[0].program.size(), found[0].program) == 0);
        const Other mapper([&] {
            without_ours();
            const int file = ::open(path.c_str(), O_RDWR);
            REQUIRE(::mmap(nullptr, alignment, PROT_READ, MAP_SHARED, file, 0) != MAP_FAILED);
            ::close(file);
        });
        found = holders();
        CHECK(found.size() == 3);
        CHECK(pool::text_of(found).find(" and 2 others") != std::string::npos);
    }
    CHECK(holders().size() == 1);
}
