// What a benchmark says: one figure a row, as a table for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace maru::bench {

/// Whether the ratio should stay below its bound (times) or reach it (rates).
enum class Goal { at_most, at_least };

/// A row before it is measured. Names are fixed: other programs read them.
struct Row {
    std::string name;
    std::string unit;
    std::string against;  // what the counterpart is
    Goal goal = Goal::at_most;
    double bound = 0;
    double reference = 0;  // what the counterpart is known to reach, in the row's unit; 0: unknown
};

/// Both sides of one round, measured one right after the other.
struct Sample {
    double value = 0;
    double counterpart = 0;
};

/// One number with what it is compared to.
struct Figure {
    Row row;
    bool measured = false;
    double value = 0;                   // median over the rounds
    std::optional<double> counterpart;  // median over the rounds
    std::optional<double> ratio;        // value / counterpart
    double low = 0, high = 0;           // quartiles of the rounds' own ratios
    double spread = 0;                  // (high - low) / ratio
    std::size_t rounds = 0;
    bool met = false;
    bool decided = true;  // false: the target lies between the quartiles, so the rounds do not tell
    std::string note;
};

/// Figure of a row with a counterpart.
Figure compare(const Row& row, std::span<const Sample> samples);
/// Figure of a row that is a number by itself; the bound is compared with the worst of `values`.
Figure absolute(const Row& row, std::span<const double> values);
/// The same with another one of their figures, such as their median.
Figure absolute(const Row& row, std::span<const double> values, double value);
/// A row that could not be measured: shown with the reason, never left out.
Figure not_measured(const Row& row, std::string why);

double median(std::vector<double> values);

/// Collects figures and prints each as soon as it is there.
class Report {
  public:
    /// `conditions` are the circumstances that every figure shares: page size, objects, load.
    explicit Report(std::string conditions, bool quick);
    void add(Figure figure);
    /// To this file, if one is named. Asked before the first round too, so that a wrong name costs no run.
    Result<void> write_json(const std::string& file) const;
    /// The end of a run: writes what there is, then says how the run went or that a row is missing.
    Result<void> finish(const Result<void>& measured, const std::string& json) const;

  private:
    std::string conditions_;
    bool quick_;
    bool complete_ = true;
    std::vector<Figure> figures_;
};

}  // namespace maru::bench
