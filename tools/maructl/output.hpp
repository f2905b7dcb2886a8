// What maructl writes: lines, tables, bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace maru::ctl {

/// How maructl ends.
enum Exit : int {
    exit_done = 0,    // done, or yes
    exit_no = 1,      // no, not found, refused, findings
    exit_cannot = 2,  // wrong use, or no daemon
};

/// Writes all bytes, however few the descriptor takes at a time. An error says how many went; `broken_pipe`
/// is set when the reader has gone.
Result<void> write_all(int descriptor, std::string_view bytes, bool* broken_pipe = nullptr);

/// Standard output for people and programs. A reader that has had enough (`maructl keys | head`) ends the
/// program silently; another failure ends it with a message and exit_cannot.
void print(std::string_view text);

/// "maructl: TEXT" on standard error.
void complain(const std::string& text);

/// Complains of the error; returns `exit`.
int fail(const Error& error, Exit exit);

/// Asks on the terminal; true only for yes.
bool agreed(const std::string& question);

/// A line on the terminal that says how far a long command is, while its output goes elsewhere. Nothing where
/// standard error is no terminal, or standard output is one.
class Progress {
  public:
    Progress();
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void show(const std::string& text);

  private:
    bool wanted_;
    bool shown_ = false;
};

/// A table with a header line; numbers are right-aligned.
class Table {
  public:
    struct Column {
        const char* title;
        bool is_number = false;
    };
    explicit Table(std::vector<Column> columns);
    void add(std::vector<std::string> cells);
    /// What was added since the last call; the header comes once. Columns never get narrower from part to
    /// part.
    std::string take();
    bool empty() const { return rows_.empty(); }

  private:
    std::string line(const std::vector<std::string>& cells) const;

    std::vector<Column> columns_;
    std::vector<std::size_t> widths_;
    std::vector<std::vector<std::string>> rows_;
    bool header_done_ = false;
};

/// "3d 4h", "2h 5m", "17s".
std::string format_age(std::uint64_t seconds);

}  // namespace maru::ctl
