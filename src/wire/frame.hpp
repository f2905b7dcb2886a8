// Frames: bytes of a stream, cut into headers and bodies, and numbers in and out of a body.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "wire/messages.hpp"

namespace maru::wire {

using Bytes = std::vector<std::byte>;

std::array<std::byte, header_bytes> encode_header(const Header& header);
/// Refuses another magic, another protocol version, an unknown type and a body over `body_limit`, naming both
/// values.
Result<Header> decode_header(std::span<const std::byte, header_bytes> bytes,
                             std::uint32_t body_limit = body_max);
const char* name_of(Type type);

/// Appends the fields of a message.
class Writer {
  public:
    template <class... Fields>
    void operator()(const Fields&... fields) {
        (write(fields), ...);
    }
    Bytes take() { return std::move(bytes_); }

  private:
    template <class T>
    requires std::is_integral_v<T>
    void write(T value) {
        auto bits = static_cast<std::make_unsigned_t<T>>(value);
        for (std::size_t b = 0; b < sizeof(T); ++b)
            bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(bits) >> (8 * b) & 0xff));
    }
    void write(const std::string& text);
    void write(const Uuid& uuid);
    template <class T>
    void write(const std::vector<T>& list) {
        write(static_cast<std::uint32_t>(list.size()));
        for (const T& entry : list) {
            if constexpr (std::is_integral_v<T>)
                write(entry);
            else
                fields_of(*this, entry);
        }
    }
    Bytes bytes_;
};

/// Takes the fields of a message out of a body. What does not fit sets `failed` and leaves the rest
/// untouched; nothing is allocated for a count that the remaining bytes cannot hold.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> body) : left_(body) {}

    template <class... Fields>
    void operator()(Fields&... fields) {
        (read(fields), ...);
    }
    bool failed() const { return failed_; }
    std::size_t left() const { return left_.size(); }

  private:
    template <class T>
    requires std::is_integral_v<T>
    void read(T& value) {
        const std::byte* bytes = take(sizeof(T));
        if (bytes == nullptr) return;
        std::uint64_t bits = 0;
        for (std::size_t b = 0; b < sizeof(T); ++b)
            bits |= std::to_integer<std::uint64_t>(bytes[b]) << (8 * b);
        value = static_cast<T>(bits);
    }
    void read(std::string& text);
    void read(Uuid& uuid);
    template <class T>
    void read(std::vector<T>& list) {
        std::uint32_t count = 0;
        read(count);
        constexpr std::size_t smallest = std::is_integral_v<T> ? sizeof(T) : 4;
        if (failed_ || count > left_.size() / smallest) {
            failed_ = true;
            return;
        }
        for (std::uint32_t i = 0; i < count && !failed_; ++i) {
            T entry{};
            if constexpr (std::is_integral_v<T>)
                read(entry);
            else
                fields_of(*this, entry);
            list.push_back(std::move(entry));
        }
    }
    const std::byte* take(std::size_t count);

    std::span<const std::byte> left_;
    bool failed_ = false;
};

struct Frame {
    Type type = Type::ping;
    std::uint32_t request = 0;
    Bytes body;
    std::vector<Descriptor> descriptors;
};

/// Cuts what a stream delivers into frames, however it was split on the way.
///
/// Descriptors that come with a piece belong to the last frame that begins in it: a sender attaches them to
/// the first byte of a frame, and the kernel ends a receive at the piece they came with. Errors:  stay; a
/// stream that was out of step once is closed by its owner. Descriptors of a refused piece are closed.
/// Memory:  grows with what arrived, never with what a header announces.
class FrameReader {
  public:
    explicit FrameReader(std::uint32_t body_limit = body_max, std::size_t descriptor_limit = descriptors_max)
        : body_limit_(body_limit), descriptor_limit_(descriptor_limit) {}

    Result<void> feed(std::span<const std::byte> bytes, std::vector<Descriptor> descriptors = {});
    /// The oldest whole frame that was not taken yet.
    std::optional<Frame> next();
    /// A frame has begun and is not complete.
    bool in_frame() const { return header_size_ != 0; }

  private:
    Result<void> refuse(Error error);
    bool begin_body();

    std::uint32_t body_limit_;
    std::size_t descriptor_limit_;
    std::array<std::byte, header_bytes> header_bytes_{};
    std::size_t header_size_ = 0;
    Header header_;
    Frame current_;
    std::vector<Frame> whole_;
    std::size_t taken_ = 0;
    std::optional<Error> failed_;
};

}  // namespace maru::wire
