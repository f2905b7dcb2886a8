// Values from and to the shell, through the client library.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/descriptor.hpp"
#include "base/size.hpp"
#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "maru/maru.h"
#include "output.hpp"
#include "wire/key_text.hpp"

namespace maru::ctl {
namespace {

constexpr std::uint64_t default_page_bytes = 1 * MiB;

struct CloseClient {
    void operator()(maru_client* client) const { maru_close(client); }
};
using Client = std::unique_ptr<maru_client, CloseClient>;

std::string shown(const std::string& key) {
    const auto text = wire::key_text(key);
    return text.size() <= 200
               ? text
               : wire::printable(text.substr(0, 200)) + "... (" + std::to_string(key.size()) + " bytes)";
}

/// What the library says about its last failure here.
std::string detail_of(maru_client* client, maru_status status) {
    const std::string detail = maru_detail(client);
    return detail.empty() ? maru_strerror(status) : detail;
}

int fail(const std::string& text, int code = exit_cannot) {
    complain(text);
    return code;
}

/// Code for a failure of the library: a refusal is an answer, a daemon that is not there is none.
int exit_of(maru_status status) {
    const bool cannot = status == MARU_ERR_UNAVAILABLE || status == MARU_ERR_TIMEOUT ||
                        status == MARU_ERR_VERSION || status == MARU_ERR_DENIED;
    return cannot ? exit_cannot : exit_no;
}

int connect(const Options& options, std::uint64_t page_bytes, Client* client) {
    const std::string name = "maructl-" + std::to_string(::getpid());
    maru_options wanted = MARU_OPTIONS_INIT;
    wanted.server = options.socket.empty() ? nullptr : options.socket.c_str();
    wanted.instance_id = name.c_str();
    wanted.page_size = page_bytes;
    wanted.pool_size = page_bytes;
    wanted.no_claim = 1;
    wanted.no_prefault = 1;
    maru_client* made = nullptr;
    const auto status = maru_connect(&wanted, &made);
    client->reset(made);
    if (status == MARU_OK) return exit_done;
    const bool absent = status == MARU_ERR_UNAVAILABLE || status == MARU_ERR_TIMEOUT;
    return fail(detail_of(nullptr, status) + (absent ? "\n" + how_to_start() : ""), exit_of(status));
}

std::string error_text(const std::string& name) {
    return name + ": " + std::strerror(errno);
}

/// Reads to the end, but no more than `limit` + 1 bytes: one too many tells that the value is too large.
Result<std::string> read_value(const std::string& name, std::uint64_t limit) {
    Descriptor file;
    int number = STDIN_FILENO;
    if (name != "-") {
        file = Descriptor(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
        if (!file) return Error{Code::invalid, error_text(name)};
        number = file.get();
    }
    struct stat status {};
    const std::string from = name == "-" ? "standard input" : name;
    if (::fstat(number, &status) != 0) return Error{Code::invalid, error_text(from)};
    if (S_ISDIR(status.st_mode)) return Error{Code::invalid, name + " is a directory: give a file or a pipe"};
    std::string value;
    while (value.size() <= limit) {
        const auto begin = value.size();
        const auto room =
            std::min<std::uint64_t>(limit + 1 - begin, std::max<std::uint64_t>(64 * KiB, begin));
        value.resize(begin + room);
        const auto got = ::read(number, value.data() + begin, room);
        value.resize(begin + (got > 0 ? static_cast<std::size_t>(got) : 0));
        if (got < 0 && errno != EINTR) return Error{Code::invalid, error_text(from)};
        if (got == 0) break;
    }
    return value;
}

/// Pages of a power of two, so that values of like sizes share regions.
std::uint64_t page_bytes_for(std::uint64_t value_bytes, std::uint64_t largest) {
    if (value_bytes <= std::min(default_page_bytes, largest)) return std::min(default_page_bytes, largest);
    const auto power = std::bit_ceil(value_bytes);
    return power <= largest ? power : round_up(value_bytes, 4 * KiB);
}

Result<std::uint64_t> largest_page(const Options& options) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return daemon.error();
    const auto answer = daemon->ask("ping", Json::object());
    if (!answer) return answer.error();
    const auto bytes = number(*answer, "page_bytes_max");
    return bytes == 0 ? default_page_bytes : bytes;
}

int deliver(const maru_view& view, const std::string& key, const std::string& output) {
    const std::string_view bytes(static_cast<const char*>(view.data), view.size);
    Descriptor file;
    if (output != "-") {
        file = Descriptor(::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
        if (!file) return fail(error_text(output));
    }
    const auto written = write_all(file ? file.get() : STDOUT_FILENO, bytes);
    const std::string to = file ? output : "standard output";
    if (!written) return fail(to + ": " + written.error().text + " of " + shown(key), exit_no);
    // A full or remote file system may tell only now.
    if (file && ::close(file.release()) != 0) return fail(error_text(output), exit_no);
    return exit_done;
}

}  // namespace

int get_value(const Options& options, const std::string& key, const std::string& output) {
    Client client;
    if (const int failed = connect(options, 0, &client); failed != exit_done) return failed;
    maru_view view{};
    const auto status = maru_retrieve(client.get(), key.data(), key.size(), &view);
    if (status == MARU_MISS) return fail(shown(key) + " is not present", exit_no);
    if (status != MARU_OK) return fail(shown(key) + ": " + detail_of(client.get(), status), exit_of(status));
    const int code = deliver(view, key, output);
    maru_release(client.get(), &view);
    return code;
}

int put_value(const Options& options, const std::string& key, const std::string& input,
              std::uint64_t page_bytes) {
    const auto largest = largest_page(options);
    if (!largest) return fail(largest.error().text);
    const auto limit = page_bytes == 0 ? *largest : page_bytes;
    const auto value = read_value(input, limit);
    if (!value) return fail(value.error().text);
    if (value->size() > limit)
        return fail((input == "-" ? "standard input" : input) + " is larger than one page, " +
                        format_size(limit) +
                        (page_bytes == 0 ? ": pages of this domain are no larger; add a larger [[pool]]"
                                         : ": give a larger --page-size, or none"),
                    exit_no);
    Client client;
    const auto page = page_bytes == 0 ? page_bytes_for(value->size(), *largest) : page_bytes;
    if (const int failed = connect(options, page, &client); failed != exit_done) return failed;
    // Looked up first, so that a refusal claims no memory.
    auto status = maru_exists(client.get(), key.data(), key.size());
    if (status == MARU_MISS)
        status = maru_put(client.get(), key.data(), key.size(), value->data(), value->size());
    else if (status == MARU_OK)
        status = MARU_EXISTS;
    if (status == MARU_EXISTS)
        return fail(shown(key) + " is already present; its first value stays (`maructl rm` removes it)",
                    exit_no);
    if (status != MARU_OK) return fail(shown(key) + ": " + detail_of(client.get(), status), exit_of(status));
    if (options.json)
        print(Json{{"key", shown(key)},
                   {"key_hex", wire::hex_of(key)},
                   {"size", value->size()},
                   {"stored", true}}
                  .dump(2) +
              "\n");
    else
        print("stored " + shown(key) + ", " + format_size(value->size()) + "\n");
    return exit_done;
}

int remove_keys(const Options& options, const std::vector<std::string>& keys) {
    Client client;
    if (const int failed = connect(options, 0, &client); failed != exit_done) return failed;
    int code = exit_done;
    Json rows = Json::array();
    for (const auto& key : keys) {
        const auto status = maru_remove(client.get(), key.data(), key.size());
        std::string result = "removed";
        if (status == MARU_MISS) result = "not present";
        if (status == MARU_ERR_PINNED) result = "pinned: its pin must end first";
        if (status < 0 && status != MARU_ERR_PINNED) result = detail_of(client.get(), status);
        if (status != MARU_OK)
            code = std::max(code, status < 0 ? exit_of(status) : static_cast<int>(exit_no));
        if (options.json)
            rows.push_back({{"key", shown(key)},
                            {"key_hex", wire::hex_of(key)},
                            {"removed", status == MARU_OK},
                            {"result", result}});
        else if (status == MARU_OK)
            print("removed " + shown(key) + "\n");
        else
            complain(shown(key) + ": " + result);
    }
    if (options.json) print(Json{{"keys", rows}}.dump(2) + "\n");
    return code;
}

int ask_exists(const Options& options, const std::string& key) {
    Client client;
    if (const int failed = connect(options, 0, &client); failed != exit_done) return failed;
    const auto status = maru_exists(client.get(), key.data(), key.size());
    if (status < 0) return fail(shown(key) + ": " + detail_of(client.get(), status), exit_of(status));
    if (options.json)
        print(
            Json{{"key", shown(key)}, {"key_hex", wire::hex_of(key)}, {"exists", status == MARU_OK}}.dump(2) +
            "\n");
    else
        print(status == MARU_OK ? "yes\n" : "no\n");
    return status == MARU_OK ? exit_done : exit_no;
}

}  // namespace maru::ctl
