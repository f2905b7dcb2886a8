// The live view on a terminal.
#define NCURSES_NOMACROS
#include <curses.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdio>
#include <cstdlib>

#include "fields.hpp"
#include "output.hpp"
#include "top/lines.hpp"
#include "top/top.hpp"

namespace maru::ctl::top {
namespace {

constexpr int key_escape = 27, key_line_feed = '\n', key_return = '\r';
constexpr std::array<int, 6> intervals_ms{500, 1000, 2000, 5000, 10'000, 60'000};

/// The terminal while the view has it; given back as it was.
class Terminal {
  public:
    Terminal() {
        std::setlocale(LC_ALL, "");
        screen_ = ::newterm(nullptr, stdout, stdin);
        if (screen_ == nullptr) return;
        ::cbreak();
        ::noecho();
        ::nonl();
        ::keypad(stdscr, true);
        ::set_escdelay(25);
        ::curs_set(0);
        if (::has_colors()) {
            ::start_color();
            ::use_default_colors();
            ::init_pair(pair_of(Load::low), COLOR_GREEN, -1);
            ::init_pair(pair_of(Load::high), COLOR_YELLOW, -1);
            ::init_pair(pair_of(Load::full), COLOR_RED, -1);
        }
    }
    ~Terminal() {
        if (screen_ == nullptr) return;
        ::endwin();
        ::delscreen(screen_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    explicit operator bool() const { return screen_ != nullptr; }
    std::size_t width() const { return static_cast<std::size_t>(std::max(1, COLS)); }
    std::size_t height() const { return static_cast<std::size_t>(std::max(1, LINES)); }

    /// Everything anew; curses sends the terminal only what differs, so that nothing flickers.
    void show(const std::vector<Line>& lines) {
        ::werase(stdscr);
        for (std::size_t y = 0; y < std::min(lines.size(), height()); ++y) {
            const auto& line = lines[y];
            attr_t attributes = A_NORMAL;
            if (line.is_title) attributes |= A_BOLD;
            if (line.is_selected) attributes |= A_REVERSE;
            if (::has_colors() && line.load != Load::none)
                attributes |= static_cast<attr_t>(COLOR_PAIR(pair_of(line.load)));
            ::wattrset(stdscr, static_cast<int>(attributes));
            ::wmove(stdscr, static_cast<int>(y), 0);
            ::waddstr(stdscr, fit(line.text, width()).c_str());
        }
        ::wattrset(stdscr, A_NORMAL);
        ::wrefresh(stdscr);
    }
    /// A key, KEY_RESIZE, or ERR when the time is over.
    int key(int limit_ms) {
        ::wtimeout(stdscr, std::max(0, limit_ms));
        return ::wgetch(stdscr);
    }

  private:
    static short pair_of(Load load) { return static_cast<short>(load); }

    SCREEN* screen_ = nullptr;
};

/// Whom the arrows point to, while rows come, go and change places.
struct Selection {
    std::uint64_t slot = 0, generation = 0;

    std::size_t index_in(const std::vector<const Instance*>& rows) const {
        for (std::size_t i = 0; i < rows.size(); ++i)
            if (rows[i]->slot == slot && rows[i]->generation == generation) return i;
        return 0;
    }
    void take(const Instance& instance) { *this = {instance.slot, instance.generation}; }
};

class View {
  public:
    explicit View(const Request& request) : request_(request), pause_(request.pause()) {}

    /// False: as often as was asked for.
    bool look() {
        due_ = deadline_after(pause_);
        if (!daemon_) {
            auto found = Daemon::find(request_.options.socket);
            if (!found) return failed(found.error().text);
            daemon_ = std::move(*found);
        }
        auto look = look_at(*daemon_);
        if (!look) return failed(look.error().text);
        problem_.clear();
        before_ = std::move(now_);
        now_ = std::move(*look);
        return !request_.count || ++looks_ < *request_.count;
    }
    bool has_looked() const { return now_.has_value(); }
    const std::string& problem() const { return problem_; }
    int wait_ms() const { return milliseconds_left(due_); }
    bool is_due() const { return MonotonicClock::now() >= due_; }

    std::vector<Line> lines(std::size_t width, std::size_t height);
    /// False: the view is to end.
    bool press(int key);

  private:
    bool failed(const std::string& why) {
        problem_ = why;
        daemon_.reset();
        before_.reset();
        return true;
    }
    Subject subject() const { return {*now_, before_ ? &*before_ : nullptr, sort_}; }
    Line head() const;
    void add_instances(std::size_t width, std::size_t room, std::vector<Line>* lines);
    void add_one(std::size_t width, std::vector<Line>* lines);
    void move(int steps);

    const Request& request_;
    std::chrono::milliseconds pause_;
    std::optional<Daemon> daemon_;
    std::optional<Look> now_, before_;
    std::string problem_;
    Deadline due_{};
    std::uint64_t looks_ = 0;
    Sort sort_ = Sort::allocated;
    Selection selected_;
    std::size_t first_ = 0;  // of the instances that are shown
    bool one_ = false;       // only the selected instance is shown
};

Line View::head() const {
    char pause[32];
    std::snprintf(pause, sizeof pause, "%g s", static_cast<double>(pause_.count()) / 1000);
    if (!problem_.empty())
        return {"trying again: " + problem_.substr(0, problem_.find('\n')), Load::full, true};
    return {"maru " + text(now_->status, "daemon", "version") + "  " + top::text_of(now_->time) + "  every " +
                pause + "  " + text(now_->status, "daemon", "socket"),
            Load::none, true};
}

std::vector<Line> View::lines(std::size_t width, std::size_t height) {
    std::vector<Line> lines;
    if (!now_) return {{"looking for a daemon", Load::none}, {problem_, Load::full}};
    lines.push_back(head());
    lines.push_back(summary(subject()));
    lines.push_back({});
    if (one_) {
        add_one(width, &lines);
    } else {
        auto devices = device_lines(subject(), width);
        const std::size_t most = std::max<std::size_t>(2, height / 3);
        if (devices.size() > most) {
            const std::size_t hidden = devices.size() - most + 1;
            devices.resize(most - 1);
            devices.push_back({"and " + std::to_string(hidden) + " more: marutop pool"});
        }
        lines.insert(lines.end(), devices.begin(), devices.end());
        lines.push_back({});
        const std::size_t taken = lines.size() + 1;
        add_instances(width, height > taken ? height - taken : 1, &lines);
    }
    lines.resize(std::max<std::size_t>(height, 1) - 1);
    lines.push_back({one_ ? "enter back  i interval  q quit"
                          : std::string("arrows select  enter one instance  s sort (") + name_of(sort_) +
                                ")  i interval  q quit",
                     Load::none, true});
    return lines;
}

void View::add_instances(std::size_t width, std::size_t room, std::vector<Line>* lines) {
    auto rows = instance_lines(subject(), width);
    lines->push_back(rows.front());
    const auto order = sorted(subject());
    if (order.empty()) {
        lines->push_back({"no instance is connected"});
        return;
    }
    const std::size_t selected = selected_.index_in(order),
                      shown = std::max<std::size_t>(1, room - std::min<std::size_t>(room, 1));
    selected_.take(*order[selected]);
    first_ = std::min(first_, selected);
    if (selected >= first_ + shown) first_ = selected - shown + 1;
    if (first_ + shown > order.size()) first_ = order.size() > shown ? order.size() - shown : 0;
    rows[selected + 1].is_selected = true;
    for (std::size_t i = first_; i < std::min(order.size(), first_ + shown); ++i)
        lines->push_back(rows[i + 1]);
}

void View::add_one(std::size_t width, std::vector<Line>* lines) {
    for (const auto& instance : now_->instances) {
        if (instance.slot != selected_.slot || instance.generation != selected_.generation) continue;
        const auto all = lines_of(instance, subject(), width);
        lines->insert(lines->end(), all.begin(), all.end());
        return;
    }
    lines->push_back({"this instance has left"});
}

void View::move(int steps) {
    if (!now_ || one_ || now_->instances.empty()) return;
    const auto order = sorted(subject());
    const auto at = static_cast<std::int64_t>(selected_.index_in(order)) + steps;
    const auto last = static_cast<std::int64_t>(order.size()) - 1;
    selected_.take(*order[static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, last))]);
}

bool View::press(int key) {
    switch (key) {
        case 'q':
        case 'Q':
            return false;
        case KEY_UP:
            move(-1);
            break;
        case KEY_DOWN:
            move(1);
            break;
        case KEY_PPAGE:
            move(-10);
            break;
        case KEY_NPAGE:
            move(10);
            break;
        case KEY_ENTER:
        case key_line_feed:
        case key_return:
            one_ = !one_ && now_ && !now_->instances.empty();
            break;
        case key_escape:
        case KEY_LEFT:
            one_ = false;
            break;
        case 's':
            sort_ = next(sort_);
            break;
        case 'i': {
            const auto longer = std::find_if(intervals_ms.begin(), intervals_ms.end(),
                                             [&](int ms) { return ms > pause_.count(); });
            pause_ = std::chrono::milliseconds(longer == intervals_ms.end() ? intervals_ms.front() : *longer);
            due_ = deadline_after(pause_);
            break;
        }
        default:
            break;
    }
    return true;
}

}  // namespace

int run_screen(const Request& request) {
    View view(request);
    const bool more = view.look();
    if (!view.has_looked()) {  // before the terminal is taken: an error stays where it can be read
        complain(view.problem());
        return exit_cannot;
    }
    Terminal terminal;
    if (!terminal) {
        const char* name = std::getenv("TERM");
        complain(std::string("the terminal \"") + (name == nullptr ? "" : name) +
                 "\" is not known here: set TERM, or use --once");
        return exit_cannot;
    }
    terminal.show(view.lines(terminal.width(), terminal.height()));
    while (more) {
        const int key = terminal.key(view.wait_ms());
        if (key != ERR && !view.press(key)) break;
        const bool last = view.is_due() && !view.look();
        terminal.show(view.lines(terminal.width(), terminal.height()));
        if (last) break;
    }
    return exit_done;
}

}  // namespace maru::ctl::top
