// The daemon's log. Use spdlog's free functions (spdlog::info, ...) after start_log; nothing else keeps
// global state.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace maru {

/// The level's one spelling ("warn" for "Warning") from any case; an error lists what is allowed.
Result<std::string> parse_log_level(std::string_view text);

/// Sends the log to stderr, or appends it to `file` when that is not empty. To the journal of systemd it goes
/// with priorities and without a time of its own. An error names the file; the log is then as it was.
/// Threads: once, before others are started; logging itself is for any thread.
Result<void> start_log(std::string_view level, const std::string& file);

/// At run time, from any thread.
Result<void> set_log_level(std::string_view level);
/// What it is now, as parse_log_level gives it.
std::string log_level();

}  // namespace maru
