#include <optional>

#include "daemon/admin/answers.hpp"
#include "daemon/admin/pinned.hpp"
#include "table/age.hpp"
#include "table/namespaces.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds pins_budget{3};

/// A findable object as its record reads now.
struct Object {
    table::Phase phase = table::Phase::published;
    std::uint32_t generation = 0;
    std::string key;  // its first part
    std::uint64_t key_length = 0, length = 0;
    std::uint32_t region = 0, page_index = 0, page_4k = 0, name_space = 0;
    std::uint64_t age_s = 0;
};

/// An object is listed once its commit is certain, and until its end is.
bool is_listed(table::Phase phase) {
    return phase != table::Phase::publishing && table::is_live(phase);
}

std::string inline_key(const table::PageRecord& record, std::uint64_t length) {
    std::string key;
    for (std::uint64_t at = 0; at < std::min<std::uint64_t>(length, table::key_inline_max); at += 8) {
        const auto bits = record.key[at / 8].load(shm::relaxed);
        for (std::uint64_t b = 0; b < 8 && at + b < length; ++b)
            key += static_cast<char>(bits >> (8 * b) & 0xff);
    }
    return key;
}

std::optional<Object> read_object(const table::PageRecord& record, std::uint64_t tick) {
    // acquire: with the release of the publication, so that the fields are those of this generation or later
    const auto before = table::State::unpack(record.state.load(shm::acquire));
    if (!is_listed(before.phase)) return {};
    Object object;
    object.phase = before.phase;
    object.generation = before.generation;
    object.key_length = record.key_length.load(shm::relaxed);
    object.key = inline_key(record, object.key_length);
    object.length = record.length.load(shm::relaxed);
    object.region = record.region.load(shm::relaxed);
    object.page_index = record.page_index.load(shm::relaxed);
    object.page_4k = record.page_4k.load(shm::relaxed);
    object.name_space = record.name_space.load(shm::relaxed);
    object.age_s = table::age_of(record, tick);
    shm::fence(
        shm::acquire);  // pairs with the fence of who takes the record for another object before it writes
    const auto after = table::State::unpack(record.state.load(shm::fenced_load));
    const bool same = after.generation == before.generation && is_listed(after.phase);
    if (!same || object.key_length == 0 || object.key_length > table::key_length_max) return {};
    return object;
}

Json json_of(const table::Control& control, const Object& object, const PinsOfObject* pins, bool pins_known) {
    const bool whole = object.key.size() == object.key_length;
    Json row{{"key", whole ? wire::key_text(object.key) : wire::printable(object.key)},
             {"key_hex", wire::hex_of(object.key)},
             {"key_length", object.key_length},
             {"key_complete", whole},
             {"size", object.length},
             {"age_s", object.age_s}};
    row["leases"] = pins_known ? Json(pins == nullptr ? 0 : pins->leases) : Json(nullptr);
    row["key_pins"] = pins_known ? Json(pins == nullptr ? 0 : pins->key_pins) : Json(nullptr);
    row["region"] = object.region;
    row["page"] = object.page_index;
    row["page_bytes"] = std::uint64_t{object.page_4k} * table::page_align;
    row["namespace"] = object.name_space < control.namespace_count()
                           ? wire::printable(control.name_space(object.name_space).name.get())
                           : std::to_string(object.name_space);
    row["state"] = table::name_of(object.phase);
    return row;
}

}  // namespace

Result<Json> answer_keys(const table::Control& control, const Arguments& arguments) {
    std::optional<std::uint32_t> name_space;
    if (arguments.name_space) {
        const auto id = table::named_namespace(control, *arguments.name_space);
        if (!id) return id.error();
        name_space = *id;
    }
    PinsByObject pins;
    const bool pins_known = collect_pins(control, deadline_after(pins_budget), &pins);
    const auto deadline = deadline_after(list_budget);
    const auto tick = control.super().tick.load(shm::relaxed);
    auto rows = Json::array();
    Json next = nullptr;
    for (auto number = std::max<std::uint64_t>(1, arguments.cursor); number < control.record_count();
         ++number) {
        if (rows.size() >= arguments.limit || (number % 128 == 0 && MonotonicClock::now() >= deadline)) {
            next = number;
            break;
        }
        const auto object = read_object(control.record(static_cast<std::uint32_t>(number)), tick);
        if (!object || object->key.compare(0, arguments.prefix.size(), arguments.prefix) != 0) continue;
        if (name_space && object->name_space != *name_space) continue;
        const auto word = table::pin::pack(table::PinKind::none, 0, 0, object->generation,
                                           static_cast<std::uint32_t>(number));
        const auto found = pins.find(pinned_object(word));
        rows.push_back(json_of(control, *object, found == pins.end() ? nullptr : &found->second, pins_known));
    }
    return Json{{"keys", rows}, {"next", next}, {"of", control.record_count()}};
}

}  // namespace maru::daemon
