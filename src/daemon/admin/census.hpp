// Pages of a domain, counted a slice at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "table/clients.hpp"
#include "table/regions.hpp"

namespace maru::daemon {

/// Pages by what they are good for: each page is in exactly one of these; `pinned` ones are published or
/// retired too.
struct PageTally {
    std::uint64_t free = 0, reserved = 0, quarantined = 0, published = 0, retired = 0, sealed = 0, bad = 0;
    std::uint64_t pinned = 0;
    std::uint64_t value_bytes = 0;  // of the published objects

    std::uint64_t pages() const { return free + reserved + quarantined + published + retired + sealed + bad; }
    void add(const PageTally& other, std::uint64_t unit = 1);
};

struct RegionTally {
    table::RegionView view;
    PageTally pages;
    std::uint64_t page_bytes() const { return std::uint64_t{view.page_4k} * table::page_align; }
};

/// What one client slot has.
struct ClientTally {
    table::ClientPhase phase = table::ClientPhase::free;
    std::uint32_t generation = 0;
    std::uint64_t leases = 0, key_pins = 0, pin_chunks = 0;
    std::uint64_t reserved_bytes = 0;  // quarantined bytes when the slot is QUARANTINED
    std::uint64_t regions = 0, region_bytes = 0;
};

/// One whole count. In use it is not one instant: a page that changes meanwhile is counted as it was when
/// seen.
struct Tally {
    std::vector<RegionTally> regions;  // by number
    std::vector<ClientTally> clients;  // by slot
    std::uint64_t pin_chunks = 0;      // in use
    std::uint64_t leases = 0, key_pins = 0;
};

/// Counts by walking pin chunks, regions and their page records, at most a slice of time a call.
///
/// Threads: one.
class Census {
  public:
    explicit Census(const table::Control& control);

    /// Counts until done or until `deadline`. True: `latest` is from this call, or so large a count that it
    /// took several calls and is younger than a second.
    bool refresh(Deadline deadline);
    /// The last whole count; empty before the first.
    const Tally& latest() const { return latest_; }
    /// How far the count under way is, in page records.
    std::uint64_t records_done() const { return records_done_; }

  private:
    enum class Stage { idle, pins, regions, pinned };
    void begin();
    void count_chunk(std::uint32_t number);
    void begin_region(std::uint32_t number);
    void count_records();
    void count_pinned(std::uint64_t pin);
    void finish();
    void step();

    const table::Control& control_;
    Tally latest_, under_way_;
    Deadline finished_{};
    bool took_one_call_ = true;
    Stage stage_ = Stage::idle;
    std::uint32_t chunk_ = 0, chunk_end_ = 0, region_ = 0;
    std::uint32_t page_ = 0;  // of the region at the back of under_way_
    bool in_region_ = false;
    std::vector<std::uint64_t> pins_;  // pin words without kind and place: record and generation, sorted once
    std::size_t pin_ = 0;
    std::uint64_t records_done_ = 0;
};

}  // namespace maru::daemon
