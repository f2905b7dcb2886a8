#include "daemon/listen_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>

namespace maru::daemon {
namespace {

Error invalid(std::string_view text, const char* what) {
    return Error{Code::invalid, "\"" + std::string(text) + "\" " + what +
                                    ": write an address and a port, \"127.0.0.1:9464\" or \"[::1]:9464\""};
}

template <class Address>
ListenAddress packed(const Address& address) {
    ListenAddress packed;
    static_assert(sizeof address <= sizeof packed.address);
    std::memcpy(&packed.address, &address, sizeof address);
    packed.size = sizeof address;
    return packed;
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return invalid(text, "has no port");
    const std::string_view digits = text.substr(colon + 1);
    std::uint16_t port = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (problem != std::errc{} || end != digits.data() + digits.size())
        return invalid(text, "has no port from 0 to 65535");
    const std::string_view host = text.substr(0, colon);
    const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) {
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port);
        if (::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &six.sin6_addr) != 1)
            return invalid(text, "names no IPv6 address");
        return packed(six);
    }
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    if (::inet_pton(AF_INET, std::string(host).c_str(), &four.sin_addr) != 1)
        return invalid(text, "names no address (a name is not looked up)");
    return packed(four);
}

std::string address_of_socket(int socket) {
    ListenAddress got;
    got.size = sizeof got.address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&got.address), &got.size) != 0) return {};
    char text[INET6_ADDRSTRLEN] = {};
    if (got.address.ss_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &got.address, sizeof four);
        if (::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text) == nullptr) return {};
        return std::string(text) + ":" + std::to_string(ntohs(four.sin_port));
    }
    if (got.address.ss_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &got.address, sizeof six);
        if (::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text) == nullptr) return {};
        return "[" + std::string(text) + "]:" + std::to_string(ntohs(six.sin6_port));
    }
    return {};
}

}  // namespace maru::daemon
