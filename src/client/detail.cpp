#include "client/detail.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace maru::client {
namespace {

constexpr std::size_t text_bytes = 1024;

// On the heap: thread-local storage of a library that is loaded at run time is scarce. Made by the first
// failing call of a thread.
struct DetailText {
    char* bytes = nullptr;
    ~DetailText() { std::free(std::exchange(bytes, nullptr)); }
};
thread_local DetailText text_of_thread;

char* room() noexcept {
    char*& bytes = text_of_thread.bytes;
    if (bytes == nullptr) bytes = static_cast<char*>(std::calloc(1, text_bytes));
    return bytes;
}

}  // namespace

maru_status fail(Code code, const char* text) noexcept {
    char* const to = room();
    if (to == nullptr) return status_of(code);
    const std::size_t size = std::min(std::strlen(text), text_bytes - 1);
    std::memmove(to, text, size);
    to[size] = 0;
    return status_of(code);
}

maru_status fail(const Error& error) noexcept {
    return fail(error.code, error.text.c_str());
}

maru_status fail_with(Code code, const char* format, ...) noexcept {
    char* const to = room();
    if (to == nullptr) return status_of(code);
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(to, text_bytes, format, arguments);
    va_end(arguments);
    return status_of(code);
}

void remark(const std::string& text) noexcept {
    if (text.empty() && text_of_thread.bytes == nullptr) return;
    (void)fail(Code::ok, text.c_str());
}

const char* detail() noexcept {
    return text_of_thread.bytes == nullptr ? "" : text_of_thread.bytes;
}

}  // namespace maru::client
