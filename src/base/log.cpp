#include "base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace maru {
namespace {

/// "<6>" and the like, which the journal takes off and keeps as the message's priority.
class JournalPriority final : public spdlog::custom_flag_formatter {
  public:
    void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
        const char* text = "<6>";
        if (message.level <= spdlog::level::debug) text = "<7>";
        if (message.level == spdlog::level::warn) text = "<4>";
        if (message.level >= spdlog::level::err) text = "<3>";
        out.append(text, text + 3);
    }
    std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<JournalPriority>();
    }
};

/// systemd says in $JOURNAL_STREAM which device and inode the journal's end of stderr has.
bool stderr_is_journal() {
    const char* stream = std::getenv("JOURNAL_STREAM");
    struct stat status {};
    if (stream == nullptr || ::fstat(STDERR_FILENO, &status) != 0) return false;
    return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == stream;
}

std::unique_ptr<spdlog::formatter> formatter(bool journal) {
    auto made = std::make_unique<spdlog::pattern_formatter>();
    if (journal)
        made->add_flag<JournalPriority>('*').set_pattern("%*%v");
    else
        made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    return made;
}

}  // namespace

Result<std::string> parse_log_level(std::string_view text) {
    std::string lower;
    for (const char letter : text)
        lower += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    if (lower == "warning") lower = "warn";
    for (const char* known : {"trace", "debug", "info", "warn", "error"})
        if (lower == known) return lower;
    return Error{Code::invalid,
                 "\"" + std::string(text) + "\" is not a log level: write trace, debug, info, warn or error"};
}

Result<void> start_log(std::string_view level, const std::string& file) {
    const auto parsed = parse_log_level(level);
    if (!parsed) return parsed.error();
    spdlog::sink_ptr sink;
    try {
        if (file.empty())
            sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
        else
            sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    } catch (const spdlog::spdlog_ex& problem) {
        return Error{Code::unavailable,
                     "cannot write the log to " + file + " (daemon.log_file): " + problem.what()};
    }
    auto logger = std::make_shared<spdlog::logger>("maru", std::move(sink));
    logger->set_formatter(formatter(file.empty() && stderr_is_journal()));
    logger->set_level(spdlog::level::from_str(*parsed));
    logger->flush_on(spdlog::level::info);
    // A full disk must not speak through an exception in the middle of the daemon's work.
    logger->set_error_handler(
        [](const std::string& text) { std::fprintf(stderr, "maru: log: %s\n", text.c_str()); });
    spdlog::set_default_logger(std::move(logger));
    return {};
}

Result<void> set_log_level(std::string_view level) {
    const auto parsed = parse_log_level(level);
    if (!parsed) return parsed.error();
    spdlog::default_logger()->set_level(spdlog::level::from_str(*parsed));
    return {};
}

std::string log_level() {
    const auto level = spdlog::default_logger()->level();
    if (level == spdlog::level::warn) return "warn";
    if (level == spdlog::level::err) return "error";
    const auto name = spdlog::level::to_string_view(level);
    return {name.data(), name.size()};
}

}  // namespace maru
