// What the targets share: an input read as numbers, and a promise that ends the run when it is broken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

/// One input. Each target defines it; libFuzzer, or replay.cpp, calls it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
/// What the inputs so far should have reached and did not; "" when all was. Asked by replay.cpp after a whole
/// corpus; a target without such a list does not define it.
extern "C" [[gnu::weak]] const char* maru_fuzz_unreached();

namespace maru::fuzz {

/// Ends the process as a crash, with the reason.
[[noreturn]] inline void fail(std::string_view what) {
    std::fprintf(stderr, "BROKEN PROMISE: %.*s\n", static_cast<int>(what.size()), what.data());
    std::abort();
}
inline void require(bool holds, std::string_view what) {
    if (!holds) fail(what);
}

/// The bytes of an input, taken from the front. Past its end everything reads as zero.
class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

    bool empty() const { return left_.empty(); }
    std::size_t left() const { return left_.size(); }

    template <class Number>
    Number number() {
        Number value = 0;
        const std::size_t taken = std::min(sizeof value, left_.size());
        if (taken > 0) std::memcpy(&value, left_.data(), taken);
        left_ = left_.subspan(taken);
        return value;
    }
    std::uint8_t byte() { return number<std::uint8_t>(); }
    std::uint16_t half() { return number<std::uint16_t>(); }
    std::uint32_t word() { return number<std::uint32_t>(); }
    std::uint64_t long_word() { return number<std::uint64_t>(); }

    std::span<const std::uint8_t> bytes(std::size_t count) {
        const auto taken = left_.first(std::min(count, left_.size()));
        left_ = left_.subspan(taken.size());
        return taken;
    }
    std::string text(std::size_t count) {
        const auto taken = bytes(count);
        return {taken.begin(), taken.end()};
    }
    std::string rest() { return text(left_.size()); }

  private:
    std::span<const std::uint8_t> left_;
};

}  // namespace maru::fuzz
