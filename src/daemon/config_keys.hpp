// Every key of the config in one list: how its value is read, what is allowed, how it is shown.
#pragma once

#include <toml++/toml.h>

#include <span>
#include <string>

#include "daemon/config.hpp"

namespace maru::daemon {

template <class Target>
struct ConfigKey {
    std::string name;     // "daemon.socket"; of a pool "pool.size", of a namespace "namespace.quota"
    std::string allowed;  // for errors: "a number from 2 to 1023"
    bool (*read)(const toml::node& value, Target& target);
    std::string (*show)(const Target& target);  // as TOML
};

std::span<const ConfigKey<Config>> config_keys();
std::span<const ConfigKey<pool::PoolConfig>> pool_keys();
std::span<const ConfigKey<NamespaceConfig>> namespace_keys();

/// Of a list of users or groups, what is wrong with its first wrong member; nothing when each is one, or when
/// the key takes no such list.
std::optional<std::string> wrong_member(const std::string& key, const toml::node& value);

/// Keys that maru documents and this version does not have yet; "remote" stands for everything below it.
std::span<const std::string> later_keys();

/// The known key nearest to one that is not known, empty when none is near.
std::string nearest_key(const std::string& unknown);
/// The same for a table, as it is written: "[daemon]", "[[pool]]".
std::string nearest_table(const std::string& unknown);

/// Letters to insert, delete, replace or swap with a neighbour to get from one text to the other.
std::size_t edit_distance(const std::string& left, const std::string& right);

/// The numbers of NUMA nodes, with commas.
Result<std::vector<std::uint32_t>> parse_nodes(const std::string& text);

/// A text as a TOML string.
std::string quoted(const std::string& text);

}  // namespace maru::daemon
