// Messages to frames and back.
#pragma once

#include "wire/frame.hpp"

namespace maru::wire {

constexpr Type type_of(const Hello&) {
    return Type::hello;
}
constexpr Type type_of(const Welcome&) {
    return Type::welcome;
}
constexpr Type type_of(const Resume&) {
    return Type::resume;
}
constexpr Type type_of(const Claim&) {
    return Type::claim;
}
constexpr Type type_of(const Claimed&) {
    return Type::claimed;
}
constexpr Type type_of(const GiveBack&) {
    return Type::give_back;
}
constexpr Type type_of(const Admin&) {
    return Type::admin;
}
constexpr Type type_of(const AdminAnswer&) {
    return Type::admin_answer;
}
constexpr Type type_of(const PoolList&) {
    return Type::pool_list;
}
constexpr Type type_of(const Failure&) {
    return Type::failure;
}

/// A whole frame, ready to send. A message that exceeds body_max becomes a Failure with code too_large that
/// says so.
template <class Message>
Bytes encode_frame(std::uint32_t request, const Message& message);

/// Frames without content: bye, ping, pong, done, ask_pools.
Bytes encode_frame(std::uint32_t request, Type type);

/// The message in a body. Refuses a body that is short, holds a count that cannot fit or has bytes left over.
/// Says nothing about the frame's type or descriptors; that is `open`.
template <class Message>
Result<Message> decode(std::span<const std::byte> body);

/// The message in a frame: its type must be the message's, and it must carry no descriptors unless it is a
/// Welcome, which carries one for the lock and one for each pool, or a PoolList, which carries the latter.
template <class Message>
Result<Message> open(const Frame& frame);

/// A frame of this type without content and descriptors.
Result<void> open_empty(const Frame& frame, Type type);

/// The error that a Failure frame brings; a code that this side does not know reads as invalid.
Error to_error(const Failure& failure);
Failure to_failure(const Error& error);

}  // namespace maru::wire
