#include "machine.hpp"

#include <cstdio>
#include <cstring>

#include "stepped_word.hpp"

namespace maru::sim {
namespace {

struct Killed {};  // unwinds a fiber whose actor has died

void write_raw(void* place, unsigned bytes, std::uint64_t value) {
    std::memcpy(place, &value, bytes);  // little-endian, as the layout
}

bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
}

}  // namespace

std::uint64_t raw(const void* place, unsigned bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, place, bytes);
    return value;
}

Machine& machine() {
    static Machine one;
    return one;
}

void Machine::begin(Memory memory, Random random, Observer* observer) {
    memory_ = memory;
    random_ = random;
    observer_ = observer;
    step_ = 1;
    burst_ = 0;
    violation_.clear();
    for (auto& actor : actors_)
        spare_.push_back(std::move(actor));
    actors_.clear();
}

Actor& Machine::add(std::string name, Process* process, std::function<void()> body, std::uint64_t seed) {
    std::unique_ptr<Actor> actor;
    if (spare_.empty()) {
        actor = std::make_unique<Actor>();
    } else {
        actor = std::move(spare_.back());
        spare_.pop_back();
        Fiber fiber = std::move(actor->fiber);
        *actor = Actor();
        actor->fiber = std::move(fiber);
    }
    actor->number = static_cast<int>(actors_.size());
    actor->name = std::move(name);
    actor->process = process;
    actor->body = std::move(body);
    actor->random = Random(seed);
    actor->fiber.prepare(enter, actor.get());
    actors_.push_back(std::move(actor));
    return *actors_.back();
}

void Machine::enter(void* argument) {
    Actor& self = *static_cast<Actor*>(argument);
    try {
        self.body();
    } catch (const Killed&) {
    }
    self.done = true;
    for (;;)
        Fiber::change(self.fiber, machine().scheduler_);
}

void Machine::resume(Actor& actor) {
    current_ = &actor;
    stepping_ = true;
    actor.started = true;
    Fiber::change(scheduler_, actor.fiber);
    stepping_ = false;
    current_ = nullptr;
}

void Machine::run(const Pick& pick) {
    Actor* last = nullptr;
    while (!violated()) {
        ++step_;
        if (step_ > run_steps_max) violate("the run does not end");
        Actor* next = pick(last, last != nullptr && last->can_run(step_));
        if (next == nullptr || violated()) break;
        last = next;
        resume(*next);
    }
}

void Machine::run_alone(Actor& actor) {
    while (!actor.done && !violated()) {
        ++step_;
        burst_ = 1000;
        resume(actor);
    }
}

void Machine::end() {
    for (auto& actor : actors_)
        kill(*actor);
}

void Machine::kill(Actor& actor) {
    actor.dead = true;
    if (!actor.started || actor.done) return;
    actor.dying = true;
    resume(actor);
}

void Machine::violate(std::string what) {
    if (violated()) return;
    violation_ = std::move(what);
    burst_ = 0;
    if (trace) std::printf("        *** VIOLATION: %s\n", violation_.c_str());
}

void Machine::step() {
    Actor* self = current_;
    if (self == nullptr || !stepping_ || self->dying) return;
    if (++self->operation_steps > operation_steps_max)
        violate(std::string("operation ") + self->operation + " makes no progress");
    if (self->operation_steps > longest_operation) {
        longest_operation = self->operation_steps;
        longest_operation_name = self->operation;
    }
    if (burst_ > 0 && !violated()) {
        --burst_;
        ++step_;
    } else {
        Fiber::change(self->fiber, scheduler_);
        if (self->dying) throw Killed{};
    }
    if (memory_ != Memory::sequential) let_some_out();
}

// -- store buffers

void Machine::become_visible(Actor& by, void* place, unsigned bytes, std::uint64_t value, bool atomic) {
    const std::uint64_t before = raw(place, bytes);
    if (observer_ != nullptr && before != value) observer_->changed(by, place, bytes, before, value, atomic);
    write_raw(place, bytes, value);
}

void Machine::drain(Actor& actor) {
    for (const Buffered& entry : actor.buffer)
        if (entry.place != nullptr) become_visible(actor, entry.place, entry.bytes, entry.value, false);
    actor.buffer.clear();
}

void Machine::let_out(Actor& actor) {
    auto& buffer = actor.buffer;
    std::size_t chosen = 0;
    if (memory_ == Memory::weak) {
        std::size_t possible[64], count = 0;
        for (std::size_t i = 0; i < buffer.size() && count < 64; ++i) {
            bool free = true;
            for (std::size_t before = 0; before < i && free; ++before)
                free = !buffer[i].release && buffer[before].place != nullptr &&
                       buffer[before].place != buffer[i].place;
            if (i > 0 && buffer[i].place == nullptr) free = false;
            if (free) possible[count++] = i;
        }
        chosen = possible[random_.below(static_cast<std::uint32_t>(count))];
    }
    const Buffered entry = buffer[chosen];
    buffer.erase(buffer.begin() + static_cast<std::ptrdiff_t>(chosen));
    if (entry.place != nullptr) become_visible(actor, entry.place, entry.bytes, entry.value, false);
}

void Machine::let_some_out() {
    for (auto& actor : actors_)
        if (!actor->buffer.empty() && !actor->dead && random_.one_in(6)) let_out(*actor);
}

// -- accesses

std::uint64_t Machine::load(const void* place, unsigned bytes) {
    step();
    std::uint64_t value = raw(place, bytes);
    if (current_ != nullptr)
        for (const Buffered& entry : current_->buffer)
            if (entry.place == place) value = entry.value;
    if (trace) note_access("load", place, value);
    return value;
}

void Machine::store(void* place, unsigned bytes, std::uint64_t value, std::memory_order order) {
    step();
    if (current_ == nullptr) return write_raw(place, bytes, value);
    if (current_->dying) return;
    if (trace) note_access(order == std::memory_order_release ? "store.rel" : "store", place, value);
    if (memory_ == Memory::sequential || !stepping_ || order == std::memory_order_seq_cst) {
        drain(*current_);
        become_visible(*current_, place, bytes, value, false);
        return;
    }
    if (current_->buffer.size() >= 40) drain(*current_);
    current_->buffer.push_back({place, bytes, value, releases(order)});
}

template <class Function>
std::uint64_t Machine::change(void* place, unsigned bytes, std::memory_order order, Function&& function) {
    step();
    if (current_ == nullptr || current_->dying) {
        const std::uint64_t before = raw(place, bytes);
        if (current_ == nullptr) write_raw(place, bytes, function(before));
        return before;
    }
    bool own_store = false;
    for (const Buffered& entry : current_->buffer)
        own_store = own_store || entry.place == place;
    if (memory_ != Memory::weak || own_store || releases(order)) drain(*current_);
    const std::uint64_t before = raw(place, bytes);
    const std::uint64_t after = function(before);
    if (after != before) become_visible(*current_, place, bytes, after, true);
    return before;
}

void Machine::fence(std::memory_order order) {
    if (current_ == nullptr || current_->dying) return;
    if (order == std::memory_order_seq_cst) {
        step();
        drain(*current_);
    } else if (releases(order) && memory_ == Memory::weak && !current_->buffer.empty()) {
        current_->buffer.push_back({});
    }
}

// -- traces

void Machine::note(const char* what) {
    if (trace) std::printf("%7llu -- %s\n", static_cast<unsigned long long>(step_), what);
}

void Machine::note_access(const char* what, const void* place, std::uint64_t value, const char* remark) {
    if (current_ == nullptr || !describe) return;
    std::printf("%7llu %-9s %-14s k%-2d %-9s %s %s\n", static_cast<unsigned long long>(step_),
                current_->name.c_str(), current_->operation, current_->key, what,
                describe(place, value).c_str(), remark);
}

// -- what the code under test calls

std::uint64_t stepped_load(const void* place, unsigned bytes, std::memory_order) {
    return machine().load(place, bytes);
}

void stepped_store(void* place, unsigned bytes, std::uint64_t value, std::memory_order order) {
    machine().store(place, bytes, value, order);
}

std::uint64_t stepped_change(void* place, unsigned bytes, Change change, std::uint64_t operand,
                             std::memory_order order) {
    const std::uint64_t mask = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
    Machine& m = machine();
    const char* names[] = {"exchange", "or", "and", "add"};
    std::uint64_t after_value = 0;
    const std::uint64_t before = m.change(place, bytes, order, [&](std::uint64_t value) {
        switch (change) {
            case Change::exchange:
                after_value = operand;
                break;
            case Change::fetch_or:
                after_value = value | operand;
                break;
            case Change::fetch_and:
                after_value = value & operand;
                break;
            case Change::fetch_add:
                after_value = (value + operand) & mask;
                break;
        }
        if (m.trace) m.note_access(names[static_cast<int>(change)], place, after_value);
        return after_value;
    });
    return before;
}

bool stepped_compare_exchange(void* place, unsigned bytes, std::uint64_t expected, std::uint64_t desired,
                              std::memory_order order) {
    bool won = false;
    Machine& m = machine();
    m.change(place, bytes, order, [&](std::uint64_t value) {
        won = value == expected;
        if (m.trace) m.note_access(won ? "CAS" : "cas lost", place, won ? desired : value);
        return won ? desired : value;
    });
    return won;
}

void stepped_fence(std::memory_order order) {
    machine().fence(order);
}

void stepped_pause() {
    machine().step();
}

}  // namespace maru::sim
