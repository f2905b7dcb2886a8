#include "wire/frame.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace maru::wire {
namespace {

template <class T>
void put(std::byte* at, T value) {
    for (std::size_t b = 0; b < sizeof(T); ++b)
        at[b] = static_cast<std::byte>(value >> (8 * b) & 0xff);
}

template <class T>
T get(const std::byte* at) {
    std::uint64_t bits = 0;
    for (std::size_t b = 0; b < sizeof(T); ++b)
        bits |= std::to_integer<std::uint64_t>(at[b]) << (8 * b);
    return static_cast<T>(bits);
}

std::string hexadecimal(std::uint32_t value) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", value);
    return text;
}

}  // namespace

const char* name_of(Type type) {
    switch (type) {
        case Type::hello:
            return "hello";
        case Type::welcome:
            return "welcome";
        case Type::resume:
            return "resume";
        case Type::claim:
            return "claim";
        case Type::claimed:
            return "claimed";
        case Type::give_back:
            return "give_back";
        case Type::bye:
            return "bye";
        case Type::ping:
            return "ping";
        case Type::pong:
            return "pong";
        case Type::admin:
            return "admin";
        case Type::admin_answer:
            return "admin_answer";
        case Type::failure:
            return "failure";
        case Type::done:
            return "done";
        case Type::ask_pools:
            return "ask_pools";
        case Type::pool_list:
            return "pool_list";
    }
    return "unknown";
}

std::array<std::byte, header_bytes> encode_header(const Header& header) {
    std::array<std::byte, header_bytes> bytes{};
    put(&bytes[0], header.magic);
    put(&bytes[4], header.version);
    put(&bytes[6], static_cast<std::uint16_t>(header.type));
    put(&bytes[8], header.request);
    put(&bytes[12], header.body);
    return bytes;
}

Result<Header> decode_header(std::span<const std::byte, header_bytes> bytes, std::uint32_t body_limit) {
    Header header;
    header.magic = get<std::uint32_t>(&bytes[0]);
    header.version = get<std::uint16_t>(&bytes[4]);
    const auto type = get<std::uint16_t>(&bytes[6]);
    header.request = get<std::uint32_t>(&bytes[8]);
    header.body = get<std::uint32_t>(&bytes[12]);
    if (header.magic != frame_magic)
        return Error{Code::invalid, "frame begins with " + hexadecimal(header.magic) + " instead of " +
                                        hexadecimal(frame_magic) + ": the other end does not speak maru"};
    if (header.version != protocol_version)
        return Error{Code::version, "frame of protocol version " + std::to_string(header.version) +
                                        ", this side speaks version " + std::to_string(protocol_version) +
                                        ": install the same release on both sides"};
    header.type = static_cast<Type>(type);
    if (type == 0 || type > static_cast<std::uint16_t>(Type::pool_list))
        return Error{Code::invalid, "frame of unknown type " + std::to_string(type)};
    if (header.body > body_limit)
        return Error{Code::invalid, std::string("frame ") + name_of(header.type) + " announces a body of " +
                                        std::to_string(header.body) + " bytes, at most " +
                                        std::to_string(body_limit) + " are accepted"};
    return header;
}

void Writer::write(const std::string& text) {
    write(static_cast<std::uint32_t>(text.size()));
    const std::size_t at = bytes_.size();
    bytes_.resize(at + text.size());
    std::memcpy(bytes_.data() + at, text.data(), text.size());
}

void Writer::write(const Uuid& uuid) {
    for (const std::uint8_t byte : uuid.bytes)
        bytes_.push_back(static_cast<std::byte>(byte));
}

const std::byte* Reader::take(std::size_t count) {
    if (failed_ || count > left_.size()) {
        failed_ = true;
        return nullptr;
    }
    const std::byte* at = left_.data();
    left_ = left_.subspan(count);
    return at;
}

void Reader::read(std::string& text) {
    std::uint32_t size = 0;
    read(size);
    const std::byte* bytes = take(size);
    if (bytes != nullptr) text.assign(reinterpret_cast<const char*>(bytes), size);
}

void Reader::read(Uuid& uuid) {
    const std::byte* bytes = take(uuid.bytes.size());
    if (bytes != nullptr) std::memcpy(uuid.bytes.data(), bytes, uuid.bytes.size());
}

Result<void> FrameReader::refuse(Error error) {
    current_.descriptors.clear();
    failed_ = error;
    return error;
}

bool FrameReader::begin_body() {
    auto header = decode_header(header_bytes_, body_limit_);
    if (!header) {
        (void)refuse(header.error());
        return false;
    }
    header_ = *header;
    current_.type = header_.type;
    current_.request = header_.request;
    return true;
}

Result<void> FrameReader::feed(std::span<const std::byte> bytes, std::vector<Descriptor> descriptors) {
    if (failed_) return *failed_;
    std::size_t last_begun = whole_.size();  // index of the last frame that begins in this piece
    bool any_begun = false;
    while (!bytes.empty()) {
        if (header_size_ < header_bytes) {
            if (header_size_ == 0) {
                any_begun = true;
                last_begun = whole_.size();
            }
            const std::size_t step = std::min(bytes.size(), header_bytes - header_size_);
            std::memcpy(header_bytes_.data() + header_size_, bytes.data(), step);
            header_size_ += step;
            bytes = bytes.subspan(step);
            if (header_size_ < header_bytes) break;
            if (!begin_body()) return *failed_;
        }
        const std::size_t step = std::min<std::size_t>(bytes.size(), header_.body - current_.body.size());
        current_.body.insert(current_.body.end(), bytes.begin(),
                             bytes.begin() + static_cast<std::ptrdiff_t>(step));
        bytes = bytes.subspan(step);
        if (current_.body.size() == header_.body) {
            whole_.push_back(std::exchange(current_, Frame{}));
            header_size_ = 0;
        }
    }
    if (descriptors.empty()) return {};
    if (!any_begun)
        return refuse(
            {Code::invalid, "descriptors came in the middle of a frame instead of at its first byte"});
    Frame& receiver = last_begun < whole_.size() ? whole_[last_begun] : current_;
    if (descriptors.size() > descriptor_limit_)
        return refuse({Code::invalid, "frame carries " + std::to_string(descriptors.size()) +
                                          " descriptors, at most " + std::to_string(descriptor_limit_) +
                                          " are accepted"});
    receiver.descriptors = std::move(descriptors);
    return {};
}

std::optional<Frame> FrameReader::next() {
    if (taken_ == whole_.size()) {
        whole_.clear();
        taken_ = 0;
        return std::nullopt;
    }
    return std::move(whole_[taken_++]);
}

}  // namespace maru::wire
