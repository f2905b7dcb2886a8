#include "output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "wire/key_text.hpp"

namespace maru::ctl {
namespace {

/// Characters that a terminal shows; texts here are printable, so that each character is one column.
std::size_t width_of(std::string_view text) {
    std::size_t width = 0;
    for (const char byte : text)
        width += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
    return width;
}

}  // namespace

Result<void> write_all(int descriptor, std::string_view bytes, bool* broken_pipe) {
    const auto whole = bytes.size();
    while (!bytes.empty()) {
        const auto written = ::write(descriptor, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
        if (written >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(written));
            continue;
        }
        if (errno == EINTR) continue;
        if (errno ==
            EAGAIN) {  // somebody made our terminal or pipe non-blocking; its reader decides when we go on
            pollfd ready{descriptor, POLLOUT, 0};
            if (::poll(&ready, 1, -1) >= 0 || errno == EINTR) continue;
        }
        if (broken_pipe != nullptr) *broken_pipe = errno == EPIPE;
        return Error{Code::unavailable, std::string("cannot write: ") + std::strerror(errno) + ", after " +
                                            std::to_string(whole - bytes.size()) + " of " +
                                            std::to_string(whole) + " bytes"};
    }
    return {};
}

void print(std::string_view text) {
    bool broken_pipe = false;
    const auto written = write_all(STDOUT_FILENO, text, &broken_pipe);
    if (written) return;
    if (broken_pipe) std::_Exit(exit_done);
    complain("standard output: " + written.error().text);
    std::_Exit(exit_cannot);
}

Progress::Progress() : wanted_(::isatty(STDERR_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 0) {}

Progress::~Progress() {
    if (shown_) static_cast<void>(static_cast<bool>(write_all(STDERR_FILENO, "\r\x1b[K")));
}

void Progress::show(const std::string& text) {
    if (!wanted_) return;
    shown_ = true;
    static_cast<void>(static_cast<bool>(write_all(STDERR_FILENO, "\r" + text + "\x1b[K")));
}

void complain(const std::string& text) {
    // Nobody can be told when this fails.
    static_cast<void>(static_cast<bool>(write_all(STDERR_FILENO, "maructl: " + text + "\n")));
}

int fail(const Error& error, Exit exit) {
    complain(error.text);
    return exit;
}

bool agreed(const std::string& question) {
    std::cerr << question << " [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
    for (const auto& column : columns_)
        widths_.push_back(width_of(column.title));
}

void Table::add(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    for (std::size_t i = 0; i < cells.size(); ++i)
        widths_[i] = std::max(widths_[i], width_of(cells[i]));
    rows_.push_back(std::move(cells));
}

std::string Table::line(const std::vector<std::string>& cells) const {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string space(widths_[i] - width_of(cells[i]), ' ');
        if (i > 0) text += "  ";
        text += columns_[i].is_number ? space + cells[i] : cells[i] + space;
    }
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string Table::take() {
    std::string text;
    if (!header_done_) {
        std::vector<std::string> titles;
        for (const auto& column : columns_)
            titles.emplace_back(column.title);
        text = line(titles);
        header_done_ = true;
    }
    for (const auto& row : rows_)
        text += line(row);
    rows_.clear();
    return text;
}

std::string format_age(std::uint64_t seconds) {
    const auto pair = [](std::uint64_t large, const char* large_unit, std::uint64_t small,
                         const char* small_unit) {
        return std::to_string(large) + large_unit +
               (small == 0 ? "" : " " + std::to_string(small) + small_unit);
    };
    if (seconds < 60) return std::to_string(seconds) + "s";
    if (seconds < 3600) return pair(seconds / 60, "m", seconds % 60, "s");
    if (seconds < 86400) return pair(seconds / 3600, "h", seconds % 3600 / 60, "m");
    return pair(seconds / 86400, "d", seconds % 86400 / 3600, "h");
}

}  // namespace maru::ctl
