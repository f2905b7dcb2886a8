// Which pin slots of this client carry page handles, as against views.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/zeroed.hpp"
#include "table/bits.hpp"

namespace maru::client {

/// A published page's handle holds a lease like a view does. When a client closes, leases of handles end and
/// those of views stay; shared memory cannot tell them apart, this can.
///
/// Threads: any.
class PageMarks {
  public:
    explicit PageMarks(std::uint32_t chunks) : chunks_(chunks), marks_(chunks) {}

    void set(std::uint64_t token) {
        if (std::atomic<std::uint64_t>* word = word_of(token)) word->fetch_or(bit_of(token), order);
    }
    void clear(std::uint64_t token) {
        if (std::atomic<std::uint64_t>* word = word_of(token)) word->fetch_and(~bit_of(token), order);
    }
    std::uint64_t of_chunk(std::uint32_t chunk) const { return marks_[chunk].load(order); }

  private:
    // Read once, by the closing thread, after it saw every other call end (Hands::busy).
    static constexpr auto order = std::memory_order_relaxed;

    std::atomic<std::uint64_t>* word_of(std::uint64_t token) {
        const auto chunk = table::PinToken::Chunk::get(token);
        return chunk < chunks_ ? &marks_[chunk] : nullptr;
    }
    static std::uint64_t bit_of(std::uint64_t token) {
        return std::uint64_t{1} << table::PinToken::Index::get(token);
    }

    std::uint32_t chunks_;
    Zeroed<std::atomic<std::uint64_t>> marks_;
};

}  // namespace maru::client
