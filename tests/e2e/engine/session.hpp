// What an engine holds: clients, pages and views by name, and the commands on them.
#pragma once

#include <maru/maru.h>

#include <map>
#include <string>
#include <vector>

#include "line.hpp"

namespace engine {

/// Pages and views are handed to the library as copies, so that a second free or release meets the library
/// with the handle as it was, not with whatever the first one left in it.
class Session {
  public:
    /// Executes one command; false when it does not know it.
    bool execute(const Command& command, Answer& answer);

  private:
    using Handler = void (Session::*)(const Command&, Answer&);
    static const std::map<std::string, Handler>& handlers();

    maru_client* client(const Command& command);
    void report(Answer& answer, maru_status status, maru_client* client);

    // connection.cpp
    void connect(const Command& command, Answer& answer);
    void close(const Command& command, Answer& answer);
    void ping(const Command& command, Answer& answer);
    void stats(const Command& command, Answer& answer);
    void regions(const Command& command, Answer& answer);
    void pool(const Command& command, Answer& answer);
    void event(const Command& command, Answer& answer);
    void fork_child(const Command& command, Answer& answer);
    void fork_and_stay(const Command& command, Answer& answer);
    void hits(const Command& command, Answer& answer);
    void mix(const Command& command, Answer& answer);

    // single.cpp
    void alloc(const Command& command, Answer& answer);
    void write(const Command& command, Answer& answer);
    void store(const Command& command, Answer& answer);
    void free(const Command& command, Answer& answer);
    void put(const Command& command, Answer& answer);
    void put_many(const Command& command, Answer& answer);
    void get(const Command& command, Answer& answer);
    void retrieve(const Command& command, Answer& answer);
    void verify(const Command& command, Answer& answer);
    void release(const Command& command, Answer& answer);
    void exists(const Command& command, Answer& answer);
    void remove(const Command& command, Answer& answer);
    void pin(const Command& command, Answer& answer);
    void unpin(const Command& command, Answer& answer);
    void race(const Command& command, Answer& answer);

    // batch.cpp
    void match(const Command& command, Answer& answer);
    void store_batch(const Command& command, Answer& answer);
    void retrieve_batch(const Command& command, Answer& answer);
    void release_batch(const Command& command, Answer& answer);
    void exists_batch(const Command& command, Answer& answer);
    void pin_batch(const Command& command, Answer& answer);
    void unpin_batch(const Command& command, Answer& answer);

    struct Held {
        maru_view view{};
        std::string key;
    };
    std::map<std::string, maru_client*> clients_;
    std::map<std::string, maru_page> pages_;
    std::map<std::string, Held> views_;
    std::uint64_t next_id_ = 1;
};

/// A view's place and whether its bytes are those of the key.
void describe_view(Answer& answer, const maru_view& view, const std::string& key);

/// Keys of a batch: borrowed from `keys`.
std::vector<maru_key> borrow(const std::vector<std::string>& keys);

}  // namespace engine
