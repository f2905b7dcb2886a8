// Fields of an answer for people. An answer of another version may lack one: that is a dash or a zero, no
// failure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/size.hpp"
#include "wire/key_text.hpp"

namespace maru::ctl {

using Json = nlohmann::ordered_json;

/// The field at a path of names; null when there is none.
template <class... Names>
const Json& field(const Json& from, const char* name, Names... inner) {
    static const Json none;
    if (!from.is_object() || !from.contains(name)) return none;
    if constexpr (sizeof...(inner) == 0)
        return from[name];
    else
        return field(from[name], inner...);
}

template <class... Names>
std::uint64_t number(const Json& from, Names... names) {
    const auto& value = field(from, names...);
    return value.is_number_unsigned() ? value.template get<std::uint64_t>() : 0;
}

template <class... Names>
std::string count(const Json& from, Names... names) {
    return field(from, names...).is_number() ? std::to_string(number(from, names...)) : "-";
}

template <class... Names>
std::string size(const Json& from, Names... names) {
    return field(from, names...).is_number() ? format_size(number(from, names...)) : "-";
}

/// Safe for a terminal, whoever answered.
template <class... Names>
std::string text(const Json& from, Names... names) {
    const auto& value = field(from, names...);
    if (!value.is_string()) return "-";
    const auto& bytes = value.template get_ref<const std::string&>();
    return wire::is_printable(bytes) ? bytes : wire::printable(bytes);
}

/// Who may enter a namespace, from its uids, gids and readonly_gids.
std::string access_text(const Json& row);

}  // namespace maru::ctl
