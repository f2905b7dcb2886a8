#include "client/detail.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace maru::client {
namespace {

// One block a thread, touched by failing calls only.
thread_local char text_of_thread[1024];

}  // namespace

maru_status fail(Code code, const char* text) noexcept {
    const std::size_t size = std::min(std::strlen(text), sizeof text_of_thread - 1);
    std::memmove(text_of_thread, text, size);
    text_of_thread[size] = 0;
    return status_of(code);
}

maru_status fail(const Error& error) noexcept {
    return fail(error.code, error.text.c_str());
}

maru_status fail_with(Code code, const char* format, ...) noexcept {
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text_of_thread, sizeof text_of_thread, format, arguments);
    va_end(arguments);
    return status_of(code);
}

void remark(const std::string& text) noexcept {
    (void)fail(Code::ok, text.c_str());
}

const char* detail() noexcept {
    return text_of_thread;
}

}  // namespace maru::client
