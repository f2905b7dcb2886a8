#include "choose.hpp"

#include <algorithm>
#include <string_view>

namespace maru::ctl {
namespace {

/// The field at a path of names with dots between them, or nullptr.
const Json* field_at(const Json& row, std::string_view path) {
    const auto dot = path.find('.');
    const auto found = row.is_object() ? row.find(std::string(path.substr(0, dot))) : row.end();
    if (found == row.end()) return nullptr;
    return dot == std::string_view::npos ? &*found : field_at(*found, path.substr(dot + 1));
}

void list_fields(const Json& row, const std::string& before, std::string* names) {
    for (const auto& [name, value] : row.items())
        if (value.is_object())
            list_fields(value, before + name + ".", names);
        else
            *names += (names->empty() ? "" : ", ") + before + name;
}

Result<void> check_field(const Json& rows, const std::string& path) {
    const bool known = std::any_of(rows.begin(), rows.end(),
                                   [&](const Json& row) { return field_at(row, path) != nullptr; });
    if (known || rows.empty()) return {};
    std::string names;
    list_fields(rows.front(), "", &names);
    return Error{Code::invalid, "no row has a field \"" + path + "\"; there are: " + names};
}

bool is_value(const Json* field, const std::string& wanted) {
    if (field == nullptr) return false;
    return field->is_string() ? field->get_ref<const std::string&>() == wanted : field->dump() == wanted;
}

/// Rows without the field come first.
bool is_less(const Json* one, const Json* other) {
    return other != nullptr && (one == nullptr || *one < *other);
}

/// The field that a filter names.
Result<std::string> field_of(const std::string& filter) {
    const auto equals = filter.find('=');
    if (equals != std::string::npos && equals > 0) return filter.substr(0, equals);
    return Error{Code::invalid, "--filter \"" + filter + "\" is not FIELD=VALUE, as in state=active"};
}

Json rows_with(const std::string& path, const std::string& wanted, Json rows) {
    Json kept = Json::array();
    for (auto& row : rows)
        if (is_value(field_at(row, path), wanted)) kept.push_back(std::move(row));
    return kept;
}

}  // namespace

Result<void> choose_rows(const RowChoice& choice, Json* rows) {
    if (!choice.sort.empty())
        if (auto known = check_field(*rows, choice.sort); !known) return known;
    Json kept = *rows;
    for (const auto& filter : choice.filters) {
        const auto path = field_of(filter);
        if (!path) return path.error();
        if (auto known = check_field(*rows, *path); !known) return known;
        kept = rows_with(*path, filter.substr(path->size() + 1), std::move(kept));
    }
    *rows = std::move(kept);
    if (!choice.sort.empty())
        std::stable_sort(rows->begin(), rows->end(), [&](const Json& one, const Json& other) {
            return is_less(field_at(one, choice.sort), field_at(other, choice.sort));
        });
    if (choice.reverse) std::reverse(rows->begin(), rows->end());
    return {};
}

}  // namespace maru::ctl
