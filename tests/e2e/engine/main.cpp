// A client program that tests drive: one command a line on standard input, one JSON object a line as the
// answer.
#include <cstdio>
#include <iostream>

#include "session.hpp"

int main() {
    engine::Session session;
    std::printf("{\"ready\":\"%s\"}\n", maru_version());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
        if (line == "quit") return 0;
        const engine::Command command(line);
        engine::Answer answer;
        if (!session.execute(command, answer)) answer.text("unknown", command.name());
        std::printf("%s\n", answer.line().c_str());
        std::fflush(stdout);
    }
    return 0;
}
