// The HTTP that a scrape speaks: what is answered, what is refused, what is waited for.
#include <doctest/doctest.h>

#include <string>

#include "daemon/metrics/http.hpp"

namespace maru::daemon {
namespace {

const std::string host = "Host: here\r\n";

int status_of(const std::string& received) {
    const auto request = read_request(received);
    return request ? request->status : 0;
}

std::string get(const std::string& target, const std::string& fields = host) {
    return "GET " + target + " HTTP/1.1\r\n" + fields + "\r\n";
}

TEST_CASE("a scrape as Prometheus sends it is answered") {
    const auto request = read_request(
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\nUser-Agent: Prometheus/2.42.0\r\n"
        "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\nAccept-Encoding: gzip\r\n"
        "X-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n");
    REQUIRE(request);
    CHECK(request->status == 200);
    CHECK(request->wants_body);
}

TEST_CASE("nothing is decided before the head is whole") {
    const std::string whole = get("/metrics");
    for (std::size_t length = 0; length < whole.size(); ++length) {
        CAPTURE(length);
        CHECK_FALSE(read_request(whole.substr(0, length)));
    }
    CHECK(status_of(whole) == 200);
    CHECK(status_of(whole + "what comes behind it is not read") == 200);
}

TEST_CASE("methods, targets and versions") {
    CHECK(status_of("HEAD /metrics HTTP/1.1\r\n" + host + "\r\n") == 200);
    CHECK_FALSE(read_request("HEAD /metrics HTTP/1.1\r\n" + host + "\r\n")->wants_body);
    CHECK(status_of("GET /metrics HTTP/1.0\r\n\r\n") == 200);
    CHECK(status_of(get("/metrics?collect=all")) == 200);
    for (const char* target : {"/", "/metrics/", "/metric", "*", "http://here/metrics", "/../metrics"}) {
        CAPTURE(target);
        CHECK(status_of(get(target)) == 404);
    }
    for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"}) {
        CAPTURE(method);
        CHECK(status_of(method + (" /metrics HTTP/1.1\r\n" + host) + "\r\n") == 405);
    }
    for (const char* version : {"HTTP/0.9", "HTTP/2", "HTTP/1.2", "HTTP/1.1x"}) {
        CAPTURE(version);
        CHECK(status_of(std::string("GET /metrics ") + version + "\r\n" + host + "\r\n") == 505);
    }
}

TEST_CASE("what is plainly no request is refused") {
    for (const std::string& bad :
         {std::string("GET /metrics\r\n\r\n"), std::string("GET  HTTP/1.1\r\n\r\n"),
          std::string("GET /a b HTTP/1.1\r\n\r\n"), std::string("G\x01T /metrics HTTP/1.1\r\n\r\n"),
          std::string("\r\nGET /metrics HTTP/1.1\r\n\r\n"), get("/metrics", ""), get("/metrics", host + host),
          get("/metrics", host + "no colon\r\n"), get("/metrics", host + " folded: x\r\n"),
          get("/metrics", host + "Space : x\r\n"), get("/metrics", host + "X: a\x02z\r\n"),
          get("/metrics", host + "X: a\nY: b\r\n"), get("/metrics", host + "Content-Length: 1\r\n"),
          get("/metrics", host + "Content-Length: x\r\n"),
          get("/metrics", host + "transfer-ENCODING: chunked\r\n"), std::string("\x16\x03\x01\x02"),
          std::string("GE\0", 3)}) {
        CAPTURE(bad);
        CHECK(status_of(bad) == 400);
    }
    CHECK(status_of(get("/metrics", host + "Content-Length: 0\r\n")) == 200);
}

TEST_CASE("a head has a limit, in bytes and in fields") {
    CHECK(status_of("GET /metrics HTTP/1.1\r\nX: " + std::string(http_head_bytes_max, 'x')) == 431);
    CHECK(status_of(std::string(http_head_bytes_max - 1, 'G')) == 0);
    CHECK(status_of(std::string(http_head_bytes_max, 'G')) == 431);
    std::string fields = host;
    for (std::size_t i = 1; i < http_fields_max; ++i)
        fields += "X: y\r\n";
    CHECK(status_of(get("/metrics", fields)) == 200);
    CHECK(status_of(get("/metrics", fields + "X: y\r\n")) == 400);
}

TEST_CASE("answers say what they are") {
    const std::string good = write_answer({}, "text\n");
    CHECK(good.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(good.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n") != std::string::npos);
    CHECK(good.find("Content-Length: 5\r\n") != std::string::npos);
    CHECK(good.ends_with("\r\n\r\ntext\n"));
    CHECK(
        write_answer({200, "", false}, "text\n").ends_with("Content-Length: 5\r\nConnection: close\r\n\r\n"));
    const std::string refused =
        write_answer(*read_request("PUT /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "text\n");
    CHECK(refused.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"));
    CHECK(refused.find("Allow: GET, HEAD\r\n") != std::string::npos);
    CHECK(refused.find("text\n") == std::string::npos);
}

}  // namespace
}  // namespace maru::daemon
