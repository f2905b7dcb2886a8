#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace maru::bench {
namespace {

// A counterpart within this share of its reference figure is what was expected of it.
constexpr double reference_tolerance = 0.30;

double quantile(std::vector<double> values, double at) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double place = at * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

bool reaches(const Row& row, double number) {
    return row.goal == Goal::at_most ? number <= row.bound : number >= row.bound;
}

std::string short_number(double value) {
    char text[48];
    std::snprintf(text, sizeof text, "%.4g", value);
    if (std::abs(value) >= 10'000 && std::abs(value) < 1e15) std::snprintf(text, sizeof text, "%.0f", value);
    return text;
}

std::string target_of(const Row& row) {
    return std::string(row.goal == Goal::at_most ? "<= " : ">= ") + short_number(row.bound);
}

void append_sentence(std::string& note, const std::string& sentence) {
    if (!note.empty()) note += "; ";
    note += sentence;
}

void judge(Figure& figure, std::vector<double> numbers, double number) {
    const Row& row = figure.row;
    figure.low = quantile(numbers, 0.25);
    figure.high = quantile(std::move(numbers), 0.75);
    figure.spread = number == 0 ? 0 : (figure.high - figure.low) / number;
    figure.met = reaches(row, number);
    figure.decided = reaches(row, figure.low) == reaches(row, figure.high);
    if (!figure.decided)
        append_sentence(figure.note, "half of the rounds lie between " + short_number(figure.low) + " and " +
                                         short_number(figure.high) + ": too wide to tell met from missed");
}

const char* verdict(const Figure& figure) {
    if (!figure.measured) return "not measured";
    if (!figure.decided) return figure.met ? "yes?" : "no?";
    return figure.met ? "yes" : "NO";
}

}  // namespace

double median(std::vector<double> values) {
    return quantile(std::move(values), 0.5);
}

Figure compare(const Row& row, std::span<const Sample> samples) {
    std::vector<double> values, counterparts, ratios;
    for (const Sample& sample : samples) {
        if (!(sample.value > 0) || !(sample.counterpart > 0)) continue;
        values.push_back(sample.value);
        counterparts.push_back(sample.counterpart);
        ratios.push_back(sample.value / sample.counterpart);
    }
    if (ratios.empty()) return not_measured(row, "no round gave a figure");
    Figure figure;
    figure.row = row;
    figure.measured = true;
    figure.rounds = ratios.size();
    figure.value = median(values);
    figure.counterpart = median(counterparts);
    figure.ratio = figure.value / *figure.counterpart;
    judge(figure, std::move(ratios), *figure.ratio);
    if (row.reference > 0) {
        const double off = *figure.counterpart / row.reference - 1;
        const bool faster = (row.goal == Goal::at_most) == (off < 0);
        if (std::abs(off) > reference_tolerance)
            append_sentence(figure.note,
                            "counterpart is " + short_number(std::round(std::abs(off) * 100)) + " % " +
                                (off < 0 ? "below" : "above") + " its reference figure of " +
                                short_number(row.reference) + " " + row.unit +
                                (faster ? ": a faster machine than the reference's"
                                        : ": a slower machine than the reference's, or this one under load"));
    }
    return figure;
}

Figure absolute(const Row& row, std::span<const double> values) {
    if (values.empty()) return not_measured(row, "no round gave a figure");
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return absolute(row, values, row.goal == Goal::at_most ? *most : *least);
}

Figure absolute(const Row& row, std::span<const double> values, double value) {
    if (values.empty()) return not_measured(row, "no round gave a figure");
    Figure figure;
    figure.row = row;
    figure.measured = true;
    figure.rounds = values.size();
    figure.value = value;
    judge(figure, {values.begin(), values.end()}, value);
    return figure;
}

Figure not_measured(const Row& row, std::string why) {
    Figure figure;
    figure.row = row;
    figure.note = std::move(why);
    return figure;
}

Report::Report(std::string conditions, bool quick) : conditions_(std::move(conditions)), quick_(quick) {
    std::printf("%s\n", conditions_.c_str());
    if (quick_)
        std::printf("quick run: fewer objects and rounds; the figures only show that everything works\n");
    std::printf("\n%-26s %12s %12s %-8s %9s %7s %9s  %s\n", "name", "value", "counterpart", "unit", "ratio",
                "spread", "target", "met");
}

void Report::add(Figure figure) {
    if (figure.measured) {
        std::printf("%-26s %12s %12s %-8s %9s %6.1f%% %9s  %s\n", figure.row.name.c_str(),
                    short_number(figure.value).c_str(),
                    figure.counterpart ? short_number(*figure.counterpart).c_str() : "-",
                    figure.row.unit.c_str(), figure.ratio ? short_number(*figure.ratio).c_str() : "-",
                    figure.spread * 100, target_of(figure.row).c_str(), verdict(figure));
    } else {
        std::printf("%-26s %12s %12s %-8s %9s %7s %9s  %s\n", figure.row.name.c_str(), "-", "-",
                    figure.row.unit.c_str(), "-", "-", target_of(figure.row).c_str(), verdict(figure));
    }
    if (!figure.row.against.empty()) std::printf("    against %s\n", figure.row.against.c_str());
    if (!figure.note.empty()) std::printf("    note: %s\n", figure.note.c_str());
    std::fflush(stdout);
    complete_ = complete_ && figure.measured;
    figures_.push_back(std::move(figure));
}

Result<void> Report::write_json(const std::string& file) const {
    if (file.empty()) return {};
    auto list = nlohmann::ordered_json::array();
    for (const Figure& figure : figures_) {
        nlohmann::ordered_json object;
        object["name"] = figure.row.name;
        object["value"] = figure.measured ? nlohmann::ordered_json(figure.value) : nlohmann::ordered_json();
        object["unit"] = figure.row.unit;
        object["against"] = figure.row.against;
        if (figure.counterpart) object["counterpart_value"] = *figure.counterpart;
        if (figure.ratio) object["ratio"] = *figure.ratio;
        object["spread"] = figure.spread;
        object["target"] = target_of(figure.row);
        object["met"] = figure.measured && figure.met;
        object["decided"] = figure.measured && figure.decided;
        object["rounds"] = figure.rounds;
        object["note"] = figure.note;
        object["conditions"] = conditions_;
        object["quick"] = quick_;
        list.push_back(std::move(object));
    }
    std::ofstream out(file);
    out << list.dump(2) << '\n';
    out.flush();
    if (!out)
        return Error{Code::invalid, "cannot write " + file + ": check that the folder exists and has room"};
    return {};
}

Result<void> Report::finish(const Result<void>& measured, const std::string& json) const {
    if (auto written = write_json(json); !written) return written;
    if (measured && !complete_)
        return Error{Code::unavailable, "some rows could not be measured; the notes say why"};
    return measured;
}

}  // namespace maru::bench
