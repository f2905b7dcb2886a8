// A small domain over plain memory: a formatted control region, payload behind it, clients in one process.
//
//     Domain domain;
//     Client& engine = domain.client();          // ACTIVE, one region of 8 pages of 256 KiB
//
// A failed assertion prints what is in the control region; a Domain that goes checks that nothing is broken.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "table/check.hpp"
#include "table/clients.hpp"
#include "table/control.hpp"
#include "table/regions.hpp"
#include "table/sweep.hpp"
#include "table/worker.hpp"

namespace maru::table {

/// Sizes of a domain; small, so that tests reach every end.
struct Shape {
    std::uint64_t pool_bytes = 16 * MiB;
    std::uint64_t region_unit = 2 * MiB;
    std::uint32_t records = 0;
    std::uint32_t pins = 4096;
    std::uint32_t clients = 16;
    ChecksumMode checksum = ChecksumMode::off;
};

inline constexpr std::uint32_t page_of_256k = 64;  // in units of 4 KiB: 8 pages in a unit of 2 MiB

/// Memory on a boundary of 4 KiB from the heap, so that AddressSanitizer sees its ends.
class AlignedMemory {
  public:
    explicit AlignedMemory(std::uint64_t bytes)
        : size_(round_up(bytes, page_align)),
          data_(static_cast<std::byte*>(std::aligned_alloc(page_align, size_))) {
        REQUIRE(data_ != nullptr);
        std::memset(data_.get(), 0, size_);
    }
    std::span<std::byte> bytes() const { return {data_.get(), size_}; }

  private:
    struct Release {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::size_t size_;
    std::unique_ptr<std::byte, Release> data_;
};

class Domain;

/// One client of a Domain, with one thread.
struct Client {
    Client(Domain& of, Identity as);

    Domain& domain;
    const Identity identity;
    Worker worker;
    std::vector<std::uint32_t> regions;

    Key key(std::string_view bytes) const;
    /// A reserved page of a region of this client.
    Page alloc();
    /// A page wherever there is one: own regions, any region, in place of a victim.
    Code alloc_any(PageClass wanted, Page* page);
    /// Names a record in an own word, as every compare-and-swap that makes a page ours is preceded by.
    void announce_own(std::uint32_t record);
    /// alloc, bytes, publish, free: what an engine does to store.
    Code put(std::string_view key, std::string_view value);
    /// The same, but the writer's lease stays.
    Page put_and_hold(std::string_view key, std::string_view value);
    /// The value under the key, copied out under a lease.
    std::optional<std::string> get(std::string_view key);
    /// A view that stays.
    View hold(std::string_view key);
    bool exists(std::string_view key) { return worker.exists(this->key(key)); }
    DeleteResult remove(std::string_view key) { return worker.remove(this->key(key)); }
};

class Domain {
  public:
    explicit Domain(Shape shape = {});
    ~Domain();
    Domain(const Domain&) = delete;
    Domain& operator=(const Domain&) = delete;

    const Control& control() const { return *control_; }
    std::span<std::byte> control_memory() const { return control_memory_->bytes(); }
    Worker& daemon() { return daemon_->worker; }

    /// A new ACTIVE client without memory of its own.
    Client& reader();
    /// A new ACTIVE client that holds one region.
    Client& client(std::uint32_t page_4k = page_of_256k);
    /// Another thread of a client.
    Client& thread_of(const Client& client);
    RegionView claim(Client& client, std::uint32_t page_4k = page_of_256k);

    std::byte* bytes_of(const PageLocation& location) const;
    /// The same without an assertion: nullptr for a place outside the pool.
    std::byte* find_bytes(const PageLocation& location) const;
    std::string text_of(const View& view) const;

    State state(std::uint32_t record) const {
        return State::unpack(control().record(record).state.load(shm::acquire));
    }
    Phase phase(std::uint32_t record) const { return state(record).phase; }
    /// Puts a record where somebody who stopped would have left it; generation as it is.
    void set_phase(std::uint32_t record, Phase phase, Owner owner = {});
    /// The slots of the index that name this record, final or tentative.
    std::vector<Word64*> slots_of(std::uint32_t record) const;
    /// Pages in a phase, over every record.
    std::uint64_t pages_in(Phase phase) const;
    /// Pin words of a client that are not empty.
    std::vector<std::uint64_t> pins_of(const Identity& identity) const;

    /// Declares the client dead and sweeps it; its Workers must not be used any more.
    SweepReport bury(const Client& client);

    /// After this the destructor does not expect a sound control region.
    void expect_damage() { damaged_ = true; }
    std::string describe() const;

    static const Domain* current() { return current_; }

  private:
    std::unique_ptr<AlignedMemory> control_memory_, payload_;
    std::uint64_t payload_begin_ = 0;
    std::optional<Control> control_;
    std::unique_ptr<Client> daemon_;
    std::vector<std::unique_ptr<Client>> clients_;
    bool damaged_ = false;
    const Domain* outer_ = nullptr;
    static inline const Domain* current_ = nullptr;
};

/// The words of a finding, for messages.
std::string describe(const CheckReport& report);

/// Keys whose home is this bucket.
std::vector<std::string> keys_of_bucket(const Control& control, std::uint64_t bucket, std::size_t count);

}  // namespace maru::table
