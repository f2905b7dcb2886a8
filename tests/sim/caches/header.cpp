// Device headers: a block that one host rewrites and all read, and a beat of each host on a line of its own.
#include <algorithm>
#include <array>
#include <cstring>

#include "duty.hpp"
#include "owner.hpp"
#include "scenario.hpp"
#include "shm/flush.hpp"

namespace maru::caches {
namespace {

constexpr int hosts_here = 3;
constexpr std::size_t block_at = 40, block_bytes = 100;  // begins and ends within lines
constexpr std::size_t beats_line = 4, lines_here = beats_line + hosts_here;
constexpr int rounds_max = 4;

/// What the hosts tell each other by messages: a reader that was told of a write must find it.
struct Told {
    std::uint64_t begun = 0, done = 0;  // generations of the block
    std::array<std::uint64_t, hosts_here> beats{};
};
Told told;

void write_block() {
    const std::uint64_t generation = hosts().message([] { return ++told.begun; });
    std::array<std::byte, block_bytes> block;
    std::memcpy(block.data(), &generation, sizeof generation);
    for (std::size_t i = sizeof generation; i < block_bytes; ++i)
        block[i] = content(generation, i);
    shm::store_across(hosts().address(0) + block_at, block.data(), block_bytes);
    hosts().message([&] { return told.done = generation; });
}

/// True when the bytes are one generation's, as a checksum would say.
bool is_whole(const std::array<std::byte, block_bytes>& block, std::uint64_t* generation) {
    std::memcpy(generation, block.data(), sizeof *generation);
    if (*generation == 0)
        return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
    for (std::size_t i = sizeof *generation; i < block_bytes; ++i)
        if (block[i] != content(*generation, i)) return false;
    return true;
}

void read_block() {
    const Told before = hosts().message([] { return told; });
    for (int round = 0; round < rounds_max; ++round) {
        std::array<std::byte, block_bytes> block;
        shm::load_across(block.data(), hosts().address(0) + block_at, block_bytes);
        hosts().use_loads();
        std::uint64_t generation = 0;
        if (!is_whole(block, &generation)) continue;
        ++hosts().met()["block read"];
        if (generation < before.done) hosts().violate("a header older than the one that was announced");
        return;
    }
    const Told after = hosts().message([] { return told; });
    if (after.begun == before.done) hosts().violate("a header that nobody writes was never whole");
    ++hosts().met()["block torn"];
}

std::byte* beat_of(int host) {
    const auto index = static_cast<std::size_t>(host);
    if (broken(Duty::headers_share_a_line))
        return hosts().address(beats_line) + index * sizeof(std::uint64_t);
    return hosts().address(beats_line + index);
}

void beat(int host) {
    const std::uint64_t next = told.beats[static_cast<std::size_t>(host)] + 1;
    shm::store_across(beat_of(host), &next, sizeof next);
    hosts().message([&] { return told.beats[static_cast<std::size_t>(host)] = next; });
}

void look_at_beat(int host) {
    const std::uint64_t least = hosts().message([&] { return told.beats[static_cast<std::size_t>(host)]; });
    std::uint64_t seen = 0;
    shm::load_across(&seen, beat_of(host), sizeof seen);
    hosts().use_loads();
    ++hosts().met()["beat read"];
    if (seen < least) hosts().violate("a beat older than the one that was announced");
}

void host_daemon(int actor) {
    const int me = hosts().host_of(actor);
    for (;;) {
        const std::uint32_t what = hosts().random().below(8);
        if (what == 0 && me == 0)
            write_block();
        else if (what < 3)
            read_block();
        else if (what < 5)
            beat(me);
        else
            look_at_beat(static_cast<int>(hosts().random().below(hosts_here)));
    }
}

}  // namespace

void set_up_header(std::uint64_t seed) {
    told = {};
    hosts().begin(seed, {hosts_here, lines_here, false}, nullptr);
    for (int host = 0; host < hosts_here; ++host)
        hosts().add(host, host_daemon);
}

}  // namespace maru::caches
