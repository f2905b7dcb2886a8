// What a scraper sends to the metrics endpoint: its head, whole and in pieces, and the answer to it. The
// first byte says how long the pieces are.
#include <array>
#include <iterator>
#include <optional>

#include "daemon/metrics/http.hpp"
#include "target.hpp"

using namespace maru::daemon;
using maru::fuzz::require;

namespace {

// The statuses of requests; 408 and 503 are about connections.
constexpr int statuses[] = {200, 400, 404, 405, 431, 505};
std::array<bool, std::size(statuses)> reached;
bool reached_head = false;

void count(const HttpRequest& request) {
    const auto found = std::find(std::begin(statuses), std::end(statuses), request.status);
    require(found != std::end(statuses), "a status that no request has");
    reached[static_cast<std::size_t>(found - std::begin(statuses))] = true;
    reached_head = reached_head || (request.status == 200 && !request.wants_body);
}

void is_sound(const HttpRequest& request) {
    count(request);
    require(request.problem.empty() == (request.status == 200),
            "a refusal without a reason, or a reason without one");
    require(request.problem.find_first_of("\r\n") == std::string::npos, "a reason of more than one line");
}

/// One answer: a status line and fields without anything of the request in them, then the body.
void answers_well(const HttpRequest& request) {
    const std::string body = "maru_build_info 1\n";
    const std::string answer = write_answer(request, body);
    const std::size_t end = answer.find("\r\n\r\n");
    require(answer.compare(0, 9, "HTTP/1.1 ") == 0 && end != std::string::npos, "an answer without a head");
    const std::string head = answer.substr(0, end + 2), content = answer.substr(end + 4);
    require(std::all_of(head.begin(), head.end(),
                        [](char letter) {
                            return (letter >= 0x20 && letter < 0x7f) || letter == '\r' || letter == '\n';
                        }),
            "an answer's head with strange letters");
    const std::string said = request.status == 200 ? body : request.problem + "\n";
    require(head.find("\r\nContent-Length: " + std::to_string(said.size()) + "\r\n") != std::string::npos,
            "an answer of another length than it says");
    require(content == (request.wants_body ? said : std::string()), "an answer with another content");
}

/// As the server reads a connection.
std::optional<HttpRequest> in_pieces(const std::string& bytes, std::size_t piece) {
    std::string received;
    std::optional<HttpRequest> request;
    for (std::size_t at = 0; at < bytes.size() && !request; at += piece) {
        received.append(bytes, at, std::min(piece, http_head_bytes_max - received.size()));
        request = read_request(received);
        require(request || received.size() < http_head_bytes_max, "a head without an end is waited for");
    }
    return request;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    maru::fuzz::Input input(data, size);
    const std::size_t piece = 1 + input.byte();
    const std::string bytes = input.rest();
    const auto whole = read_request(bytes.substr(0, http_head_bytes_max));
    if (whole) {
        is_sound(*whole);
        answers_well(*whole);
        const auto more = read_request((bytes + "\r\nX: y\r\n\r\n").substr(0, http_head_bytes_max));
        require(more && (more->status == 200) == (whole->status == 200),
                "what comes later changes an answer");
    }
    const auto parts = in_pieces(bytes, piece);
    require(bool(parts) == bool(whole), "in pieces a head ends elsewhere");
    if (!parts) return 0;
    is_sound(*parts);
    require((parts->status == 200) == (whole->status == 200), "in pieces another request is read");
    return 0;
}

extern "C" const char* maru_fuzz_unreached() {
    static std::string missing;
    missing.clear();
    for (std::size_t i = 0; i < std::size(statuses); ++i)
        if (!reached[i]) missing += std::to_string(statuses[i]) + " ";
    if (!reached_head) missing += "HEAD";
    return missing.c_str();
}
