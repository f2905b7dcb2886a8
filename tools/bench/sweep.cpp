// `maru-bench put --sweep`: copy rates by size, plain and streaming.
#include <cstdio>
#include <vector>

#include "base/size.hpp"
#include "commands.hpp"
#include "conditions.hpp"
#include "counterpart/memory_copy.hpp"
#include "report.hpp"
#include "shared_file.hpp"
#include "shm/copy.hpp"
#include "stopwatch.hpp"

namespace maru::bench {
namespace {

constexpr std::uint64_t smallest = 4 * KiB, largest = 16 * MiB;

struct Rates {
    std::vector<double> plain, streaming, plain_read, streaming_read;
};

/// GB/s of copying `size` again and again into successive places of `area`; then of the same with each copy
/// read by memcpy right away, as a consumer on this host may.
template <class Copy>
void measure(std::span<std::byte> area, const std::vector<char>& source, std::vector<char>& reader,
             std::uint64_t size, Copy copy, double* rate, double* rate_read) {
    const std::uint64_t count = area.size() / size;
    const double each_ns = time_each_ns(count, [&] {
        for (std::uint64_t i = 0; i < count; ++i)
            copy(area.data() + i * size, source.data(), size);
    });
    const double both_ns = time_each_ns(count, [&] {
        for (std::uint64_t i = 0; i < count; ++i) {
            copy(area.data() + i * size, source.data(), size);
            copy_plain(reader.data(), area.data() + i * size, size);
        }
    });
    *rate = static_cast<double>(size) / each_ns;
    *rate_read = static_cast<double>(size) / both_ns;
}

}  // namespace

Result<void> run_sweep(const Request& request) {
    const std::uint64_t area_bytes = request.quick ? 64 * MiB : 256 * MiB;
    const int rounds = 5;
    auto area = SharedFile::make("sweep", area_bytes);
    if (!area) return area.error();
    const std::vector<char> source(largest, 'x');
    std::vector<char> reader(largest, 'x');
    std::printf("%s\n", machine_conditions().c_str());
    if (request.quick)
        std::printf("quick run: a smaller area; the figures only show that everything works\n");
    std::printf("copies into %s of shared memory (%s), GB/s; streaming in force from %s\n\n",
                format_size(area_bytes).c_str(), pages_of(area->bytes().data()).c_str(),
                format_size(shm::streaming_copy_min).c_str());
    std::printf("%-10s %8s %10s %7s   %14s %14s %7s\n", "size", "plain", "streaming", "ratio", "plain + read",
                "stream + read", "ratio");
    for (std::uint64_t size = smallest; size <= largest; size *= 2) {
        Rates rates;
        for (int round = 0; round < rounds; ++round) {
            double rate = 0, rate_read = 0;
            measure(area->bytes(), source, reader, size, copy_plain, &rate, &rate_read);
            rates.plain.push_back(rate);
            rates.plain_read.push_back(rate_read);
            measure(area->bytes(), source, reader, size, shm::copy_streaming, &rate, &rate_read);
            rates.streaming.push_back(rate);
            rates.streaming_read.push_back(rate_read);
        }
        const double plain = median(rates.plain), streaming = median(rates.streaming);
        const double plain_read = median(rates.plain_read), streaming_read = median(rates.streaming_read);
        std::printf("%-10s %8.2f %10.2f %7.2f   %14.2f %14.2f %7.2f\n", format_size(size).c_str(), plain,
                    streaming, streaming / plain, plain_read, streaming_read, streaming_read / plain_read);
        std::fflush(stdout);
    }
    return {};
}

}  // namespace maru::bench
