// What a thread did and saw, in a file that survives its process being killed at any instruction.
#pragma once

#include <cstdint>
#include <string>

namespace engine {

enum class Operation : std::uint32_t {
    store = 1,
    retrieve = 2,
    exists = 3,
    remove = 4,
    pin = 5,
    unpin = 6,
    slow_call = 7,  // any call that took longer than slow_call_ns, on no key
};

inline constexpr std::uint64_t slow_call_ns = 10'000'000;
inline constexpr std::uint32_t no_key = 0xffffffff;

/// Result of an operation that has begun and not ended.
inline constexpr std::int32_t pending = -1000;

struct Event {
    std::uint64_t start_ns = 0;  // CLOCK_MONOTONIC
    std::uint64_t end_ns = 0;
    std::uint64_t id = 0;  // of the value stored or seen
    std::uint32_t operation = 0;
    std::uint32_t key = 0;
    std::int32_t result = pending;
    std::uint32_t client = 0;
};
static_assert(sizeof(Event) == 40);

std::uint64_t now_ns();

/// One thread's events, written straight into a shared file mapping.
/// Threads: one. Death: of the process leaves every begun event, the last one pending.
class History {
  public:
    /// An empty path records nothing. Only every `key_step`th key is recorded. Exits the program when the
    /// file cannot be made.
    History(const std::string& path, std::uint32_t client, std::uint64_t capacity, std::uint32_t key_step);
    ~History();
    History(const History&) = delete;
    History& operator=(const History&) = delete;

    /// Number of the event, to be given to `end`.
    std::uint64_t begin(Operation operation, std::uint32_t key, std::uint64_t id = 0);
    void end(std::uint64_t number, std::int32_t result, std::uint64_t id = 0);
    /// Further operations of a batch that began with event `first` take its start.
    std::uint64_t begin_at(Operation operation, std::uint32_t key, std::uint64_t start_ns,
                           std::uint64_t id = 0);
    /// A call is over; recorded when it was slow.
    void note(std::uint64_t start_ns, std::uint64_t end_ns);
    bool full() const { return events_ != nullptr && count_ >= capacity_; }

  private:
    Event* events_ = nullptr;
    std::uint64_t capacity_ = 0, count_ = 0;
    std::uint32_t client_ = 0, key_step_ = 1;
};

}  // namespace engine
