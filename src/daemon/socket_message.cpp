#include "daemon/socket_message.hpp"

#include <cstring>
#include <utility>

namespace maru::daemon {
namespace {

/// The descriptors beside a message; whatever else stands there is passed over.
std::vector<Descriptor> take_descriptors(msghdr& message) {
    std::vector<Descriptor> taken;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int number = -1;
            std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
            taken.emplace_back(number);
        }
    }
    return taken;
}

}  // namespace

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
    received.descriptors = take_descriptors(message_);
    received.descriptors_lost = (message_.msg_flags & MSG_CTRUNC) != 0;
    return received;
}

OutgoingMessage::OutgoingMessage(std::vector<std::byte> bytes, const std::vector<int>& descriptors)
    : bytes_(std::move(bytes)) {
    if (descriptors.empty()) return;
    control_.resize(CMSG_SPACE(descriptors.size() * sizeof(int)));
    msghdr shape{};
    shape.msg_control = control_.data();
    shape.msg_controllen = control_.size();
    cmsghdr* head = CMSG_FIRSTHDR(&shape);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size() * sizeof(int));
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
