// Which case held for which kind of pool, printed as a table when the program ends.
#pragma once

#include <string>

namespace maru::pool_tests {

/// One case on one kind, from construction to destruction: it counts as held when no check failed meanwhile
/// and nothing was thrown. The table has a row for each case, a column for each kind, and "-" where a case is
/// not about a kind. Threads: that of the cases.
class ConformanceRow {
  public:
    explicit ConformanceRow(std::string kind);
    ConformanceRow(const ConformanceRow&) = delete;
    ConformanceRow& operator=(const ConformanceRow&) = delete;
    ~ConformanceRow();

  private:
    std::string kind_;
    int failures_before_;
};

}  // namespace maru::pool_tests
