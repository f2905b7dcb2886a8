#include "daemon/name_space.hpp"

#include <algorithm>

namespace maru::daemon {
namespace {

constexpr std::size_t name_bytes_max = 63;

bool in_use(const table::NamespaceEntry& entry) {
    return (entry.state.load(shm::acquire) & 1) != 0;  // pairs with the release that makes an entry
}

Result<void> check_name(const std::string& name) {
    const bool printable = std::all_of(name.begin(), name.end(), [](char letter) {
        return static_cast<unsigned char>(letter) > 0x20 && letter != 0x7f;
    });
    if (name.size() <= name_bytes_max && printable) return {};
    return Error{Code::invalid, "a namespace has a name of 1 to " + std::to_string(name_bytes_max) +
                                    " bytes without blanks and control characters; this one has " +
                                    std::to_string(name.size())};
}

}  // namespace

std::optional<std::uint32_t> find_namespace(const table::Control& control, const std::string& name) {
    for (std::uint32_t id = 0; id < control.namespace_count(); ++id)
        if (in_use(control.name_space(id)) && control.name_space(id).name.get() == name) return id;
    return {};
}

Result<std::uint32_t> find_or_make_namespace(const table::Control& control, const std::string& name) {
    if (name.empty()) return std::uint32_t{0};
    if (auto valid = check_name(name); !valid) return valid.error();
    if (const auto found = find_namespace(control, name)) return *found;
    std::uint32_t unused = 0;
    while (unused < control.namespace_count() && in_use(control.name_space(unused)))
        ++unused;
    if (unused == control.namespace_count())
        return Error{Code::full, "all " + std::to_string(control.namespace_count()) +
                                     " namespaces are made, \"" + name +
                                     "\" would be one more: raise control.max_namespaces"};
    auto& entry = control.name_space(unused);
    entry.name.set(name);
    const std::uint64_t generation = (entry.state.load(shm::relaxed) >> 32) + 1;
    entry.state.store(generation << 32 | 1, shm::release);  // pairs with in_use of others
    return unused;
}

}  // namespace maru::daemon
