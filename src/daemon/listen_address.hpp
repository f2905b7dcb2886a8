// Addresses of TCP sockets that the daemon listens on, as the config spells them.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace maru::daemon {

struct ListenAddress {
    sockaddr_storage address{};
    socklen_t size = 0;

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// "127.0.0.1:9464" or "[::1]:9464": a number, never a name that would have to be looked up. Port 0 lets the
/// kernel choose one.
Result<ListenAddress> parse_listen_address(std::string_view text);

/// The address that a socket got, spelled the same way; empty when it has none.
std::string address_of_socket(int socket);

}  // namespace maru::daemon
