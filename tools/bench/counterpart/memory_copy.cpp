#include "counterpart/memory_copy.hpp"

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace maru::bench {

#if defined(__x86_64__)
namespace {

__attribute__((target("avx512f"))) void stream_64(char* to, const char* from, std::size_t size) {
    for (std::size_t at = 0; at < size; at += 64)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
}

void stream_16(char* to, const char* from, std::size_t size) {
    for (std::size_t at = 0; at < size; at += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
}

}  // namespace

void copy_non_temporal(void* to, const void* from, std::size_t size) {
    static const bool wide = __builtin_cpu_supports("avx512f") != 0;
    (wide ? stream_64 : stream_16)(static_cast<char*>(to), static_cast<const char*>(from), size);
    _mm_sfence();
}
#else
void copy_non_temporal(void* to, const void* from, std::size_t size) {
    copy_plain(to, from, size);
}
#endif

}  // namespace maru::bench
