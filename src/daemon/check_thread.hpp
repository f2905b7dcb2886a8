// The check of the whole domain, which takes longer than the loop may wait.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/beside_loop.hpp"
#include "table/control.hpp"

namespace maru::daemon {

/// Runs `check_domain` beside the loop and gives its answer in the loop. Requests that come while one runs
/// wait for the next run, so that each answer looked at the region after its request.
///
/// Threads: the loop's.
class CheckThread {
  public:
    CheckThread(Loop& loop, const table::Control& control) : control_(control), beside_(loop) {}
    CheckThread(const CheckThread&) = delete;
    CheckThread& operator=(const CheckThread&) = delete;

    /// `json`, or why there is none: too little memory.
    void ask(std::function<void(const Result<std::string>& json)> then);

  private:
    void start();
    void finished(const std::string& why_not);
    Result<std::string> check_or_error() const;

    const table::Control& control_;
    Result<std::string> answer_ = std::string();  // written by the thread, read when it has ended
    std::vector<std::function<void(const Result<std::string>&)>> asked_, running_;
    BesideLoop beside_;  // the last: its end waits for the thread
};

}  // namespace maru::daemon
