// An administrator has objects evicted: maructl evict.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>

#include "daemon/json.hpp"
#include "daemon/name_space.hpp"
#include "daemon/requests.hpp"
#include "table/age.hpp"
#include "wire/key_text.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds slice_budget{5};
constexpr std::uint32_t records_a_step = 256;

/// A place in the work: rounds over all records that begin where the clock's hand stood at first.
struct Cursor {
    std::uint64_t begin = 0;  // record
    std::uint64_t done = 0;   // records, over all rounds

    static constexpr int begin_shift = 32;  // `done` is below: two rounds of 2^28 records
    std::uint64_t pack() const { return begin << begin_shift | done; }
    static Cursor unpack(std::uint64_t word) {
        return {word >> begin_shift, word & ((std::uint64_t{1} << begin_shift) - 1)};
    }
};

struct Wish {
    std::optional<std::string> name_space;
    table::Chosen chosen;
    bool limited = false;  // by bytes
    bool dry_run = false;
    std::optional<std::uint64_t> cursor;
};

Error not_taken(const std::string& what) {
    return Error{Code::invalid,
                 "\"evict\" " + what +
                     "; it takes {\"bytes\": number, \"namespace\": text, \"older_than_s\": number, "
                     "\"dry_run\": true or false, \"cursor\": number}, one of the first three at least"};
}

Result<Wish> wish_of(const std::string& arguments) {
    const auto json = Json::parse(arguments, nullptr, false);
    if (!json.is_object()) return not_taken("got no JSON object");
    Wish wish;
    for (const auto& [name, value] : json.items()) {
        const bool is_count = value.is_number_unsigned();
        if (name == "bytes" && is_count && value.get<std::uint64_t>() > 0) {
            wish.chosen.bytes = value.get<std::uint64_t>();
            wish.limited = true;
        } else if (name == "older_than_s" && is_count && value.get<std::uint64_t>() > 0) {
            wish.chosen.older_than_s = value.get<std::uint64_t>();
        } else if (name == "namespace" && value.is_string()) {
            wish.name_space = value.get<std::string>();
        } else if (name == "dry_run" && value.is_boolean()) {
            wish.dry_run = value.get<bool>();
        } else if (name == "cursor" && is_count) {
            wish.cursor = value.get<std::uint64_t>();
        } else {
            return not_taken("does not take \"" + wire::printable(name.substr(0, 64)) + "\" so");
        }
    }
    if (!wish.limited && wish.chosen.older_than_s == 0 && !wish.name_space)
        return not_taken("does not evict everything unasked");
    if (wish.chosen.older_than_s > table::age_max_s)
        return Error{Code::invalid, "ages are counted up to " + std::to_string(table::age_max_s) +
                                        " s (193 days), " + std::to_string(wish.chosen.older_than_s) +
                                        " s is beyond: ask for less"};
    return wish;
}

/// The memory of the objects that were read since the hand came by goes last.
table::Evicted evict_part(table::Worker& worker, const Wish& wish, std::uint64_t round, std::uint32_t first,
                          std::uint32_t count, std::uint64_t bytes_left) {
    table::Chosen chosen = wish.chosen;
    chosen.bytes = bytes_left;
    chosen.spares_visited = wish.limited && round == 0;
    return wish.dry_run ? table::count_chosen(worker.control(), chosen, first, count)
                        : table::evict_chosen(worker, chosen, first, count);
}

}  // namespace

Result<void> Requests::evict(Session& session, const wire::Frame& frame, const std::string& arguments) {
    auto wish = wish_of(arguments);
    if (!wish) return wish.error();
    if (wish->name_space) {
        const auto id = table::named_namespace(control_, *wish->name_space);
        if (!id) return id.error();
        wish->chosen.name_space = *id;
    }
    const std::uint64_t records = control_.record_count();
    const std::uint64_t rounds = wish->limited && !wish->dry_run ? 2 : 1;
    Cursor place;
    if (wish->cursor) {
        place = Cursor::unpack(*wish->cursor);
    } else {
        const std::uint64_t hand = control_.super().evict_hand.load(shm::relaxed);
        place.begin = wish->limited ? hand * table::evict_stride % records : 0;
        if (!wish->dry_run)
            spdlog::info("user {} has objects evicted: {}", session.peer().uid,
                         Json::parse(arguments).dump(-1, ' ', true, Json::error_handler_t::replace));
    }
    if (place.begin >= records || place.done > rounds * records) return not_taken("gave out no such cursor");

    table::Evicted sum;
    const Deadline deadline = deadline_after(slice_budget);
    const std::uint64_t round = std::min(place.done / records, rounds - 1);
    const std::uint64_t round_end = (round + 1) * records;
    do {
        const std::uint64_t at = (place.begin + place.done) % records;
        const std::uint64_t count =
            std::min({std::uint64_t{records_a_step}, records - at, round_end - place.done});
        sum.add(evict_part(parts_.worker, *wish, round, static_cast<std::uint32_t>(at),
                           static_cast<std::uint32_t>(count), wish->chosen.bytes - sum.bytes));
        place.done += count;
    } while (place.done < round_end && sum.bytes < wish->chosen.bytes && MonotonicClock::now() < deadline);
    const bool over = sum.bytes >= wish->chosen.bytes || place.done >= rounds * records;
    session.send(wire::encode_frame(
        frame.request,
        wire::AdminAnswer{Json{{"objects", sum.objects},
                               {"bytes", sum.bytes},
                               {"pinned", {{"objects", sum.pinned}, {"bytes", sum.pinned_bytes}}},
                               {"dry_run", wish->dry_run},
                               {"round", round},
                               {"next", over ? Json(nullptr) : Json(place.pack())}}
                              .dump()}));
    return {};
}

}  // namespace maru::daemon
