#include "keys.hpp"

#include <cstring>
#include <numeric>
#include <utility>

namespace maru::bench {
namespace {

constexpr std::string_view key_head = "vllm@meta-llama/Meta-Llama-3.1-8B-Instruct-FP8-KV@16@3@";
constexpr std::string_view key_tail = "@bfloat16";
static_assert(key_head.size() + 16 + key_tail.size() == key_bytes);

std::uint64_t mix(std::uint64_t value) {  // splitmix64
    value += 0x9e3779b97f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

}  // namespace

void write_key(std::uint64_t number, char* out) {
    std::memcpy(out, key_head.data(), key_head.size());
    const std::uint64_t chunk_hash = mix(number);
    for (std::size_t digit = 0; digit < 16; ++digit)
        out[key_head.size() + digit] = "0123456789abcdef"[chunk_hash >> (60 - 4 * digit) & 15];
    std::memcpy(out + key_head.size() + 16, key_tail.data(), key_tail.size());
}

KeySet::KeySet(std::uint64_t first, std::size_t count, std::uint64_t order_seed)
    : text_(count * key_bytes), keys_(count) {
    std::vector<std::uint64_t> order(count);
    std::iota(order.begin(), order.end(), first);
    if (order_seed != 0) {
        Random random(order_seed);
        for (std::size_t i = count; i > 1; --i)
            std::swap(order[i - 1], order[random.below(i)]);
    }
    for (std::size_t i = 0; i < count; ++i) {
        write_key(order[i], text_.data() + i * key_bytes);
        keys_[i] = {text_.data() + i * key_bytes, key_bytes};
    }
}

std::uint64_t Random::next() {
    return mix(state_ += 0x9e3779b97f4a7c15);
}

std::uint64_t Random::below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
}

}  // namespace maru::bench
