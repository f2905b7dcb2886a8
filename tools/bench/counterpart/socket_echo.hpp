// Counterpart: round trips over a Unix socket to a process that sends back what it gets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "process.hpp"

namespace maru::bench {

inline constexpr std::size_t echo_bytes = 64;

/// Threads: one. Lifetime: the other process ends with it.
class SocketEcho {
  public:
    static Result<std::unique_ptr<SocketEcho>> start();
    /// `count` messages there and back, one after the other.
    Result<void> run(std::uint64_t count);

  private:
    TemporaryFolder folder_;
    Process server_;
    Descriptor socket_;
};

/// The other process: serves one connection to `path` and ends with it.
Result<void> run_echo(const std::string& path);

}  // namespace maru::bench
