// A client program that tests drive: one command a line on standard input, one JSON object a line as the
// answer.
#include <cstdio>
#include <iostream>

#include "mix.hpp"
#include "session.hpp"

int main() {
    std::ios::sync_with_stdio(false);  // so that what is buffered of standard input can be asked for
    engine::Session session;
    std::printf("{\"ready\":\"%s\"}\n", maru_version());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
        if (line == "quit") return 0;
        if (engine::obey_after_mix(line)) continue;
        const engine::Command command(line);
        engine::Answer answer;
        if (!session.execute(command, answer)) answer.text("unknown", command.name());
        std::printf("%s\n", answer.line().c_str());
        std::fflush(stdout);
    }
    return 0;
}
