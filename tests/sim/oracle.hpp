// What must hold, whatever the schedule: watches each change of shared memory and each answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "machine.hpp"
#include "world.hpp"

namespace maru::sim {

enum class HoldKind { lease, key_pin };

class Oracle : public Observer {
  public:
    Oracle(World& world, Machine& machine);
    void begin(std::vector<std::unique_ptr<Process>>* processes);

    void changed(Actor& by, void* place, unsigned bytes, std::uint64_t before, std::uint64_t after,
                 bool atomic) override;

    // -- values
    std::uint64_t new_value(std::uint32_t key);
    static std::uint64_t payload_word(std::uint64_t value, std::uint32_t key) { return value << 8 | key; }

    // -- answers of operations; each looks at the interval since the actor's operation began
    /// A view was handed out: it names a live page of the right key. Returns the number of a hold, which
    /// stands until `let_go`.
    std::uint32_t hit(Actor& by, std::uint32_t key, std::uint32_t record, std::uint32_t generation,
                      std::uint64_t token, HoldKind kind);
    void let_go(std::uint32_t hold) { holds_[hold].on = false; }
    void let_go_of(const Process& process);
    std::size_t flushes() const { return flushed_at_.size() - 1; }
    bool expired(std::uint32_t hold) const { return holds_[hold].expired; }
    void miss(Actor& by, std::uint32_t key, const char* what);
    void present(Actor& by, std::uint32_t key, const char* what);
    void read(Actor& by, std::uint32_t hold, std::uint64_t word);
    bool was_present(const Actor& by, std::uint32_t key) const;
    bool was_absent(const Actor& by, std::uint32_t key) const;
    bool key_pinned(std::uint32_t key) const;
    std::uint32_t key_of(std::uint32_t record) const { return records_[record].key; }
    /// An operation was given a page: not one of a region that drained already when it began.
    void handed_out(Actor& by, const table::Page& page);
    /// A process reads or writes a memory: it still maps it.
    void touches(Actor& by, std::uint32_t memory);
    /// A gone verdict ends key pins.
    void end_key_pins(const Process& process);

    /// Number of the expiry pass under way, and how many passes a key pin lives.
    std::uint64_t expiry_pass = 0;
    static constexpr std::uint64_t expiry_after = 2;

    /// An allocation found nothing although everybody else stands still: no page waits for one of them
    /// without being theirs.
    void no_page_is_stuck(Actor& by);
    /// After a sweep of everybody who is dead: no page is theirs any more.
    void after_sweeps();
    /// After a flush and the eviction of everything: no page holds an object that was flushed.
    void all_flushed_evicted();
    /// After the last pass: nothing is left of anybody.
    void at_the_end();

    /// The object behind a hold, for what may outlive the hold.
    struct Object {
        std::uint32_t record = 0, changes = 0;
        std::uint64_t value = 0;
    };
    Object object_of(std::uint32_t hold) const;
    /// A reader whose checksum failed has retired an object, or says that it could not.
    void retired_damaged(Actor& by, const Object& object, bool retired);
    /// A store has answered without publishing: its page is as it was when the store began.
    void reserved_as_before(Actor& by, const table::Page& page, const char* answer);
    /// A store has answered: it was not thrown out more often than the scenario allows.
    void store_ended(Actor& by);

    /// What the runs so far have met.
    std::map<std::string, std::uint64_t> met;
    void count(const char* what) { ++met[what]; }
    /// Stores by the number of their placements.
    std::map<std::uint32_t, std::uint64_t> rounds;

  private:
    struct RecordTruth {
        bool present = false;
        std::uint32_t key = 0;
        std::uint64_t value = 0;
        std::uint64_t incarnation = 0;
        std::uint32_t epoch = 0;         // of its namespace, when it was committed
        std::uint32_t changes = 0;       // of its state
        std::uint64_t last_key_pin = 0;  // when one was set or cleared
    };
    struct KeyTruth {
        int record = -1;
        std::uint64_t last_absent = 0, last_present = 0;
    };
    struct Hold {
        bool on = false;
        Process* process = nullptr;
        HoldKind kind = HoldKind::lease;
        std::uint32_t record = 0, key = 0;
        std::uint64_t incarnation = 0, value = 0;
        std::uint32_t chunk = 0, index = 0;
        bool expired = false;
        std::string by;
    };

    void state_changed(Actor& by, std::uint32_t record, table::State before, table::State after, bool atomic);
    void given_up(Actor& by, std::uint32_t record, table::State before);
    void retired(Actor& by, std::uint32_t record, table::State before);
    void page_taken_from(Actor& by, std::uint32_t record, table::State before, table::State after);
    void field_changed(Actor& by, std::uint32_t record, std::uint32_t offset);
    void slot_changed(Actor& by, std::uint64_t before, std::uint64_t after, bool atomic);
    void committed(Actor& by, std::uint64_t word);
    void flushed();
    /// The oldest epoch that the actor's operation may have read.
    std::uint32_t oldest_epoch(const Actor& by) const;
    void pin_changed(Actor& by, std::uint32_t chunk, std::uint32_t index, std::uint64_t before,
                     std::uint64_t after);
    void payload_changed(Actor& by, std::uint32_t word, std::uint64_t after);
    void pool_changed(Actor& by, std::uint32_t pool, std::uint32_t offset, std::uint64_t before,
                      std::uint64_t after);
    void pool_leaves(Actor& by, std::uint32_t pool, std::uint32_t first, std::uint32_t units);
    void units_given(Actor& by, std::uint32_t pool, std::uint32_t first, std::uint32_t units);
    void region_changed(Actor& by, std::uint32_t region, std::uint64_t before, std::uint64_t after);
    void violate(const char* format, ...) __attribute__((format(printf, 2, 3)));

    table::PoolState pool_state_of(std::uint32_t region) const;
    table::State state(std::uint32_t record) const;
    std::uint64_t field(std::uint32_t record, std::size_t offset, unsigned bytes) const;
    table::PageLocation location(std::uint32_t record) const;
    Process* process_of(table::Owner owner) const;
    bool covers(std::uint32_t record, std::uint32_t unit) const;

    World& world_;
    Machine& machine_;
    std::vector<std::unique_ptr<Process>>* processes_ = nullptr;
    std::vector<RecordTruth> records_;
    // The same key is another one after a flush: by epoch of the namespace that is flushed, then by key.
    std::vector<std::vector<KeyTruth>> keys_;
    std::vector<std::uint64_t> flushed_at_;  // when each epoch began
    struct ValueTruth {
        std::uint32_t key = 0;
        std::uint64_t from = 0, to = ~0ull;
    };
    std::vector<ValueTruth> values_;
    std::vector<Hold> holds_;
    std::vector<std::uint64_t> pin_since_;
    std::vector<std::uint64_t> drains_since_;  // of each region: when it was HELD no more; 0: it is
};

}  // namespace maru::sim
