// Which rows of a list are shown, and in which order.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "fields.hpp"

namespace maru::ctl {

struct RowChoice {
    std::string sort;                  // by this field, the smallest first; empty: as the daemon lists them
    bool reverse = false;              // the last one first
    std::vector<std::string> filters;  // FIELD=VALUE; rows for which all of them hold
};

/// Fields have the names that --json shows; one inside another is written with a dot: bytes.free. Values are
/// compared as a whole, as --json shows them, texts without their quotes. invalid: a filter without a field,
/// or a field that no row has, with those there are.
Result<void> choose_rows(const RowChoice& choice, Json* rows);

}  // namespace maru::ctl
