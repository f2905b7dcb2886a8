// Descriptors beside the bytes of a local socket's message (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <span>
#include <vector>

#include "base/descriptor.hpp"

namespace maru::wire {

/// Those that a received message carries, owned from here on; whatever else stands beside it is passed over.
std::vector<Descriptor> take_descriptors(msghdr& message);

/// Lets a message that is about to be sent carry these. `room` holds at least CMSG_SPACE of them, is aligned
/// as cmsghdr and zeroed, and stays where it is until the message was sent.
void put_descriptors(msghdr& message, std::span<char> room, std::span<const int> descriptors);

}  // namespace maru::wire
