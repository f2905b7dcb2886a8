#include "table/seal.hpp"

#include <cstring>

namespace maru::table {
namespace {

/// One round of multiplication and folding, as in wyhash.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(a ^ 0xA0761D6478BD642Fu) * (b ^ 0xE7037ED1A0B428DBu);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

struct Fields {
    std::uint64_t hash_low, hash_high, length;
    std::uint32_t generation, namespace_epoch;
    std::uint64_t key_length;
};

/// Two products that do not wait for each other; the epoch is spread over a high half.
std::uint64_t seal_of(const Fields& fields) {
    return fold(fields.hash_low, fields.hash_high ^ std::uint64_t{fields.namespace_epoch} << 32) ^
           fold(fields.length, std::uint64_t{fields.generation} << 32 | fields.key_length);
}

}  // namespace

std::uint64_t record_seal(const Key& key, std::uint32_t generation, std::uint64_t length) {
    std::uint64_t seal =
        seal_of({key.low, key.high, length, generation, key.namespace_epoch, key.bytes.size()});
    // The hash proves a key that is here as a whole; of a longer one these bytes are all there is.
    for (std::size_t at = 0; key.bytes.size() > key_inline_max && at < key_inline_max; at += 8) {
        std::uint64_t word;
        std::memcpy(&word, key.bytes.data() + at, sizeof word);
        seal = fold(seal, word);
    }
    return seal | 1;
}

std::uint64_t record_seal(const PageRecord& record, std::uint32_t generation) {
    const std::uint64_t key_length = record.key_length.load(shm::relaxed);
    std::uint64_t seal = seal_of({record.hash_low.load(shm::relaxed), record.hash_high.load(shm::relaxed),
                                  record.length.load(shm::relaxed), generation,
                                  record.namespace_epoch.load(shm::relaxed), key_length});
    for (std::size_t w = 0; key_length > key_inline_max && w < key_inline_max / 8; ++w)
        seal = fold(seal, record.key[w].load(shm::relaxed));
    return seal | 1;
}

}  // namespace maru::table
