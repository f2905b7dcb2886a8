// The screens of marutop as lines of text: the same on a terminal and in a file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "top/look.hpp"

namespace maru::ctl::top {

/// How much of a thing is in use, for a colour.
enum class Load { none, low, high, full };
Load load_of(std::uint64_t used, std::uint64_t total);

struct Line {
    std::string text;
    Load load = Load::none;
    bool is_title = false, is_selected = false;
};

enum class Sort { allocated, used, slack, pinned, operations, hits, name };
const char* name_of(Sort sort);
Sort next(Sort sort);

/// What a screen is made from. `before` may be nullptr.
struct Subject {
    const Look& now;
    const Look* before;
    Sort sort = Sort::allocated;
};

/// Instances in the order that `sort` asks for; the largest first, names from A on.
std::vector<const Instance*> sorted(const Subject& subject);

Line summary(const Subject& subject);
/// Both with a line of titles first. Lines are `width` columns at most: names give way, numbers do not.
std::vector<Line> device_lines(const Subject& subject, std::size_t width);
std::vector<Line> instance_lines(const Subject& subject, std::size_t width);
/// Everything about one instance.
std::vector<Line> lines_of(const Instance& instance, const Subject& subject, std::size_t width);

/// A text in just so many columns; one that is too long ends in "~". Text of this program and of the daemon
/// is printable, and each character is taken for one column.
std::string fit(const std::string& text, std::size_t width, bool right = false);

}  // namespace maru::ctl::top
