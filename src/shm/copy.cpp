#include "shm/copy.hpp"

#include <cstdint>
#include <cstring>

#include "shm/cache_line.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace maru::shm {

#if defined(__x86_64__)
namespace {

using StreamLines = std::size_t (*)(std::byte*, const std::byte*, std::size_t);

std::size_t stream_lines_sse2(std::byte* to, const std::byte* from, std::size_t size) {
    std::size_t done = 0;
    for (; done + 64 <= size; done += 64) {
        const auto* in = reinterpret_cast<const __m128i*>(from + done);
        auto* out = reinterpret_cast<__m128i*>(to + done);
        const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
        const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
    }
    return done;
}

__attribute__((target("avx512f"))) std::size_t stream_lines_avx512(std::byte* to, const std::byte* from,
                                                                   std::size_t size) {
    std::size_t done = 0;
    for (; done + 256 <= size; done += 256) {
        const __m512i a = _mm512_loadu_si512(from + done), b = _mm512_loadu_si512(from + done + 64);
        const __m512i c = _mm512_loadu_si512(from + done + 128), d = _mm512_loadu_si512(from + done + 192);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + done), a);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + done + 64), b);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + done + 128), c);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + done + 192), d);
    }
    return done;
}

StreamLines pick_stream_lines() {
    return __builtin_cpu_supports("avx512f") ? stream_lines_avx512 : stream_lines_sse2;
}

}  // namespace

std::size_t line::stream(void* to, const void* from, std::size_t size) {
    static const StreamLines stream_lines = pick_stream_lines();
    return stream_lines(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
}
#else
std::size_t line::stream(void*, const void*, std::size_t) {
    return 0;  // AArch64 has no store that stays out of the caches for certain
}
#endif

void copy_streaming(void* to, const void* from, std::size_t size) {
    auto* out = static_cast<std::byte*>(to);
    const auto* in = static_cast<const std::byte*>(from);
    const std::size_t head = (cache_line - reinterpret_cast<std::uintptr_t>(out) % cache_line) % cache_line;
    if (head >= size) {
        std::memcpy(out, in, size);
        return;
    }
    std::memcpy(out, in, head);
    const std::size_t streamed = head + line::stream(out + head, in + head, size - head);
    std::memcpy(out + streamed, in + streamed, size - streamed);
    if (streamed != head) line::store_fence();  // a release operation alone does not order streamed stores
}

void copy_in(void* to, const void* from, std::size_t size) {
    if (size >= streaming_copy_min)
        copy_streaming(to, from, size);
    else
        std::memcpy(to, from, size);
}

}  // namespace maru::shm
