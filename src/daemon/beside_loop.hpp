// Work that takes longer than the loop may wait.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/descriptor.hpp"
#include "daemon/loop.hpp"

namespace maru::daemon {

/// Does one piece of work at a time in a thread beside the loop; what follows it is done in the loop.
///
/// Threads: the loop's. The end of this waits for the work under way; what follows it is not done then.
class BesideLoop {
  public:
    explicit BesideLoop(Loop& loop);
    ~BesideLoop() { wait(); }
    BesideLoop(const BesideLoop&) = delete;
    BesideLoop& operator=(const BesideLoop&) = delete;

    /// `why_not` is empty when the work was done; else no thread could be had. Only when no work is under
    /// way.
    void run(std::function<void()> work, std::function<void(const std::string& why_not)> then);
    /// Waits for the work under way, and forgets what follows it.
    void wait();

  private:
    void finished();
    void ring() const;

    Loop& loop_;
    Descriptor signal_;
    Operation waiting_ = 0;
    std::thread thread_;
    std::string why_not_;
    std::function<void(const std::string&)> then_;
};

}  // namespace maru::daemon
