// maru-decode: the part of an inference engine that reads KV-cache chunks which another process computed.
//
// It stands for an engine's decode worker. It knows keys and, to check what it reads, the seed that the
// chunks were computed from; it shares nothing else with the writer but the client library. It never copies:
// it reads the pages where the writer filled them, under a lease.
//
// Commands, a line each, on standard input; every answer ends with a line "ok" or "failed: REASON":
//   seed SEED            what the chunks were computed from
//   key KEY              the next chunk of the prompt
//   match                how many leading keys are present, with the time it took
//   verify               retrieves every chunk and compares every byte, with latency and rate
//   where CHUNK          region, page and address of a chunk in this process
//   read                 retrieves and verifies samples of all chunks over and over, until the next line
//   comes quit                 or the end of input

#include <maru/maru.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Failure = std::optional<std::string>;

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
}

/// What the writer must have put at word `at` of a chunk.
std::uint64_t expected(std::uint64_t seed, std::uint64_t chunk, std::uint64_t at) {
    std::uint64_t word = seed + 0x9e3779b97f4a7c15 * chunk + 0xd1342543de82ef95 * at;
    word ^= word >> 30;
    word *= 0xbf58476d1ce4e5b9;
    word ^= word >> 27;
    word *= 0x94d049bb133111eb;
    word ^= word >> 31;
    return word;
}

/// Lines of standard input, with a way to ask whether one waits. A std::istream could hold one back unseen.
class Lines {
  public:
    std::optional<std::string> next() {
        for (;;) {
            if (const auto end = buffer_.find('\n'); end != std::string::npos) {
                std::string line = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                return line;
            }
            char bytes[4096];
            const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
            if (got <= 0) return {};
            buffer_.append(bytes, static_cast<std::size_t>(got));
        }
    }
    bool waiting() const {
        pollfd input{STDIN_FILENO, POLLIN, 0};
        return !buffer_.empty() || ::poll(&input, 1, 0) != 0;
    }

  private:
    std::string buffer_;
};

class Decode {
  public:
    explicit Decode(maru_client* client) : client_(client) {}

    void seed(std::uint64_t value) { seed_ = value; }
    void key(std::string_view text) { keys_.emplace_back(text); }

    Failure match() const {
        std::vector<maru_key> keys;
        for (const auto& key : keys_)
            keys.push_back({key.data(), key.size()});
        std::size_t matched = 0;
        const auto begin = now_ns();
        const auto status = maru_match_prefix(client_, keys.data(), keys.size(), nullptr, &matched);
        const auto took = now_ns() - begin;
        if (status != MARU_OK) return failure("match_prefix", status);
        std::printf("prefix: %zu of %zu chunks are present, found in %.2f us\n", matched, keys.size(),
                    static_cast<double>(took) / 1e3);
        return matched == keys.size() ? Failure{} : "the prefix ends before the last key";
    }

    Failure verify() const {
        std::vector<std::uint64_t> retrieved_ns;
        std::uint64_t bytes = 0;
        const auto begin = now_ns();
        for (std::size_t chunk = 0; chunk < keys_.size(); ++chunk) {
            const auto asked = now_ns();
            maru_view view{};
            if (auto status = retrieve(chunk, view); status != MARU_OK) return failure("retrieve", status);
            retrieved_ns.push_back(now_ns() - asked);
            const auto wrong = compare(chunk, view, 1);
            bytes += view.size;
            maru_release(client_, &view);
            if (wrong) return wrong;
        }
        const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
        std::sort(retrieved_ns.begin(), retrieved_ns.end());
        std::printf(
            "verified every byte of %zu chunks in place, %.1f MiB in %.2f s; retrieve %.2f us each "
            "(median)\n",
            keys_.size(), static_cast<double>(bytes) / (1 << 20), seconds,
            retrieved_ns.empty() ? 0.0 : static_cast<double>(retrieved_ns[retrieved_ns.size() / 2]) / 1e3);
        return keys_.empty() ? Failure{"no key was given"} : Failure{};
    }

    Failure where(std::size_t chunk) const {
        if (chunk >= keys_.size()) return "there are " + std::to_string(keys_.size()) + " keys";
        maru_view view{};
        if (auto status = retrieve(chunk, view); status != MARU_OK) return failure("retrieve", status);
        std::printf("chunk %zu: region %u, page %u, at %p in process %d (decode)\n", chunk, view.region,
                    view.page, view.data, getpid());
        maru_release(client_, &view);
        return {};
    }

    /// Reads until a line waits: every 512th word of every chunk, so that each page of memory is touched.
    Failure read(const Lines& lines) const {
        if (keys_.empty()) return "no key was given";
        std::uint64_t reads = 0, slowest_ns = 0;
        while (!lines.waiting()) {
            const std::size_t chunk = reads++ % keys_.size();
            const auto asked = now_ns();
            maru_view view{};
            if (auto status = retrieve(chunk, view); status != MARU_OK) return failure("retrieve", status);
            slowest_ns = std::max(slowest_ns, now_ns() - asked);
            const auto wrong = compare(chunk, view, 512);
            maru_release(client_, &view);
            if (wrong) return wrong;
        }
        std::printf("%llu reads, no failure, slowest retrieve %.2f us\n",
                    static_cast<unsigned long long>(reads), static_cast<double>(slowest_ns) / 1e3);
        return {};
    }

  private:
    maru_status retrieve(std::size_t chunk, maru_view& view) const {
        return maru_retrieve(client_, keys_[chunk].data(), keys_[chunk].size(), &view);
    }

    Failure compare(std::size_t chunk, const maru_view& view, std::size_t stride) const {
        const auto* words = static_cast<const std::uint64_t*>(view.data);
        const std::size_t count = view.size / sizeof(std::uint64_t);
        if (count == 0) return "chunk " + std::to_string(chunk) + " is empty";
        for (std::size_t at = 0; at < count; at += stride) {
            if (words[at] != expected(seed_, chunk, at))
                return "chunk " + std::to_string(chunk) + " differs at byte " + std::to_string(at * 8);
        }
        return {};
    }

    std::string failure(const char* call, maru_status status) const {
        return std::string(call) + ": " + maru_strerror(status) + " (" + maru_detail(client_) + ")";
    }

    maru_client* client_;
    std::uint64_t seed_ = 0;
    std::vector<std::string> keys_;
};

Failure obey(Decode& decode, const Lines& lines, const std::string& line) {
    const auto space = line.find(' ');
    const std::string command = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    const bool number = !argument.empty() && argument.find_first_not_of("0123456789") == std::string::npos &&
                        argument.size() <= 19;
    if (command == "match") return decode.match();
    if (command == "verify") return decode.verify();
    if (command == "read") return decode.read(lines);
    if (command == "where" && number) return decode.where(std::stoull(argument));
    if (command == "seed" && number) return decode.seed(std::stoull(argument)), Failure{};
    if (command == "key" && !argument.empty()) return decode.key(argument), Failure{};
    return "unknown command '" + line +
           "'; there are: seed SEED, key KEY, match, verify, where CHUNK, read, quit";
}

}  // namespace

int main(int argument_count, char** argument_values) {
    const std::vector<std::string> arguments(argument_values + 1, argument_values + argument_count);
    maru_options options = MARU_OPTIONS_INIT;
    for (std::size_t i = 0; i < arguments.size(); i += 2) {
        const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
        const auto end = value.data() + value.size();
        if (arguments[i] == "--socket" && !value.empty()) {
            options.server = arguments[i + 1].c_str();
        } else if (arguments[i] != "--timeout-ms" || value.empty() ||
                   std::from_chars(value.data(), end, options.timeout_ms).ptr != end) {
            std::cerr << "usage: maru-decode [--socket PATH] [--timeout-ms N]\n";
            return 2;
        }
    }
    options.instance_id = "decode";
    options.no_claim = 1;  // it only reads
    maru_client* client = nullptr;
    if (const auto status = maru_connect(&options, &client); status != MARU_OK) {
        std::cerr << "maru-decode: " << maru_strerror(status) << " (" << maru_detail(nullptr) << ")\n";
        return 1;
    }
    std::cout << "ok" << std::endl;

    Decode decode(client);
    Lines lines;
    for (auto line = lines.next(); line && *line != "quit"; line = lines.next()) {
        const Failure failure = obey(decode, lines, *line);
        std::fflush(stdout);
        std::cout << (failure ? "failed: " + *failure : "ok") << std::endl;
    }
    maru_close(client);
    return 0;
}
