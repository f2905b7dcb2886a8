// Connections of those who scrape: HTTP on the daemon's own loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "daemon/loop.hpp"

namespace maru::daemon {

inline constexpr std::size_t scrapes_max = 16;                     // connections at one time
inline constexpr std::chrono::milliseconds scrape_patience{5000};  // for a request, and for taking its answer
inline constexpr std::chrono::milliseconds farewell_patience{1000};  // for the other end to close
inline constexpr std::size_t farewell_bytes_max = 64 * 1024;         // read and thrown away meanwhile

/// Answers one request a connection with the text that `make` brings.
///
/// Bound:   scrapes_max connections, each with http_head_bytes_max of memory beside its answer and a limit in
///          time for every step. When all are taken, whoever has kept his request longest makes room.
/// Threads: the loop's.
class ScrapeServer {
  public:
    using Answer = std::function<void(const std::string& text)>;
    /// `make` calls its argument once, later or at once, in the loop.
    ScrapeServer(Loop& loop, std::function<void(Answer)> make);
    ~ScrapeServer();
    ScrapeServer(const ScrapeServer&) = delete;
    ScrapeServer& operator=(const ScrapeServer&) = delete;

    /// From here on. `listener` stays the caller's and outlives this.
    void serve(int listener);

  private:
    enum class Stage { reading, making, sending, farewell };
    struct Connection {
        Descriptor socket;
        Stage stage = Stage::reading;
        std::string received;
        std::size_t thrown_away = 0;
        Operation receiving = 0, sending = 0, patience = 0;
    };
    using Id = std::uint64_t;

    void accept();
    void accepted(int result);
    void make_room();
    Connection* find(Id id);
    void receive(Id id, Connection& connection);
    void received(Id id, const Received& piece);
    void limit(Id id, Connection& connection, std::chrono::milliseconds span);
    void send(Id id, std::string answer);
    void say_farewell(Id id);
    void close(Id id);

    Loop& loop_;
    std::function<void(Answer)> make_;
    int listener_ = -1;
    Operation accepting_ = 0;
    Id last_ = 0;
    std::unordered_map<Id, Connection> connections_;
};

}  // namespace maru::daemon
