// Counterpart: one pass of memcpy over the page records, into memory that was written before. What it costs
// to look at every page of the domain once.
#pragma once

#include <vector>

#include "counterpart/memory_copy.hpp"
#include "stopwatch.hpp"
#include "table/control.hpp"

namespace maru::bench {

class RecordCopy {
  public:
    explicit RecordCopy(const table::Control& control)
        : control_(control), to_(control.record_count() * sizeof(table::PageRecord)) {
        pass_ms();  // the first pass meets the pages for the first time
    }
    double pass_ms() {
        Stopwatch watch;
        watch.start();
        copy_plain(to_.data(), &control_.record(0), to_.size());
        watch.stop();
        return watch.ns() / 1e6;
    }

  private:
    const table::Control& control_;
    std::vector<std::byte> to_;
};

}  // namespace maru::bench
