#include "daemon/socket_message.hpp"

#include <utility>

#include "wire/beside.hpp"

namespace maru::daemon {

msghdr* IncomingMessage::prepare() {
    part_ = {buffer_, sizeof buffer_};
    message_ = {};
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof control_;
    return &message_;
}

Received IncomingMessage::take(int result) {
    Received received;
    received.result = result;
    if (result < 0) return received;
    received.bytes = {buffer_, static_cast<std::size_t>(result)};
    received.descriptors = wire::take_descriptors(message_);
    received.descriptors_lost = (message_.msg_flags & MSG_CTRUNC) != 0;
    return received;
}

OutgoingMessage::OutgoingMessage(std::vector<std::byte> bytes, const std::vector<int>& descriptors)
    : bytes_(std::move(bytes)) {
    if (descriptors.empty()) return;
    control_.resize(CMSG_SPACE(descriptors.size() * sizeof(int)));
    msghdr shape{};
    wire::put_descriptors(shape, control_, descriptors);
}

msghdr* OutgoingMessage::prepare() {
    part_ = {bytes_.data() + sent_, bytes_.size() - sent_};
    message_ = {};
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    if (sent_ == 0 && !control_.empty()) {
        message_.msg_control = control_.data();
        message_.msg_controllen = control_.size();
    }
    return &message_;
}

bool OutgoingMessage::sent(std::size_t count) {
    sent_ += count;
    return sent_ >= bytes_.size();
}

}  // namespace maru::daemon
