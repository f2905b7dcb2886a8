#include "wire/codec.hpp"

#include <algorithm>

namespace maru::wire {

// The fields of each message, in their order on the wire: one list serves Writer and Reader.
// `M` is the message, const for a Writer.
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, Hello>
void fields_of(Coder& coder, M& m) {
    coder(m.instance_id, m.name_space, m.page_bytes, m.start_time, m.exec_stamp, m.random, m.pid_namespace);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, PoolDescription>
void fields_of(Coder& coder, M& m) {
    coder(m.uuid, m.kind, m.name, m.path, m.bytes, m.alignment, m.offset);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, ClaimedRegion>
void fields_of(Coder& coder, M& m) {
    coder(m.region, m.page_count, m.page_bytes);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, Welcome>
void fields_of(Coder& coder, M& m) {
    coder(m.domain, m.slot, m.generation, m.name_space, m.control_bytes, m.page_bytes, m.free_bytes,
          m.daemon_version, m.pools);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, Resume>
void fields_of(Coder& coder, M& m) {
    coder(m.domain, m.slot, m.generation, m.random, m.start_time, m.pid_namespace);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, Claim>
void fields_of(Coder& coder, M& m) {
    coder(m.page_bytes, m.bytes);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, Claimed>
void fields_of(Coder& coder, M& m) {
    coder(m.regions, m.warning);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, GiveBack>
void fields_of(Coder& coder, M& m) {
    coder(m.regions);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, Admin>
void fields_of(Coder& coder, M& m) {
    coder(m.command, m.arguments);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, AdminAnswer>
void fields_of(Coder& coder, M& m) {
    coder(m.json);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, PoolList>
void fields_of(Coder& coder, M& m) {
    coder(m.pools);
}
template <class Coder, class M>
requires std::is_same_v<std::remove_const_t<M>, Failure>
void fields_of(Coder& coder, M& m) {
    coder(m.code, m.text);
}

namespace {

Bytes with_header(Type type, std::uint32_t request, const Bytes& body) {
    Header header;
    header.type = type;
    header.request = request;
    header.body = static_cast<std::uint32_t>(body.size());
    const auto head = encode_header(header);
    Bytes frame(head.size() + body.size());
    std::copy(head.begin(), head.end(), frame.begin());
    std::copy(body.begin(), body.end(), frame.begin() + static_cast<std::ptrdiff_t>(head.size()));
    return frame;
}

std::string label(Type type) {
    return std::string("frame ") + name_of(type);
}

Result<void> check_type(const Frame& frame, Type wanted) {
    if (frame.type == wanted) return {};
    return Error{Code::invalid, label(frame.type) + " where " + name_of(wanted) + " was expected"};
}

Result<void> check_descriptors(const Frame& frame, std::size_t wanted) {
    if (frame.descriptors.size() == wanted) return {};
    return Error{Code::invalid, label(frame.type) + " carries " + std::to_string(frame.descriptors.size()) +
                                    " descriptors instead of " + std::to_string(wanted)};
}

}  // namespace

template <class Message>
Bytes encode_frame(std::uint32_t request, const Message& message) {
    Writer writer;
    fields_of(writer, message);
    const Bytes body = writer.take();
    if (body.size() <= body_max) return with_header(type_of(message), request, body);
    return encode_frame(
        request, Failure{static_cast<std::int32_t>(Code::too_large),
                         label(type_of(message)) + " would have " + std::to_string(body.size()) +
                             " bytes, at most " + std::to_string(body_max) + " fit: ask for a smaller part"});
}

Bytes encode_frame(std::uint32_t request, Type type) {
    return with_header(type, request, {});
}

template <class Message>
Result<Message> decode(std::span<const std::byte> body) {
    Reader reader(body);
    Message message;
    fields_of(reader, message);
    const Type type = type_of(message);
    if (reader.failed())
        return Error{Code::invalid,
                     label(type) + " of " + std::to_string(body.size()) + " bytes is cut short"};
    if (reader.left() != 0)
        return Error{Code::invalid,
                     label(type) + " has " + std::to_string(reader.left()) + " bytes left over"};
    return message;
}

template <class Message>
Result<Message> open(const Frame& frame) {
    if (auto same = check_type(frame, type_of(Message{})); !same) return same.error();
    auto message = decode<Message>(frame.body);
    if (!message) return message;
    std::size_t descriptors = 0;
    if constexpr (std::is_same_v<Message, Welcome>) descriptors = 1 + message->pools.size();
    if constexpr (std::is_same_v<Message, PoolList>) descriptors = message->pools.size();
    if (auto right = check_descriptors(frame, descriptors); !right) return right.error();
    return message;
}

Result<void> open_empty(const Frame& frame, Type type) {
    if (auto same = check_type(frame, type); !same) return same;
    if (!frame.body.empty())
        return Error{Code::invalid,
                     label(type) + " has " + std::to_string(frame.body.size()) + " bytes left over"};
    return check_descriptors(frame, 0);
}

Error to_error(const Failure& failure) {
    const bool known = failure.code >= static_cast<std::int32_t>(Code::version) &&
                       failure.code <= static_cast<std::int32_t>(Code::miss) && failure.code != 0;
    return {known ? static_cast<Code>(failure.code) : Code::invalid, failure.text};
}

Failure to_failure(const Error& error) {
    return {static_cast<std::int32_t>(error.code), error.text};
}

#define MARU_WIRE_MESSAGE(Message)                                        \
    template Bytes encode_frame<Message>(std::uint32_t, const Message&);  \
    template Result<Message> decode<Message>(std::span<const std::byte>); \
    template Result<Message> open<Message>(const Frame&)

MARU_WIRE_MESSAGE(Hello);
MARU_WIRE_MESSAGE(Welcome);
MARU_WIRE_MESSAGE(Resume);
MARU_WIRE_MESSAGE(Claim);
MARU_WIRE_MESSAGE(Claimed);
MARU_WIRE_MESSAGE(GiveBack);
MARU_WIRE_MESSAGE(Admin);
MARU_WIRE_MESSAGE(AdminAnswer);
MARU_WIRE_MESSAGE(PoolList);
MARU_WIRE_MESSAGE(Failure);

}  // namespace maru::wire
