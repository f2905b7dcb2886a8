// Signals as events of the loop.
#pragma once

#include <functional>

#include "base/descriptor.hpp"
#include "daemon/loop.hpp"

namespace maru::daemon {

/// SIGTERM, SIGINT, SIGHUP and SIGUSR1 one by one through a signalfd. They must be blocked in all threads
/// first.
class Signals {
  public:
    Signals(Loop& loop, std::function<void(int number)> then);
    ~Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    /// Before any thread starts. SIGPIPE is ignored from here on.
    static void block();
    void start();

  private:
    void take();

    Loop& loop_;
    std::function<void(int)> then_;
    Descriptor descriptor_;
    Operation waiting_ = 0;
};

}  // namespace maru::daemon
