// The daemon, as maructl asks it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"
#include "wire/stream.hpp"

namespace maru::ctl {

using Json = nlohmann::ordered_json;

/// One connection for admin commands. Every wait is bounded.
class Daemon {
  public:
    /// Looks in the places of wire/socket_path.hpp. The error names each place and how to start a daemon.
    static Result<Daemon> find(const std::string& wanted_socket);

    const std::string& socket() const { return socket_; }

    /// One command, one answer.
    Result<Json> ask(const std::string& command, const Json& arguments);
    /// Asks until the daemon has counted everything that the answer is about.
    Result<Json> ask_complete(const std::string& command, Json arguments);
    /// Asks for all parts of a list; `take` gets the entries of each under `name` and returns false to end
    /// it.
    Result<void> ask_list(const std::string& command, const std::string& name, Json arguments,
                          const std::function<bool(const Json&)>& take);

  private:
    Daemon(std::string socket, wire::Stream stream)
        : socket_(std::move(socket)), stream_(std::move(stream)) {}

    std::string socket_;
    wire::Stream stream_;
    std::uint32_t request_ = 0;
};

/// How somebody without a daemon gets one.
std::string how_to_start();

}  // namespace maru::ctl
