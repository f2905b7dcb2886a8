// The single answers of Admin, each a JSON object.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "daemon/admin.hpp"
#include "daemon/admin/census.hpp"
#include "daemon/json.hpp"
#include "wire/key_text.hpp"

namespace maru::daemon {

/// JSON as text. Bytes that are no UTF-8 are replaced, so that damaged shared memory cannot make an answer
/// fail.
inline std::string text_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A word as people compare it.
inline std::string hex_text(std::uint64_t word) {
    char text[20];
    std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(word));
    return text;
}

inline constexpr std::uint64_t list_limit = 1000;             // entries a part
inline constexpr std::chrono::milliseconds list_budget{5};    // and time
inline constexpr std::chrono::milliseconds census_budget{8};  // of one call's counting

/// What a request may say, checked.
struct Arguments {
    std::uint64_t cursor = 0;
    std::uint64_t limit = list_limit;
    std::string prefix;  // bytes
    std::optional<std::string> name_space;
};

/// Everything an answer is made from.
struct Subject {
    const Config& config;
    const table::Control& control;
    const DaemonFacts& facts;
    const Tally& tally;
    bool complete;  // the tally is current
    std::uint64_t records_done;
};

/// Bytes of a tally's pages, and their counts.
Json json_of_pages(const PageTally& tally);
/// A domain's or pool's bytes by state: `bytes` has pages turned into bytes.
Json json_of_bytes(const PageTally& bytes, std::uint64_t total, std::uint64_t unclaimed);

/// Sums over regions.
struct Sums {
    PageTally pages, bytes;
    std::uint64_t regions = 0, units = 0;
    void add(const RegionTally& region);
};

Json answer_status(const Subject& subject);
Json answer_pools(const Subject& subject);
Json answer_regions(const Subject& subject, const Arguments& arguments);
Json answer_clients(const Subject& subject, const Arguments& arguments);
Json answer_hosts(const Subject& subject);
Json answer_namespaces(const Subject& subject);
/// Invalid: there is no such namespace.
Result<Json> answer_keys(const table::Control& control, const Arguments& arguments);
/// What needs a person, each with its remedy.
Json warnings_of(const Subject& subject, const Sums& sums);

}  // namespace maru::daemon
