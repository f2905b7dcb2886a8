// The only source of chance in a simulation: a seed gives one schedule.
#pragma once

#include <cstdint>

namespace maru::sim {

class Random {  // xorshift64* (Vigna 2016)
  public:
    explicit Random(std::uint64_t seed = 1) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567) {
        if (state_ == 0) state_ = 7;
        for (int i = 0; i < 4; ++i)
            bits();
    }
    std::uint64_t bits() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545F4914F6CDD1Du;
    }
    std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>((bits() >> 32) * end >> 32); }
    std::uint32_t between(std::uint32_t least, std::uint32_t most) { return least + below(most - least + 1); }
    bool one_in(std::uint32_t n) { return below(n) == 0; }

  private:
    std::uint64_t state_;
};

}  // namespace maru::sim
