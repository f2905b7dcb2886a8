// The hidden subcommands of `recovery`: a client that is killed, and one that goes on while the daemon is
// killed.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "commands.hpp"
#include "engine.hpp"
#include "recovery.hpp"

namespace maru::bench {
namespace {

constexpr std::size_t pages_of_steady = 1'024, batch = 64;

void say(const std::string& line) {
    std::puts(line.c_str());
    std::fflush(stdout);
}

bool read_line() {
    std::array<char, 64> line;
    return std::fgets(line.data(), line.size(), stdin) != nullptr;
}

bool told_something() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, 0) > 0;
}

maru_status hold_pins(maru_client* client, const KeySet& keys, std::vector<maru_view>* views) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
        maru_status status = MARU_OK;
        if (i % 2 == 0) {
            status = maru_pin(client, keys.data(i), key_bytes);
        } else {
            views->emplace_back();
            status = maru_retrieve(client, keys.data(i), key_bytes, &views->back());
        }
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

/// Fast-path calls on objects that are there (`keys`) and that come and go (`own`).
class SteadyCalls {
  public:
    SteadyCalls(maru_client* client, const KeySet& keys, const KeySet& own)
        : client_(client), keys_(keys), own_(own) {}

    void turn() {
        for (std::size_t i = 0; i < batch; ++i) {
            maru_view view;
            const std::size_t which = next_++ % keys_.size();
            if (good("retrieve", maru_retrieve(client_, keys_.data(which), key_bytes, &view)))
                good("release", maru_release(client_, &view));
        }
        const std::size_t which = turns_++ % own_.size();
        maru_page page;
        if (!good("alloc", maru_alloc(client_, recovery_page_bytes, &page))) return;
        good("store", maru_store(client_, own_.data(which), key_bytes, &page, recovery_page_bytes));
        good("free", maru_free(client_, &page));
        good("remove", maru_remove(client_, own_.data(which), key_bytes));
    }
    /// Calls, failed calls and the first error since the last time.
    std::string sum() {
        const std::string text = std::to_string(calls_) + " " + std::to_string(failed_) + " " + first_error_;
        calls_ = failed_ = 0;
        first_error_.clear();
        return text;
    }

  private:
    bool good(const char* call, maru_status status) {
        ++calls_;
        if (status == MARU_OK) return true;
        ++failed_;
        if (first_error_.empty()) first_error_ = refused(client_, call, status).text;
        return false;
    }

    maru_client* client_;
    const KeySet &keys_, &own_;
    std::size_t next_ = 0, turns_ = 0;
    std::uint64_t calls_ = 0, failed_ = 0;
    std::string first_error_;
};

}  // namespace

Result<void> run_holder(const std::string& socket, std::uint64_t pages, std::uint64_t pins) {
    auto client = connect_writer(socket, recovery_page_bytes, pages * recovery_page_bytes);
    if (!client) return client.error();
    std::vector<maru_page> held(pages);
    for (maru_page& page : held)
        if (const auto status = maru_alloc(client->get(), recovery_page_bytes, &page); status != MARU_OK)
            return refused(client->get(), "alloc", status);
    const KeySet keys(0, pins, 0);
    std::vector<maru_view> views;
    if (const auto status = hold_pins(client->get(), keys, &views); status != MARU_OK)
        return refused(client->get(), "pin or retrieve", status);
    say("ready");
    while (read_line()) {  // the end of the input ends this process, if no signal does
    }
    return {};
}

Result<void> run_steady(const std::string& socket, std::uint64_t objects) {
    auto client = connect_writer(socket, recovery_page_bytes, pages_of_steady * recovery_page_bytes);
    if (!client) return client.error();
    const KeySet keys(0, objects, 5), own(objects, pages_of_steady / 2, 6);
    SteadyCalls calls(client->get(), keys, own);
    for (std::size_t i = 0; i < objects / batch; ++i)  // meets every page of the tables
        calls.turn();
    calls.sum();
    say("ready");
    while (read_line()) {  // "go"
        say("begun");
        while (!told_something())
            calls.turn();
        if (!read_line()) break;  // "stop"
        say(calls.sum());
    }
    return {};
}

}  // namespace maru::bench
