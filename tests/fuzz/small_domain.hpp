// A formatted, populated control region that a target can spoil and have back in an instant.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "table/clients.hpp"
#include "table/control.hpp"
#include "table/regions.hpp"
#include "table/sweep.hpp"
#include "table/worker.hpp"

namespace maru::fuzz {

/// Sizes that keep the whole control region near 100 KiB.
table::FormatPlan small_plan();

/// Makes the checksum of a superblock right, whatever else it says.
void seal_superblock(std::span<std::byte> memory);

/// A control region on the heap, so that AddressSanitizer sees its ends, with a daemon, two clients with a
/// region each, one client that is quarantined and one that is dead and not swept, objects, leases, key pins,
/// reserved and retired pages, a second namespace and an overflow chain. No memory lies behind its pages.
class SmallDomain {
  public:
    SmallDomain();

    /// As it was made.
    void restore();
    std::span<std::byte> memory() const { return {memory_.get(), size_}; }
    const table::Control& control() const { return *control_; }

    table::Identity daemon, writer, reader;
    std::vector<std::uint32_t> regions;  // of the writer and the reader
    std::vector<std::uint64_t> tokens;   // standing leases and key pins
    std::vector<table::Page> pages;      // reserved by the writer

  private:
    table::Identity connect(const std::string& name, bool is_daemon);
    void populate();

    struct Release {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::size_t size_ = 0;
    std::unique_ptr<std::byte, Release> memory_;
    std::vector<std::byte> pristine_;
    std::optional<table::Control> control_;
};

/// Pages of the small domain's two regions.
inline constexpr std::uint32_t page_4k = 2;

}  // namespace maru::fuzz
