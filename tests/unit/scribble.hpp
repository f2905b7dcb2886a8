// Damage for tests: where the tables of a control region lie, and rubbish of several kinds to write over
// them.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "table/control.hpp"

namespace maru::table {

struct Table {
    const char* name;
    std::byte* begin;
    std::size_t bytes;
};

inline std::vector<Table> tables_of(const Control& c) {
    const auto of = [](const char* name, auto& first, std::uint64_t count) {
        return Table{name, reinterpret_cast<std::byte*>(&first), count * sizeof first};
    };
    return {
        of("records", c.record(0), c.record_count()),
        of("index", c.bucket(0), std::uint64_t{c.bucket_count()} + c.overflow_count()),
        of("overflow claims", c.overflow_claim(0), c.overflow_count()),
        of("pin chunks", c.chunk(0), c.chunk_count()),
        of("clients", c.client(0), c.client_count()),
        of("client statistics", c.client_stats(0), c.client_count()),
        of("regions", c.region(0), c.region_count()),
        of("pools", c.pool(0), c.pool_count()),
        of("hosts", c.host(0), c.host_count()),
        of("namespaces", c.name_space(0), c.namespace_count()),
        of("granule claims", c.granule_claim(0), c.granule_count()),
        of("hints", c.hint(0), c.granule_count()),
        of("superblock", c.super(), 1),
    };
}

/// Writes rubbish of several kinds over words of a table.
inline void scribble(const Table& table, std::mt19937_64& random, std::size_t words) {
    for (std::size_t i = 0; i < words; ++i) {
        const std::size_t at = random() % (table.bytes / 8) * 8;
        std::uint64_t word;
        std::memcpy(&word, table.begin + at, 8);
        switch (random() % 5) {
            case 0:
                word = random();
                break;
            case 1:
                word = 0;
                break;
            case 2:
                word = ~0ull;
                break;
            case 3:
                word ^= 1ull << (random() % 64);
                break;
            case 4: {  // a plausible word from elsewhere in the table
                std::memcpy(&word, table.begin + random() % (table.bytes / 8) * 8, 8);
                break;
            }
        }
        std::memcpy(table.begin + at, &word, 8);
    }
}

/// One harm of a kind that memory, a stray write or a lost page does.
inline void harm(const Table& table, std::mt19937_64& random) {
    // Where something stands more often than where nothing does.
    std::size_t at = random() % table.bytes;
    for (int look = 0; look < 200 && table.begin[at] == std::byte{0}; ++look)
        at = random() % table.bytes;
    switch (random() % 4) {
        case 0:  // a bit
            table.begin[at] ^= std::byte{1} << (random() % 8);
            break;
        case 1:  // a few words
            scribble(table, random, 1 + random() % 4);
            break;
        case 2:  // a run of bytes
            for (std::size_t i = at; i < std::min(table.bytes, at + 1 + random() % 100); ++i)
                table.begin[i] = static_cast<std::byte>(random());
            break;
        case 3: {  // a page of zeros or ones
            const std::size_t page = at / 4096 * 4096;
            std::memset(table.begin + page, random() % 2 == 0 ? 0 : 0xff,
                        std::min<std::size_t>(4096, table.bytes - page));
            break;
        }
    }
}

}  // namespace maru::table
