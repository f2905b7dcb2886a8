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

}  // namespace

std::uint64_t record_seal(const SealedFields& fields) {
    std::uint64_t seal = fold(fields.hash_low, fields.hash_high);
    seal ^= fold(fields.length, std::uint64_t{fields.generation} << 32 | fields.key_length);
    seal = fold(seal, fields.namespace_epoch);
    // The hash proves a key that is here as a whole; of a longer one these bytes are all there is.
    if (fields.key_length > key_inline_max)
        for (const std::uint64_t word : fields.long_key)
            seal = fold(seal, word);
    return seal | 1;
}

std::uint64_t record_seal(const Key& key, std::uint32_t generation, std::uint64_t length) {
    SealedFields fields{key.low,
                        key.high,
                        length,
                        generation,
                        key.namespace_epoch,
                        static_cast<std::uint16_t>(key.bytes.size()),
                        {}};
    if (key.bytes.size() > key_inline_max)
        std::memcpy(fields.long_key.data(), key.bytes.data(), key_inline_max);
    return record_seal(fields);
}

std::uint64_t record_seal(const PageRecord& record, std::uint32_t generation) {
    SealedFields fields{record.hash_low.load(shm::relaxed),
                        record.hash_high.load(shm::relaxed),
                        record.length.load(shm::relaxed),
                        generation,
                        record.namespace_epoch.load(shm::relaxed),
                        record.key_length.load(shm::relaxed),
                        {}};
    for (std::size_t w = 0; w < fields.long_key.size(); ++w)
        fields.long_key[w] = record.key[w].load(shm::relaxed);
    return record_seal(fields);
}

}  // namespace maru::table
