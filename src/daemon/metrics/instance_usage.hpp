// Who looked up how much, for metrics: by name for the busiest instances, together for the rest.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "table/clients.hpp"

namespace maru::daemon {

inline constexpr std::size_t named_instances_max = 64;
inline constexpr const char* other_instances = "other";

/// Counts of this host's clients since this object was made.
///
/// Promise: no row ever counts down while it is there, whoever comes, goes and comes back; the rows together
///          hold everything that was seen. An instance that leaves keeps its row, and goes on in it when it
///          returns, until a busier one needs the name: then its counts are added to "other".
/// Bound:   named_instances_max rows with a name, and one "other" for each namespace.
/// Death:   counts begin at zero with the next daemon, as a scraper expects of a process that was restarted.
/// Threads: the loop's. Only reads shared memory.
class InstanceUsage {
  public:
    struct Row {
        std::string name_space, instance;  // printable
        std::uint64_t lookups = 0, hits = 0, expired_key_pins = 0;
    };

    /// `host`: whose clients count; those of another host are counted by its daemon.
    InstanceUsage(const table::Control& control, std::uint32_t host);

    /// Takes in what the clients have counted since the last look.
    void look();
    /// The same for one client, whose counts are about to be folded into the domain's.
    void look_at_leaving(table::Identity identity);
    void count_expired(std::uint32_t slot, std::uint64_t key_pins);
    std::vector<Row> rows() const;

  private:
    using Key = std::pair<std::string, std::string>;  // namespace, instance
    struct Seen {
        std::uint32_t generation = 0;
        std::uint64_t lookups = 0, hits = 0;
    };
    bool is_ours(const table::ClientView& client) const;
    Key key_of(const table::ClientView& client) const;
    void take_in(const table::ClientView& client, const table::Counts& now);
    Row& row_of(const Key& key, std::uint64_t lookups);
    Row& other_of(const std::string& name_space);
    bool give_up_a_name(std::uint64_t lookups);

    const table::Control& control_;
    const std::uint32_t host_;
    std::vector<Seen> seen_;  // by slot
    std::map<Key, Row> named_;
    std::map<std::string, Row> others_;  // by namespace
    std::set<Key> present_;              // as of the last look
};

}  // namespace maru::daemon
