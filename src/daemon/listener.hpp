// The socket that clients connect to: one daemon per path, whatever an earlier one left there.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "daemon/lock_file.hpp"

namespace maru::daemon {

/// A listening Unix socket.
///
/// Promise: who has one is the only daemon on its path. The file of a daemon that was killed is taken over. A
///          socket file that is there accepts connections, but for one that a killed daemon left.
/// Death:   leaves a socket file that refuses connections until the next daemon replaces it.
class Listener {
  public:
    struct Wish {
        std::string path;
        unsigned mode = 0660;
        std::string group;  ///< kept for those who want it; passed over when it does not exist
    };
    /// The socket that systemd passed, else a new one. `busy` is set when another process serves the path.
    static Result<Listener> open(const Wish& wish, bool* busy);

    Listener() = default;
    Listener(Listener&&) noexcept = default;
    Listener& operator=(Listener&&) noexcept = default;

    int socket() const { return socket_.get(); }
    const std::string& path() const { return path_; }
    bool from_systemd() const { return from_systemd_; }
    /// Deletes the socket file if it is ours; new connections are refused from here on.
    void close();

  private:
    Descriptor socket_;
    LockFile lock_;  // beside the socket file; held as long as the socket
    std::string path_;
    bool from_systemd_ = false;
};

}  // namespace maru::daemon
