#include "base/fault_point.hpp"

#ifdef MARU_FAULT_POINTS
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace maru {
namespace {

struct Plan {
    std::uint64_t per_million = 0;
    long pause_us = 0;
    std::uint64_t seed = 1;
    std::string prefix;
};

Plan read_plan() {
    Plan plan;
    const char* text = std::getenv("MARU_FAULT");
    if (text == nullptr) return plan;
    std::string rest = text;
    for (std::size_t start = 0; start < rest.size();) {
        const auto end = std::min(rest.find(',', start), rest.size());
        const std::string item = rest.substr(start, end - start);
        const auto equals = item.find('=');
        const std::string name = item.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
        if (name == "ppm") plan.per_million = std::strtoull(value.c_str(), nullptr, 10);
        if (name == "us") plan.pause_us = std::strtol(value.c_str(), nullptr, 10);
        if (name == "seed") plan.seed = std::strtoull(value.c_str(), nullptr, 10);
        if (name == "at") plan.prefix = value;
        start = end + 1;
    }
    return plan;
}

}  // namespace

void fault_point(const char* name) {
    static const Plan plan = read_plan();
    if (plan.per_million == 0) return;
    thread_local std::uint64_t state =
        (plan.seed + static_cast<std::uint64_t>(::gettid())) * 0x9E3779B97F4A7C15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if ((state >> 20) % 1'000'000 >= plan.per_million) return;
    if (std::strncmp(name, plan.prefix.c_str(), plan.prefix.size()) != 0) return;
    const timespec pause{plan.pause_us / 1'000'000, plan.pause_us % 1'000'000 * 1000};
    ::nanosleep(&pause, nullptr);
}

}  // namespace maru
#endif
