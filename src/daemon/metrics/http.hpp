// As much of HTTP/1.1 as a scrape needs: one request without a body for a connection, one answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace maru::daemon {

inline constexpr std::size_t http_head_bytes_max = 8 * 1024;
inline constexpr std::size_t http_fields_max = 64;

/// What a request asks for, or why it is refused.
struct HttpRequest {
    int status = 200;        ///< 200, or the status to refuse it with
    std::string problem;     ///< a sentence for whoever sent it; empty for 200
    bool wants_body = true;  ///< false: HEAD
};

/// Reads what has come of a request so far. Nothing while its head is not complete: never for more than
/// http_head_bytes_max. Strict: what is not plainly a request of RFC 9112 without a body is refused.
std::optional<HttpRequest> read_request(std::string_view received);

/// The whole answer: a status line, fields, and the body unless it was HEAD that asked. The connection ends
/// with it.
std::string write_answer(const HttpRequest& request, std::string_view body);

}  // namespace maru::daemon
