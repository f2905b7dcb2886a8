// What the last failed call of a thread had to say.
#pragma once

#include "base/result.hpp"
#include "maru/maru.h"

namespace maru::client {

/// Keeps the text for maru_detail of the calling thread; longer texts are cut.
maru_status fail(Code code, const char* text) noexcept;
maru_status fail(const Error& error) noexcept;
/// The same with a format of printf; allocates nothing.
[[gnu::format(printf, 2, 3)]] maru_status fail_with(Code code, const char* format, ...) noexcept;

/// Keeps a text that is no error: the warning of a call that succeeded.
void remark(const std::string& text) noexcept;

const char* detail() noexcept;

constexpr maru_status status_of(Code code) {
    return static_cast<maru_status>(code);
}

}  // namespace maru::client
