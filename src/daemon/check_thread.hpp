// The one admin command that takes longer than the loop may wait.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "daemon/loop.hpp"
#include "table/control.hpp"

namespace maru::daemon {

/// Runs `check_domain` beside the loop and gives its answer in the loop. Requests that come while one runs
/// wait for the next run, so that each answer looked at the region after its request.
///
/// Threads: the loop's; the thread is joined when its answer is taken, or here at the end.
class CheckThread {
  public:
    CheckThread(Loop& loop, const table::Control& control);
    ~CheckThread();
    CheckThread(const CheckThread&) = delete;
    CheckThread& operator=(const CheckThread&) = delete;

    /// `json`, or why there is none: too little memory.
    void ask(std::function<void(const Result<std::string>& json)> then);

  private:
    void start();
    void finished();
    Result<std::string> check_or_error() const;
    void ring() const;

    Loop& loop_;
    const table::Control& control_;
    Descriptor signal_;
    Operation waiting_ = 0;
    std::thread thread_;
    Result<std::string> answer_ = std::string();  // written by the thread, read after its join
    std::vector<std::function<void(const Result<std::string>&)>> asked_, running_;
};

}  // namespace maru::daemon
