// marutop, which is also `maructl top`: what a domain is doing, live or as tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "commands.hpp"

namespace maru::ctl::top {

struct Request {
    Options options;
    std::optional<std::chrono::milliseconds> interval;  // between two looks
    std::optional<std::uint64_t> count;                 // looks, then the end
    bool once = false;                                  // plain text, one look
    bool csv = false;

    std::chrono::milliseconds pause() const { return interval.value_or(std::chrono::milliseconds(2000)); }
};

/// The live view; plain text where standard output is no terminal or `once` asks for it.
int run_live(const Request& request);
int run_pool(const Request& request);
int run_usage(const Request& request);
int run_stats(const Request& request);

/// On the terminal, until q. Only run_live calls it.
int run_screen(const Request& request);

}  // namespace maru::ctl::top
