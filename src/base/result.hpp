// Errors are values: a code for the program, a sentence for the person.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace maru {

/// Outcome of an operation. Zero and positive values are answers, negative ones are errors.
/// The numbers are those of maru_status in include/maru/maru.h and go over the wire; they never change.
enum class Code : std::int32_t {
    ok = 0,
    exists = 1,
    miss = 2,
    invalid = -1,
    too_large = -2,
    full = -3,
    pinned = -4,
    not_reserved = -5,
    fenced = -6,
    forked = -7,
    unavailable = -8,
    timeout = -9,
    contended = -10,
    index_full = -11,
    damaged = -12,
    poisoned = -13,
    denied = -14,
    version = -15,
};

/// One fixed sentence for a code; the text of an Error says more.
const char* describe(Code code);

struct Error {
    Code code = Code::invalid;
    std::string text;  ///< names the thing, the value and the remedy
};

/// A value or an Error.
template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    explicit operator bool() const { return state_.index() == 0; }
    T& value() { return *checked(std::get_if<0>(&state_)); }
    const T& value() const { return *checked(std::get_if<0>(&state_)); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    T& operator*() { return value(); }
    const T& operator*() const { return value(); }
    const Error& error() const { return *checked(std::get_if<1>(&state_)); }

  private:
    template <class P>
    static P* checked(P* held) {
        assert(held != nullptr && "Result holds the other kind");
        return held;
    }
    std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), failed_(true) {}

    explicit operator bool() const { return !failed_; }
    const Error& error() const {
        assert(failed_);
        return error_;
    }

  private:
    Error error_;
    bool failed_ = false;
};

}  // namespace maru
