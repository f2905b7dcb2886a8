// maru-prefill: the part of an inference engine that computes KV-cache chunks and stores them.
//
// It stands for an engine's prefill worker: it fills pages in place, as a GPU copy would, and publishes each
// under the key that engines derive from the prompt. Another process (decode.cpp) that was told the keys and
// the seed can check every byte. The seed comes from the clock, so that bytes of an earlier run can never
// pass for these.
//
// Commands, a line each, on standard input; every answer ends with a line "ok" or "failed: REASON":
//   keys FIRST COUNT     prints "key KEY" for these chunks
//   store FIRST COUNT    fills and publishes these chunks
//   where CHUNK          region, page and address of a stored chunk in this process
//   reconnect            waits until the daemon answers on this session, at most 10 s
//   quit                 or the end of input

#include <maru/maru.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The shape of Llama-3.1-8B's cache for one chunk of tokens: K and V of each layer, in bf16.
struct Shape {
    std::uint64_t layers = 32, tokens = 256, heads = 8, head_size = 128, bytes_per_value = 2;
    std::uint64_t bytes() const { return 2 * layers * tokens * heads * head_size * bytes_per_value; }
};

/// Stands for the computation: word `at` of a chunk, different for each seed, chunk and place.
std::uint64_t computed(std::uint64_t seed, std::uint64_t chunk, std::uint64_t at) {
    std::uint64_t bits = seed + chunk * 0x9e3779b97f4a7c15 + at * 0xd1342543de82ef95;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
}

std::string key_of(std::uint64_t seed, std::uint64_t chunk) {
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx",
                  static_cast<unsigned long long>(computed(seed, chunk, 0x6b6579)));  // "key"
    return std::string("vllm@meta-llama/Llama-3.1-8B@1@0@") + hash + "@bfloat16";
}

class Prefill {
  public:
    Prefill(maru_client* client, Shape shape, std::uint64_t seed)
        : client_(client), shape_(shape), seed_(seed) {}

    std::optional<std::string> keys(std::uint64_t first, std::uint64_t count) const {
        for (std::uint64_t chunk = first; chunk < first + count; ++chunk)
            std::cout << "key " << key_of(seed_, chunk) << '\n';
        return {};
    }

    std::optional<std::string> store(std::uint64_t first, std::uint64_t count) {
        std::vector<double> published_us;
        const auto begin = Clock::now();
        for (std::uint64_t chunk = first; chunk < first + count; ++chunk) {
            maru_page page{};
            if (auto status = maru_alloc(client_, shape_.bytes(), &page); status != MARU_OK)
                return failure("alloc", status);
            auto* words = static_cast<std::uint64_t*>(page.data);
            for (std::uint64_t at = 0; at < shape_.bytes() / 8; ++at)
                words[at] = computed(seed_, chunk, at);

            const std::string key = key_of(seed_, chunk);
            const auto publish = Clock::now();
            const auto status = maru_store(client_, key.data(), key.size(), &page, shape_.bytes());
            published_us.push_back(seconds_since(publish) * 1e6);
            maru_free(client_, &page);  // the key keeps the page now
            if (status != MARU_OK) return failure("store", status);
        }
        report(count, seconds_since(begin), published_us);
        return {};
    }

    std::optional<std::string> where(std::uint64_t chunk) {
        const std::string key = key_of(seed_, chunk);
        maru_view view{};
        if (auto status = maru_retrieve(client_, key.data(), key.size(), &view); status != MARU_OK)
            return failure("retrieve", status);
        std::printf("chunk %llu: region %u, page %u, at %p in process %d (prefill)\n",
                    static_cast<unsigned long long>(chunk), view.region, view.page, view.data, getpid());
        maru_release(client_, &view);
        return {};
    }

    std::optional<std::string> reconnect() {
        const auto begin = Clock::now();
        maru_status status = maru_ping(client_);
        while (status != MARU_OK && seconds_since(begin) < 10) {
            usleep(10'000);
            status = maru_ping(client_);
        }
        if (status != MARU_OK) return failure("ping", status);
        maru_statistics statistics{};
        statistics.size = sizeof statistics;
        maru_stats(client_, &statistics);
        std::printf("session '%s' goes on: the daemon answers, %llu reconnects so far\n",
                    maru_instance_id(client_), static_cast<unsigned long long>(statistics.reconnects));
        return {};
    }

  private:
    void report(std::uint64_t count, double seconds, std::vector<double> published_us) const {
        std::sort(published_us.begin(), published_us.end());
        const double bytes = static_cast<double>(count * shape_.bytes());
        std::printf(
            "stored %llu chunks of %.1f MiB (%llu layers x %llu tokens x %llu heads x %llu x K,V x bf16) in "
            "%.2f s: "
            "%.2f GB/s computed in place, with the first touch of the memory; publish %.1f us "
            "each (median)\n",
            static_cast<unsigned long long>(count), static_cast<double>(shape_.bytes()) / (1 << 20),
            static_cast<unsigned long long>(shape_.layers), static_cast<unsigned long long>(shape_.tokens),
            static_cast<unsigned long long>(shape_.heads), static_cast<unsigned long long>(shape_.head_size),
            seconds, bytes / seconds / 1e9,
            published_us.empty() ? 0.0 : published_us[published_us.size() / 2]);
    }

    std::string failure(const char* call, maru_status status) const {
        return std::string(call) + ": " + maru_strerror(status) + " (" + maru_detail(client_) + ")";
    }

    maru_client* client_;
    Shape shape_;
    std::uint64_t seed_;
};

std::optional<std::string> obey(Prefill& prefill, const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::uint64_t first = 0, count = 0;
    words >> command;
    if (command == "keys" && words >> first >> count) return prefill.keys(first, count);
    if (command == "store" && words >> first >> count) return prefill.store(first, count);
    if (command == "where" && words >> first) return prefill.where(first);
    if (command == "reconnect") return prefill.reconnect();
    return "unknown command '" + line +
           "'; there are: keys FIRST COUNT, store FIRST COUNT, where CHUNK, reconnect, quit";
}

struct Arguments {
    std::string socket;
    std::uint64_t layers = 32;
    std::uint32_t timeout_ms = 0;  // 0: the library's
    bool valid = true;
};

bool read_number(const std::string& text, auto* number) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *number);
    return !text.empty() && parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
}

Arguments parse(int count, char** values) {
    Arguments arguments;
    for (int i = 1; i < count; i += 2) {
        const std::string name = values[i], value = i + 1 < count ? values[i + 1] : "";
        if (name == "--socket" && !value.empty()) {
            arguments.socket = value;
        } else if (name == "--layers") {
            arguments.valid = arguments.valid && read_number(value, &arguments.layers) &&
                              arguments.layers >= 1 && arguments.layers <= 1024;
        } else if (name == "--timeout-ms") {
            arguments.valid = arguments.valid && read_number(value, &arguments.timeout_ms);
        } else {
            arguments.valid = false;
        }
    }
    return arguments;
}

}  // namespace

int main(int argument_count, char** argument_values) {
    const Arguments arguments = parse(argument_count, argument_values);
    if (!arguments.valid) {
        std::cerr << "usage: maru-prefill [--socket PATH] [--layers 1..1024] [--timeout-ms N]\n";
        return 2;
    }
    Shape shape;
    shape.layers = arguments.layers;

    maru_options options = MARU_OPTIONS_INIT;
    options.server = arguments.socket.empty() ? nullptr : arguments.socket.c_str();
    if (arguments.timeout_ms != 0) options.timeout_ms = arguments.timeout_ms;
    options.instance_id = "prefill";
    options.page_size = shape.bytes();
    options.pool_size = 8 * shape.bytes();
    maru_client* client = nullptr;
    if (const auto status = maru_connect(&options, &client); status != MARU_OK) {
        std::cerr << "maru-prefill: " << maru_strerror(status) << " (" << maru_detail(nullptr) << ")\n";
        return 1;
    }

    const auto seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    std::cout << "seed " << seed << "\nok" << std::endl;
    Prefill prefill(client, shape, seed);
    for (std::string line; std::getline(std::cin, line) && line != "quit";) {
        const auto failure = obey(prefill, line);
        std::fflush(stdout);
        std::cout << (failure ? "failed: " + *failure : "ok") << std::endl;
    }
    maru_close(client);
    return 0;
}
