#include "pool_kinds.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/uuid.hpp"
#include "conformance_table.hpp"
#include "pool/devices.hpp"
#include "pool/hugetlb_pool.hpp"
#include "pool/numa_placement.hpp"

namespace maru::pool_tests {
namespace {

std::vector<Subject> chosen;

Subject file_subject(pool::Kind kind, const std::string& title, const std::string& parent) {
    Subject made;
    made.base.kind = kind;
    made.title = title;
    made.parent = parent;
    made.unit = 4 * KiB;
    made.size = 4 * MiB;
    return made;
}

std::vector<Subject> hugetlb_subjects(std::uint64_t page) {
    Subject nameless =
        file_subject(pool::Kind::hugetlb, "hugetlb of " + format_size(page) + ", nameless", "");
    nameless.base.page_size = page;
    nameless.base.huge_pages = pool::HugePages::require;
    nameless.unit = page;
    nameless.size = page >= GiB ? 2 * page : 4 * page;
    nameless.sparse = false;
    pool::PoolConfig probe = nameless.base;
    probe.name = "test";
    const std::string path = pool::hugetlb_path(probe);
    if (path.empty()) return {nameless};
    Subject filed = nameless;  // then it is what an open takes
    filed.title = "hugetlb of " + format_size(page) + ", file";
    filed.parent = path.substr(0, path.rfind('/'));
    return {filed};
}

/// What this machine can show without being asked.
std::vector<Subject> everywhere() {
    auto found = subjects_of("shm:/dev/shm");
    const auto add = [&](const std::string& argument) {
        for (auto& subject : subjects_of(argument))
            found.push_back(std::move(subject));
    };
    if (pool::is_built(pool::Kind::numa)) add("numa:0");
    add("page_cache:" + std::filesystem::current_path().string());
    if (pool::hugetlb_room(2 * MiB).left() >= 128) add("hugetlb:2MiB");
    return found;
}

}  // namespace

Scratch::Scratch(const std::string& parent) {
    if (parent.empty()) return;
    folder_ = parent + "/maru-pool-test-" + std::to_string(::getpid()) + "-" + std::to_string(random_bits());
    std::filesystem::create_directory(folder_);
}

Scratch::~Scratch() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

bool Scratch::is_empty() const {
    return std::filesystem::is_empty(folder_);
}

pool::PoolConfig Subject::config(const Scratch& scratch, std::uint64_t bytes) const {
    pool::PoolConfig made = base;
    made.name = "test";
    made.path = has_file() ? scratch.file() : device;
    made.size = bytes;
    return made;
}

void Subject::make_blank() const {
    if (device.empty()) return;
    const Descriptor file(::open(device.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(file);
    auto mapping = shm::Mapping::map(file.get(), 0, unit + size, "device", unit);
    REQUIRE(mapping);
    std::memset(mapping->data(), 0, mapping->size());
}

std::vector<Subject> subjects_of(const std::string& argument) {
    const auto colon = argument.find(':');
    const std::string kind = argument.substr(0, colon);
    std::string what = colon == std::string::npos ? "" : argument.substr(colon + 1);
    std::uint64_t size = 0;
    if (const auto last = what.rfind(':'); last != std::string::npos) {
        const auto read = parse_size(what.substr(last + 1));
        if (!read) std::cerr << argument << ": " << read.error().text << '\n';
        if (!read) return {};
        size = *read;
        what.resize(last);
    }
    std::vector<Subject> found;
    if (kind == "shm") found = {file_subject(pool::Kind::shm, "shm", what)};
    if (kind == "fsdax" || kind == "page_cache") {
        found = {file_subject(pool::Kind::fsdax, kind, what)};
        found[0].unit = 2 * MiB;
        found[0].size = 8 * MiB;
        found[0].base.allow_page_cache = kind == "page_cache";
    }
    if (kind == "numa") {
        found = {file_subject(pool::Kind::numa, argument, "/dev/shm")};
        found[0].base.numa_nodes = {static_cast<std::uint32_t>(std::atoi(what.c_str()))};
    }
    if (kind == "hugetlb")
        if (const auto page = parse_size(what)) found = hugetlb_subjects(*page);
    if (kind == "devdax") {
        const auto device = pool::open_device(what);
        if (!device) std::cerr << device.error().text << '\n';
        if (!device) return {};
        found.emplace_back();
        found[0].base.kind = pool::Kind::devdax;
        found[0].title = argument;
        found[0].device = what;
        found[0].unit = device->device.alignment;
        found[0].size = 8 * found[0].unit;
        found[0].sparse = false;
    }
    if (found.empty() || what.empty())
        std::cerr << argument << ": no such kind of pool, or nothing behind it\n";
    for (auto& subject : found)
        if (size != 0) subject.size = round_down(size, subject.unit);
    return what.empty() ? std::vector<Subject>() : found;
}

void use_subjects(std::vector<Subject> subjects) {
    chosen = std::move(subjects);
}

namespace {

/// Runs a case for the kinds that it is about, and writes into the table how it went for each.
void for_each(const std::function<bool(const Subject&)>& concerns,
              const std::function<void(const Subject&, const Scratch&)>& story) {
    if (chosen.empty()) chosen = everywhere();
    for (const auto& subject : chosen) {
        if (!concerns(subject)) continue;
        INFO("kind " << subject.title);
        const ConformanceRow row(subject.title);
        const Scratch scratch(subject.parent);
        subject.make_blank();
        story(subject, scratch);
    }
}

}  // namespace

void for_each_kind(const std::function<void(const Subject&, const Scratch&)>& story) {
    for_each([](const Subject&) { return true; }, story);
}

void for_each_file(const std::function<void(const Subject&, const Scratch&)>& story) {
    for_each([](const Subject& subject) { return subject.has_file(); }, story);
}

void for_each_nameless(const std::function<void(const Subject&, const Scratch&)>& story) {
    for_each([](const Subject& subject) { return !subject.has_file() && subject.device.empty(); }, story);
}

std::unique_ptr<pool::Pool> opened(const pool::PoolConfig& config, Descriptor kept) {
    auto result = pool::open(config, std::move(kept));
    INFO((result ? std::string() : result.error().text));
    REQUIRE(result);
    return std::move(*result);
}

Descriptor keep(const pool::Pool& pool) {
    if (!pool.facts().ends_with_holder) return {};
    return Descriptor(::fcntl(pool.descriptor(), F_DUPFD_CLOEXEC, 0));
}

std::string refusal(const pool::PoolConfig& config) {
    const auto result = pool::open(config);
    REQUIRE_FALSE(result);
    return result.error().text;
}

shm::Mapping mapped(const pool::Pool& pool, std::uint64_t offset, std::uint64_t length) {
    auto result = pool.map(offset, round_up(length, pool.alignment()), "test");
    INFO((result ? std::string() : result.error().text));
    REQUIRE(result);
    return std::move(*result);
}

void make_file(const std::string& path, std::uint64_t bytes, mode_t mode, const std::string& content) {
    const Descriptor file(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode));
    REQUIRE(file);
    REQUIRE(::fchmod(file.get(), mode) == 0);
    REQUIRE(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
    if (content.empty()) return;
    // By a mapping: a hugetlbfs has no write.
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(at != MAP_FAILED);
    std::memcpy(at, content.data(), content.size());
    ::munmap(at, bytes);
    REQUIRE(::fsync(file.get()) == 0);  // a file system that allocates late has counted the block now
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

}  // namespace maru::pool_tests
