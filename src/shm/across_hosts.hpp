// Payload across hosts that no fabric keeps coherent (`software` domains): how a page is published, read and
// handed over. The metadata operation, a message to the host that owns the control region, is the caller's:
// it is passed in, so that it happens at the only moment at which it may.
//
// Rules that hold for all hosts together: a page has one writer host at a time; pages and fields that
// different hosts write share no cache line; the mapping is of ordinary write-back memory. Threads: any
// number, on pages of their own. Errors: none of these functions fails by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "shm/flush.hpp"
#include "shm/flush_mutant.hpp"

namespace maru::shm {

/// How place_payload stores: by_size streams from `streaming_copy_min` bytes on.
enum class Copy : std::uint8_t { by_size, cached, streamed };

/// Stores `size` bytes and sees to it that they are in the memory itself, before any later store or message
/// of this thread. `page` is aligned to cache_line.
void place_payload(void* page, const void* from, std::size_t size, Copy how = Copy::by_size);

/// Publishes a copy: place_payload, then `publish`, whose result it returns.
/// A death before `publish` leaves a reserved page whose lines its host's daemon gives up (give_up_page).
template <class Publish>
auto publish_payload(void* page, const void* from, std::size_t size, Publish&& publish,
                     Copy how = Copy::by_size) {
    place_payload(page, from, size, how);
    return std::forward<Publish>(publish)();
}

/// Publishes what an engine has written in place, `written` bytes from the start of the page; the copies of
/// its devices are complete.
template <class Publish>
auto publish_in_place(const void* page, std::size_t written, Publish&& publish) {
    if (mutant(FlushMutant::publish_first)) {
        auto result = std::forward<Publish>(publish)();
        write_back(page, written);
        return result;
    }
    if (!mutant(FlushMutant::publish_without_write_back)) write_back(page, written);
    return std::forward<Publish>(publish)();
}

enum class Reading : std::uint8_t {
    whole,  ///< the object's bytes
    moved,  ///< the page is another object's by now: look the key up again
    torn,   ///< the bytes never matched: a miss
};

inline constexpr int read_rounds_max = 4;

/// Copies an object out. After each copy it asks `check` whether the copy counts:
///   bool still_there()                        the page still holds the object, in its generation (a message)
///   bool bytes_match(const void*, size_t)     the checksum is right; true where objects have none
/// In this order, since only bytes of the right generation are worth a checksum.
template <class Check>
Reading read_payload(void* to, const void* page, std::size_t size, Check&& check) {
    for (int round = 0; round < read_rounds_max; ++round) {
        const bool early = mutant(FlushMutant::validate_first) && check.still_there();
        load_across(to, page, size);
        // The loads are done before the question goes out: on AArch64 a load may come after a later store.
        if (!mutant(FlushMutant::validate_without_load_fence)) line::load_fence();
        if (!early && !mutant(FlushMutant::not_validated) && !check.still_there()) return Reading::moved;
        if (check.bytes_match(to, size)) return Reading::whole;
    }
    return Reading::torn;
}

/// Gives a page up: no line of it is left in this host's caches when `give_back`, the metadata operation that
/// lets another host have it, begins. `page_bytes` is the whole page, whatever was stored in it.
/// Who: the host whose page it was, when another host wants it; a daemon for a process of its host that is
/// proven dead; a reader before it unpins, on hosts that may write clean lines back.
/// May be repeated: a successor of a daemon that died in it starts again.
template <class GiveBack>
auto give_up_page(const void* page, std::size_t page_bytes, GiveBack&& give_back) {
    if (mutant(FlushMutant::give_back_first)) {
        auto result = std::forward<GiveBack>(give_back)();
        write_back_and_invalidate(page, page_bytes);
        return result;
    }
    write_back_and_invalidate(page, page_bytes);
    return std::forward<GiveBack>(give_back)();
}

}  // namespace maru::shm
