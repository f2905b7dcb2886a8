// What each subcommand of maru-bench is asked for.
#pragma once

#include <string>

namespace maru::bench {

struct Request {
    std::string socket;  // of a daemon to use; empty: start a private one
    std::string
        daemon;  // program of the private daemon; empty: found beside maru-bench or in the build folder
    std::string python = "python3";
    std::string json;  // file for the figures; empty: none
    bool quick = false;
    bool sweep = false;
    unsigned idle_seconds = 60;
};

}  // namespace maru::bench
