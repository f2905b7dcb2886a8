// Key pins that outlived their time, by the daemon's own clock.
#include "table/sweep.hpp"

namespace maru::table {

KeyPinExpiry::KeyPinExpiry(const Control& control)
    : control_(control), seen_(std::size_t{control.chunk_count()} * pins_per_chunk) {}

std::uint64_t KeyPinExpiry::pass(std::uint64_t now_s, std::uint64_t ttl_s,
                                 std::vector<std::uint64_t>* expired_of) {
    if (ttl_s == 0) return 0;
    std::uint64_t expired = 0;
    const std::uint64_t mark = control_.super().pin_high_water.load(shm::relaxed);
    for (std::uint32_t c = 0; c < control_.chunk_count() && c < mark; ++c) {
        PinChunk& chunk = control_.chunk(c);
        const std::uint64_t owner = chunk.owner.load(shm::relaxed);
        if (owner == 0) continue;
        for (std::uint32_t i = 0; i < pins_per_chunk; ++i) {
            const std::uint64_t word = chunk.pins[i].load(shm::relaxed);
            Seen& seen = seen_[std::size_t{c} * pins_per_chunk + i];
            if (pin::kind(word) != PinKind::key) {
                seen = {};
                continue;
            }
            if (seen.word != word) {  // its sequence number tells a new pin from an old one in the same slot
                seen = {word, now_s};
                continue;
            }
            if (now_s - seen.since_s <= ttl_s || !chunk.pins[i].compare_exchange(word, 0)) continue;
            seen = {};
            ++expired;
            if (expired_of != nullptr && holder::slot(owner) < expired_of->size())
                ++(*expired_of)[holder::slot(owner)];
        }
    }
    return expired;
}

}  // namespace maru::table
