// Counterpart: a redis-server of our own on a private Unix socket, without persistence, spoken to raw.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "process.hpp"

namespace maru::bench {

/// Threads: one. Lifetime: the server ends with it.
class Redis {
  public:
    /// Starts the server in `folder` and connects. Code unavailable when redis-server is not installed.
    static Result<std::unique_ptr<Redis>> start(const std::string& folder);

    Result<void> set(std::string_view key, const void* data, std::uint64_t size);
    /// Reads the value into `data`; an error when it is absent or does not have `size` bytes.
    Result<void> get(std::string_view key, void* data, std::uint64_t size);

  private:
    Result<void> connect(const std::string& socket);
    Result<void> send_parts(std::string_view head, const void* data, std::uint64_t size,
                            std::string_view tail);
    Result<void> receive(void* to, std::uint64_t size);
    /// One line of an answer, without its end.
    Result<std::string> receive_line();

    Process server_;
    Descriptor socket_;
};

}  // namespace maru::bench
