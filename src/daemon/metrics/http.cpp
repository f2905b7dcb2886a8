#include "daemon/metrics/http.hpp"

#include <algorithm>

namespace maru::daemon {
namespace {

constexpr std::string_view end_of_line = "\r\n";

HttpRequest refused(int status, std::string problem) {
    return HttpRequest{status, std::move(problem), true};
}

bool is_token(std::string_view text) {
    constexpr std::string_view others = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
               (letter >= '0' && letter <= '9') || others.find(letter) != std::string_view::npos;
    });
}

/// Visible ASCII only, as in a target.
bool is_visible(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char letter) { return letter > 0x20 && letter < 0x7f; });
}

bool is_field_value(std::string_view text) {
    return std::none_of(text.begin(), text.end(), [](char letter) {
        const auto code = static_cast<unsigned char>(letter);
        return (code < 0x20 && code != '\t') || code == 0x7f;
    });
}

bool same_name(std::string_view left, std::string_view right) {
    const auto lower = [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    };
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [&](char a, char b) { return lower(a) == lower(b); });
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
        text.remove_suffix(1);
    return text;
}

std::string_view take_line(std::string_view* rest) {
    const std::size_t end = rest->find(end_of_line);
    const std::string_view line = rest->substr(0, end);
    rest->remove_prefix(std::min(rest->size(), end + end_of_line.size()));
    return line;
}

struct Fields {
    std::size_t count = 0, hosts = 0;
    bool has_body = false;
};

/// Empty: the field is as it should be.
std::string take_field(std::string_view line, Fields* fields) {
    if (++fields->count > http_fields_max)
        return "more than " + std::to_string(http_fields_max) + " header fields";
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
        return "a malformed header field";
    const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
    if (!is_field_value(value)) return "a control character in a header field";
    if (same_name(name, "host")) ++fields->hosts;
    if (same_name(name, "transfer-encoding")) fields->has_body = true;
    if (same_name(name, "content-length") && value != "0") fields->has_body = true;
    return {};
}

HttpRequest read_head(std::string_view head) {
    const std::string_view line = take_line(&head);
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) return refused(400, "a malformed request line");
    const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                           version = line.substr(last + 1);
    if (!is_token(method) || !is_visible(target) || version.substr(0, 5) != "HTTP/")
        return refused(400, "a malformed request line");
    if (version != "HTTP/1.1" && version != "HTTP/1.0") return refused(505, "HTTP/1.1 is spoken here");
    Fields fields;
    while (!head.empty())
        if (auto problem = take_field(take_line(&head), &fields); !problem.empty())
            return refused(400, std::move(problem));
    if (fields.hosts > 1 || (fields.hosts == 0 && version == "HTTP/1.1"))
        return refused(400, "one Host field is needed");
    if (fields.has_body) return refused(400, "a request with a body");
    if (method != "GET" && method != "HEAD") return refused(405, "only GET and HEAD are answered");
    HttpRequest request;
    request.wants_body = method == "GET";
    if (target.substr(0, target.find('?')) == "/metrics") return request;
    request.status = 404;
    request.problem = "the metrics are at /metrics";
    return request;
}

const char* reason_of(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 431:
            return "Request Header Fields Too Large";
        case 503:
            return "Service Unavailable";
        case 505:
            return "HTTP Version Not Supported";
        default:
            return "Bad Request";
    }
}

}  // namespace

std::optional<HttpRequest> read_request(std::string_view received) {
    const std::size_t end = received.find("\r\n\r\n");
    if (end != std::string_view::npos && end + 4 <= http_head_bytes_max)
        return read_head(received.substr(0, end + end_of_line.size()));
    if (received.size() >= http_head_bytes_max)
        return refused(431, "a request head of more than " + std::to_string(http_head_bytes_max) + " bytes");
    // What cannot become a request any more is not waited for.
    if (!received.empty() && !is_token(received.substr(0, 1)))
        return refused(400, "a malformed request line");
    if (received.substr(0, received.find('\n')).find('\0') != std::string_view::npos)
        return refused(400, "a malformed request line");
    return {};
}

std::string write_answer(const HttpRequest& request, std::string_view body) {
    const std::string refusal = request.problem + "\n";
    const std::string_view content = request.status == 200 ? body : std::string_view(refusal);
    std::string answer = "HTTP/1.1 " + std::to_string(request.status) + " " + reason_of(request.status);
    answer += "\r\nContent-Type: text/plain; ";
    answer += request.status == 200 ? "version=0.0.4; charset=utf-8" : "charset=utf-8";
    answer += "\r\nContent-Length: " + std::to_string(content.size());
    if (request.status == 405) answer += "\r\nAllow: GET, HEAD";
    answer += "\r\nConnection: close\r\n\r\n";
    if (request.wants_body) answer += content;
    return answer;
}

}  // namespace maru::daemon
