// maru_options, checked and with its defaults filled in.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "maru/maru.h"

namespace maru::client {

struct Settings {
    std::string server;  // empty: search
    std::string instance_id;
    std::string name_space;
    std::uint64_t pool_bytes = 0, page_bytes = 0, expand_bytes = 0;
    bool page_bytes_given = false;
    bool expand = true, claim = true, prefault = true;
    std::chrono::milliseconds timeout{2000};
};

/// `options` may be NULL and may be shorter than this library knows it. Errors name the field and the value.
Result<Settings> read_options(const maru_options* options);

}  // namespace maru::client
