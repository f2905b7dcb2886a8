// Copies and cache-line flushes of shared memory on the processor that runs the test. That flushes reach
// other hosts is shown in tests/sim/caches; here: which instructions, which lines, and that no byte changes.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "shm/across_hosts.hpp"
#include "shm/copy.hpp"
#include "shm/flush.hpp"

using namespace maru;

namespace {

/// Two pages of memory with nothing mapped before and after them: a step too far is a fault.
class Island {
  public:
    Island() {
        base_ = static_cast<std::byte*>(
            ::mmap(nullptr, size() + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(base_ != MAP_FAILED);
        REQUIRE(::mprotect(data(), size(), PROT_READ | PROT_WRITE) == 0);
    }
    ~Island() { ::munmap(base_, size() + 2 * page_); }
    Island(const Island&) = delete;
    Island& operator=(const Island&) = delete;
    std::byte* data() const { return base_ + page_; }
    std::size_t size() const { return 2 * page_; }
    std::byte* end() const { return data() + size(); }

  private:
    std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::byte* base_ = nullptr;
};

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = static_cast<std::byte>(i * 7 + i / 251);
    return made;
}

#if defined(__x86_64__)
bool processor_has(const std::string& flag) {
    std::ifstream facts("/proc/cpuinfo");
    std::string word;
    while (facts >> word)
        if (word == flag) return true;
    return false;
}
#endif

}  // namespace

TEST_CASE("the processor's best flush instructions are chosen") {
    const auto& with = shm::flush_instructions();
    using Kind = shm::FlushInstructions::Kind;
#if defined(__x86_64__)
    if (processor_has("clwb") && processor_has("clflushopt")) {
        CHECK(with.write_back == Kind::clwb);
        CHECK(with.invalidate == Kind::clflushopt);
        CHECK(std::string(with.names) == "clwb, clflushopt");
    } else {
        const Kind best = processor_has("clflushopt") ? Kind::clflushopt : Kind::clflush;
        CHECK(with.write_back == best);
        CHECK(with.invalidate == best);
    }
    CHECK(with.stride == 64);
#else
    CHECK(with.write_back == Kind::dc_cvac);
    CHECK(with.invalidate == Kind::dc_civac);
    CHECK(with.stride >= 4);
    CHECK(with.stride <= 64);
#endif
}

TEST_CASE("a flush stays within the lines of its range and changes no byte") {
    Island island;
    const auto bytes = pattern(island.size());
    std::memcpy(island.data(), bytes.data(), bytes.size());
    for (const auto flush : {shm::write_back, shm::write_back_and_invalidate, shm::invalidate_before_read})
        for (const std::size_t size : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                       std::size_t{4095}, island.size()})
            for (std::size_t shift = 0; shift < 70 && shift + size <= island.size(); ++shift) {
                flush(island.data() + shift, size);
                flush(island.end() - size - shift, size);
            }
    CHECK(std::memcmp(island.data(), bytes.data(), bytes.size()) == 0);
}

TEST_CASE("a flush of length 0 does nothing, wherever it is") {
    Island island;
    for (const auto flush : {shm::write_back, shm::write_back_and_invalidate, shm::invalidate_before_read}) {
        flush(nullptr, 0);
        flush(island.end(), 0);
        flush(reinterpret_cast<const void*>(~std::uintptr_t{0}), 0);
    }
    CHECK(shm::flush_instructions().names != nullptr);
}

TEST_CASE("every kind of instruction keeps the bytes") {
    Island island;
    const auto bytes = pattern(island.size());
    using Kind = shm::FlushInstructions::Kind;
    std::vector<Kind> kinds;
#if defined(__x86_64__)
    kinds.push_back(Kind::clflush);
    if (processor_has("clflushopt")) kinds.push_back(Kind::clflushopt);
    if (processor_has("clwb")) kinds.push_back(Kind::clwb);
#else
    kinds = {Kind::dc_cvac, Kind::dc_civac};
#endif
    for (const Kind kind : kinds) {
        std::memcpy(island.data(), bytes.data(), bytes.size());
        for (std::size_t at = 0; at < island.size(); at += shm::cache_line)
            shm::line::flush(reinterpret_cast<const volatile char*>(island.data()) + at, kind);
        shm::line::full_fence();
        CHECK(std::memcmp(island.data(), bytes.data(), bytes.size()) == 0);
    }
}

TEST_CASE("copies move every byte and no other, at any alignment") {
    const auto bytes = pattern(4096);
    for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 255u, 256u, 257u, 1000u, 4000u})
        for (const std::size_t shift : {0u, 1u, 63u})
            for (const auto copy : {shm::copy_streaming, shm::copy_in, shm::store_across, shm::load_across}) {
                alignas(64) std::byte target[4200];
                std::memset(target, 0xee, sizeof target);
                copy(target + shift, bytes.data(), size);
                CAPTURE(size);
                CAPTURE(shift);
                CHECK(std::memcmp(target + shift, bytes.data(), size) == 0);
                CHECK(target[shift + size] == std::byte{0xee});
                if (shift > 0) CHECK(target[shift - 1] == std::byte{0xee});
            }
}

TEST_CASE("payload is in place when its publication is sent, and the result comes back") {
    Island island;
    const auto bytes = pattern(island.size());
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{200}, island.size()})
        for (const auto how : {shm::Copy::by_size, shm::Copy::cached, shm::Copy::streamed}) {
            std::memset(island.data(), 0, island.size());
            const int answer = shm::publish_payload(
                island.data(), bytes.data(), size,
                [&] {
                    CHECK(std::memcmp(island.data(), bytes.data(), size) == 0);
                    return 42;
                },
                how);
            CHECK(answer == 42);
            if (size < island.size()) CHECK(island.data()[size] == std::byte{0});
        }
    CHECK(shm::publish_in_place(island.data(), 100, [] { return 7; }) == 7);
    CHECK(shm::give_up_page(island.data(), island.size(), [] { return 8; }) == 8);
}

namespace {
/// Answers in the order given; remembers what it was asked.
struct Answers {
    std::vector<bool> there, match;
    std::string asked;
    bool next(std::vector<bool>& answers, char what) {
        asked += what;
        REQUIRE_FALSE(answers.empty());
        const bool answer = answers.front();
        answers.erase(answers.begin());
        return answer;
    }
    bool still_there() { return next(there, 't'); }
    bool bytes_match(const void*, std::size_t) { return next(match, 'm'); }
};
}  // namespace

TEST_CASE("a reader asks after the copy, tries a bounded number of times, and says how it ended") {
    Island island;
    const auto bytes = pattern(1000);
    std::memcpy(island.data(), bytes.data(), bytes.size());
    std::vector<std::byte> copy(bytes.size());

    Answers sound{{true}, {true}, ""};
    CHECK(shm::read_payload(copy.data(), island.data(), copy.size(), sound) == shm::Reading::whole);
    CHECK(copy == bytes);
    CHECK(sound.asked == "tm");

    Answers second{{true, true}, {false, true}, ""};
    CHECK(shm::read_payload(copy.data(), island.data(), copy.size(), second) == shm::Reading::whole);
    CHECK(second.asked == "tmtm");

    Answers moved{{true, false}, {false}, ""};
    CHECK(shm::read_payload(copy.data(), island.data(), copy.size(), moved) == shm::Reading::moved);
    CHECK(moved.asked == "tmt");

    Answers never{{true, true, true, true}, {false, false, false, false}, ""};
    CHECK(shm::read_payload(copy.data(), island.data(), copy.size(), never) == shm::Reading::torn);
    CHECK(never.asked == "tmtmtmtm");
}
