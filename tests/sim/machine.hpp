// The simulated machine: actors that take turns, one access to shared memory at a time, each behind a store
// buffer of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "random.hpp"

namespace maru::sim {

/// Strength of the simulated memory: every access at once; stores that leave in order (x86); plain stores
/// that leave in any order (Arm).
enum class Memory { sequential, total_store_order, weak };

/// A store that its actor has made and nobody else can see yet; without a place it is a release fence.
struct Buffered {
    void* place = nullptr;
    unsigned bytes = 0;
    std::uint64_t value = 0;
    bool release = false;
};

struct Process;

/// One thread of one process. Its operations are named so that a trace reads well.
struct Actor {
    int number = 0;
    std::string name;
    Process* process = nullptr;
    Fiber fiber;
    std::function<void()> body;
    Random random{1};
    std::vector<Buffered> buffer;
    bool started = false, done = false, dead = false, dying = false;
    std::uint64_t frozen_until = 0;
    int priority = 0;      // or steps of a turn in lock step
    bool in_step = false;  // had its first turn
    const char* operation = "-";
    int key = -1;
    std::uint64_t operation_began = 0;
    std::uint32_t operation_steps = 0;
    std::uint32_t placements = 0;  // tentative entries of the store under way

    bool can_run(std::uint64_t now) const { return !done && !dead && frozen_until <= now; }
};

/// Sees each change of shared memory at the moment when everybody can see it.
class Observer {
  public:
    virtual ~Observer() = default;
    virtual void changed(Actor& by, void* place, unsigned bytes, std::uint64_t before, std::uint64_t after,
                         bool atomic) = 0;
};

/// Picks who runs next, among actors that can; nullptr ends the run.
using Pick = std::function<Actor*(Actor* last, bool last_can_run)>;

class Machine {
  public:
    void begin(Memory memory, Random random, Observer* observer);
    Actor& add(std::string name, Process* process, std::function<void()> body, std::uint64_t seed);
    /// Runs until `pick` ends it or a property is violated.
    void run(const Pick& pick);
    /// One actor, for as many steps as it takes to end; everybody else stands.
    void run_alone(Actor& actor);
    /// Unwinds what has not ended.
    void end();

    void kill(Actor& actor);
    /// Makes all stores of an actor visible.
    void drain(Actor& actor);

    void violate(std::string what);
    bool violated() const { return !violation_.empty(); }
    const std::string& violation() const { return violation_; }

    Actor* current() const { return current_; }
    /// Work on shared memory without steps, as this actor: setting up, and what happens at one instant.
    class Outside {
      public:
        Outside(Machine& machine, Actor* as)
            : machine_(machine), before_(machine.current_), stepping_(machine.stepping_) {
            machine.current_ = as;
            machine.stepping_ = false;
        }
        ~Outside() {
            machine_.current_ = before_;
            machine_.stepping_ = stepping_;
        }

      private:
        Machine& machine_;
        Actor* before_;
        bool stepping_;
    };

    std::uint64_t now() const { return step_; }
    const std::vector<std::unique_ptr<Actor>>& actors() const { return actors_; }
    Random& random() { return random_; }
    Memory memory() const { return memory_; }

    /// The running actor goes on for so many steps before the next pick.
    void set_burst(std::uint32_t steps) { burst_ = steps; }
    std::uint32_t operation_steps_max = 60000;
    std::uint64_t run_steps_max = 3'000'000;
    bool trace = false;
    std::uint32_t longest_operation = 0;
    const char* longest_operation_name = "-";

    // -- accesses
    std::uint64_t load(const void* place, unsigned bytes);
    void store(void* place, unsigned bytes, std::uint64_t value, std::memory_order order);
    template <class Function>
    std::uint64_t change(void* place, unsigned bytes, std::memory_order order, Function&& function);
    void fence(std::memory_order order);
    /// One step without an access.
    void step();

    void note(const char* what);
    void note_access(const char* what, const void* place, std::uint64_t value, const char* remark = "");
    /// How a trace prints a place and a value; set by the world.
    std::function<std::string(const void* place, std::uint64_t value)> describe;

  private:
    void become_visible(Actor& by, void* place, unsigned bytes, std::uint64_t value, bool atomic);
    void let_out(Actor& actor);
    void let_some_out();
    void resume(Actor& actor);
    static void enter(void* actor);

    Memory memory_ = Memory::sequential;
    Random random_;
    Observer* observer_ = nullptr;
    std::vector<std::unique_ptr<Actor>> actors_, spare_;
    Fiber scheduler_;
    Actor* current_ = nullptr;
    bool stepping_ = false;
    std::uint64_t step_ = 0;
    std::uint32_t burst_ = 0;
    std::string violation_;
};

/// There is one machine: the accesses of the code under test have no other way to find it.
Machine& machine();

/// Memory as it is, for observers: never a step.
std::uint64_t raw(const void* place, unsigned bytes);

}  // namespace maru::sim
