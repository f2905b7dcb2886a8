#include "history.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace engine {

std::uint64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

History::History(const std::string& path, std::uint32_t client, std::uint64_t capacity,
                 std::uint32_t key_step)
    : capacity_(capacity), client_(client), key_step_(key_step) {
    if (path.empty()) return;
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const std::uint64_t bytes = capacity * sizeof(Event);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        std::perror(path.c_str());
        std::exit(2);
    }
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) {
        std::perror(path.c_str());
        std::exit(2);
    }
    events_ = static_cast<Event*>(memory);
}

History::~History() {
    if (events_ != nullptr) ::munmap(events_, capacity_ * sizeof(Event));
}

std::uint64_t History::begin(Operation operation, std::uint32_t key, std::uint64_t id) {
    return events_ == nullptr ? 0 : begin_at(operation, key, now_ns(), id);
}

std::uint64_t History::begin_at(Operation operation, std::uint32_t key, std::uint64_t start_ns,
                                std::uint64_t id) {
    if (events_ == nullptr || count_ >= capacity_ || (key != no_key && key % key_step_ != 0))
        return capacity_;
    Event& event = events_[count_];
    event.end_ns = 0;
    event.id = id;
    event.operation = static_cast<std::uint32_t>(operation);
    event.key = key;
    event.result = pending;
    event.client = client_;
    // Last: an event without a start does not count. The compiler must not move it before the fields.
    asm volatile("" ::: "memory");
    event.start_ns = start_ns;
    asm volatile("" ::: "memory");
    return count_++;
}

void History::end(std::uint64_t number, std::int32_t result, std::uint64_t id) {
    if (events_ == nullptr || number >= capacity_) return;
    Event& event = events_[number];
    if (id != 0) event.id = id;
    event.end_ns = now_ns();
    asm volatile("" ::: "memory");
    event.result = result;
}

void History::note(std::uint64_t start_ns, std::uint64_t end_ns) {
    if (end_ns - start_ns <= slow_call_ns) return;
    const std::uint64_t number = begin_at(Operation::slow_call, no_key, start_ns);
    if (events_ == nullptr || number >= capacity_) return;
    events_[number].end_ns = end_ns;
    asm volatile("" ::: "memory");
    events_[number].result = 0;
}

}  // namespace engine
