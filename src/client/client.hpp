// A client: everything behind a maru_client.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "client/connection.hpp"
#include "client/detail.hpp"
#include "client/hands.hpp"
#include "client/held_regions.hpp"
#include "client/key_pins.hpp"
#include "client/memory.hpp"
#include "client/page_marks.hpp"
#include "client/settings.hpp"
#include "maru/maru.h"

namespace maru::client {

/// Life: `open` makes it usable; `close` ends every call but the release of views; with the last view
/// everything it owns goes (`finish`), and only the shell stays for a while, so that a late call gets an
/// answer (see `bury`).
///
/// Threads: any. The first cache line is all that a fast call reads here.
class Client {
  public:
    static Result<maru_client*> open(const Settings& settings);
    /// What `kept` names stays until `free_late`.
    maru_status close(std::span<const maru_page> kept = {});
    /// A view of a closed client.
    maru_status release_late(std::uint64_t token);
    /// A page that the close kept.
    maru_status free_late(const maru_page& page);
    /// Memory and client slot stay past the close.
    maru_status hold();
    maru_status let_go();

    // -- read by every call, written before the client is opened
    alignas(64) ForkWard ward;
    const Memory* memory = nullptr;
    const table::Control* control = nullptr;
    std::uint32_t name_space = 0;
    bool checksums = false;  // publications carry one
    bool verify = false;     // reads check it
    std::uint64_t page_bytes = 0;

    // -- slow path

    /// A free page, by every way there is: held regions, a claim, regions of others, eviction.
    Code allocate(Hands& hands, table::Page* page);
    /// ok, or full with the reason set, when the namespace's quota leaves no room for a page: pages of it
    /// were evicted first, if they could be. Asked before each allocation; reads two words where there is no
    /// quota.
    Code keep_to_quota(table::Worker& worker);
    /// False: this client's daemon lets it look up and read only. A word of shared memory, so that a change
    /// is seen by the next call.
    bool may_write() const;
    /// The status of a call that would write, and its text.
    maru_status refuse_write() const;
    /// Where a page lies, after the daemon was asked for its pool if need be; nullptr, with the status set,
    /// when there is none: miss when its pool cannot be had now, damaged when no pool has such a place.
    std::byte* find_address(const table::PageLocation& location, maru_status* status) noexcept;
    Result<wire::Frame> ask(const std::function<wire::Bytes(std::uint32_t)>& encode);
    /// Hands of the calling thread after the cached ones did not fit, or the reason why not.
    Hands* enter(maru_status* status) noexcept;

    const Settings& settings() const { return settings_; }
    table::Identity identity() const { return identity_; }
    const std::string& daemon_version() const { return daemon_version_; }
    const HeldRegions& held() const { return *held_; }
    Connection& connection() { return *connection_; }
    int event_descriptor() const { return event_.get(); }
    std::uint64_t damaged_count() const { return damaged_.load(std::memory_order_relaxed); }
    void count_damaged() { damaged_.fetch_add(1, std::memory_order_relaxed); }

    KeyPins& key_pins() { return *key_pins_; }
    PageMarks& page_marks() { return *page_marks_; }

  private:
    enum class Life { opening, open, closing, closed, finished };

    Result<void> say_hello(wire::Stream& stream, Deadline deadline, wire::Welcome* welcome);
    Result<void> take_in(const wire::Welcome& welcome, std::span<const Descriptor> pools);
    Result<void> first_claim(wire::Stream& stream, Deadline deadline);
    Result<void> start_watching();
    void keep_up(wire::Stream stream, const std::string& path);
    std::uint64_t adopt(const wire::Claimed& claimed);
    void add_held(std::uint32_t region);
    Result<void> take_in_pools(const wire::Frame& frame);
    void ask_pools() noexcept;
    void find_held();
    bool claim_more(Hands& hands, std::uint64_t* held_before);
    std::uint64_t claim_once() noexcept;
    void note_none_left();
    bool reaches_beyond_quota() const;
    void fail_at_quota(const table::Worker& worker) const;
    std::size_t end_pins_and_pages(table::Worker& worker, std::span<const maru_page> kept);
    void one_view_less();
    void finish(Deadline deadline);
    Deadline deadline() const;

    Settings settings_;
    wire::Hello hello_;
    std::string daemon_version_;
    Uuid domain_;
    table::Identity identity_;
    std::unique_ptr<Memory> memory_;
    Descriptor lock_, event_;
    std::shared_ptr<Roster> roster_;
    std::unique_ptr<HeldRegions> held_;
    std::unique_ptr<KeyPins> key_pins_;
    std::unique_ptr<PageMarks> page_marks_;
    Prefault prefault_;
    std::unique_ptr<Connection> connection_;
    std::atomic<std::uint64_t> damaged_{0};
    std::mutex pools_mutex_;  // one thread asks for pools, others wait for what it gets
    std::int64_t no_pools_until_ms_ = 0;
    std::string pools_problem_;  // why the last one could not be had

    // One thread claims, others wait for what it gets.
    std::mutex claim_mutex_;
    std::condition_variable claim_ended_;
    bool claiming_ = false;
    std::atomic<std::int64_t> no_claim_until_ms_{0};
    std::atomic<bool> claim_unanswered_{false};

    std::mutex life_mutex_;
    Life life_ = Life::opening;
    std::uint64_t serial_ = 0;
    std::size_t views_out_ = 0;  // after close; kept pages and holds count as views
    std::size_t holds_ = 0;
};

/// Keeps a finished client detectable until many others have come to their end, then frees it.
void bury(maru_client* client);

}  // namespace maru::client

struct maru_client final : maru::client::Client {};
