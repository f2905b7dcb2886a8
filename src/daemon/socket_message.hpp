// A message of a stream socket with descriptors beside it, as the loop's back-ends hand it to the kernel.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "daemon/loop.hpp"

namespace maru::daemon {

/// Room for one receive. The message points into it: it stays where it is until the kernel has filled it.
class IncomingMessage {
  public:
    /// For recvmsg with MSG_CMSG_CLOEXEC; forgets what was received before.
    msghdr* prepare();
    /// What came, by the result of the receive: bytes, or a negative errno. Its descriptors are the caller's.
    Received take(int result);

  private:
    static constexpr std::size_t bytes_max = 16 * 1024;
    static constexpr std::size_t descriptors_max = 253;  // SCM_MAX_FD of the kernel

    msghdr message_{};
    iovec part_{};
    std::byte buffer_[bytes_max];
    alignas(cmsghdr) char control_[CMSG_SPACE(descriptors_max * sizeof(int))];
};

/// Bytes on their way, with descriptors beside the first one. Stays where it is until the kernel has taken
/// it.
class OutgoingMessage {
  public:
    OutgoingMessage(std::vector<std::byte> bytes, const std::vector<int>& descriptors);
    /// What is left to send, for sendmsg with MSG_NOSIGNAL.
    msghdr* prepare();
    /// True when that was the last byte.
    bool sent(std::size_t count);

  private:
    std::vector<std::byte> bytes_;
    std::size_t sent_ = 0;
    msghdr message_{};
    iovec part_{};
    std::vector<char> control_;
};

}  // namespace maru::daemon
