// A config in few words, for the tests of the config.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "daemon/config.hpp"

namespace maru::daemon {

/// A text that has to be good.
inline Config parsed(const std::string& text) {
    auto config = parse_config(text, "maru.toml");
    INFO((config ? text : text + "\n" + config.error().text));
    REQUIRE(config);
    return *config;
}

/// The words in which a text is refused.
inline std::string refusal(const std::string& text) {
    const auto config = parse_config(text, "maru.toml");
    INFO(text);
    REQUIRE_FALSE(config);
    CHECK(config.error().code == Code::invalid);
    return config.error().text;
}

/// A text names all of these.
inline void check_contains(const std::string& text, std::initializer_list<std::string> parts) {
    for (const auto& part : parts) {
        INFO("\"" << part << "\" in \"" << text << "\"");
        CHECK(text.find(part) != std::string::npos);
    }
}

/// The error of a text names all of these.
inline void check_refused(const std::string& text, std::initializer_list<std::string> parts) {
    check_contains(refusal(text), parts);
}

inline CommandLine with_pools(std::vector<std::string> pools) {
    CommandLine line;
    line.pools = std::move(pools);
    return line;
}

inline const std::string one_pool = "[[pool]]\nkind = \"shm\"\nsize = \"64MiB\"\n";

}  // namespace maru::daemon
