#include "daemon/metrics/scrape_server.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/metrics/http.hpp"

namespace maru::daemon {
namespace {

constexpr std::chrono::milliseconds scrape_pause{100};

}  // namespace

ScrapeServer::ScrapeServer(Loop& loop, std::function<void(Answer)> make)
    : loop_(loop), make_(std::move(make)) {}

ScrapeServer::~ScrapeServer() {
    loop_.cancel(accepting_);
    while (!connections_.empty())
        close(connections_.begin()->first);
}

void ScrapeServer::serve(int listener) {
    listener_ = listener;
    accept();
}

void ScrapeServer::accept() {
    accepting_ = loop_.accept(listener_, [this](int result) {
        accepting_ = 0;
        accepted(result);
    });
}

void ScrapeServer::accepted(int result) {
    if (result < 0) {
        spdlog::debug("accept for metrics: {}", std::strerror(-result));
        // A pause, so that a lack that stays does not keep the loop busy.
        accepting_ = loop_.after(scrape_pause, [this] { accept(); });
        return;
    }
    Descriptor socket(result);
    if (connections_.size() >= scrapes_max) make_room();
    if (connections_.size() < scrapes_max) {
        const Id id = ++last_;
        Connection& connection = connections_[id];
        connection.socket = std::move(socket);
        limit(id, connection, scrape_patience);
        receive(id, connection);
    }
    accept();
}

/// Takes the place of the one that has been longest without a whole request, or with its answer and no end.
void ScrapeServer::make_room() {
    Id oldest = 0;
    for (const auto& [id, connection] : connections_)
        if ((connection.stage == Stage::reading || connection.stage == Stage::farewell) &&
            (oldest == 0 || id < oldest))
            oldest = id;
    if (oldest != 0) close(oldest);
}

ScrapeServer::Connection* ScrapeServer::find(Id id) {
    const auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : &found->second;
}

void ScrapeServer::limit(Id id, Connection& connection, std::chrono::milliseconds span) {
    loop_.cancel(connection.patience);
    connection.patience = loop_.after(span, [this, id] {
        Connection* late = find(id);
        if (late == nullptr) return;
        late->patience = 0;
        if (late->stage != Stage::reading) return close(id);
        loop_.cancel(std::exchange(late->receiving, 0));
        send(id, write_answer({408, "the request did not come within " +
                                        std::to_string(scrape_patience.count() / 1000) + " s"},
                              {}));
    });
}

void ScrapeServer::receive(Id id, Connection& connection) {
    connection.receiving = loop_.receive(connection.socket.get(), [this, id](Received piece) {
        Connection* asking = find(id);
        if (asking == nullptr) return;
        asking->receiving = 0;
        received(id, piece);
    });
}

void ScrapeServer::received(Id id, const Received& piece) {
    Connection& connection = *find(id);
    if (piece.result <= 0) return close(id);
    if (connection.stage == Stage::farewell) {
        connection.thrown_away += piece.bytes.size();
        if (connection.thrown_away > farewell_bytes_max) return close(id);
        return receive(id, connection);
    }
    const std::size_t room = http_head_bytes_max - connection.received.size();
    connection.received.append(reinterpret_cast<const char*>(piece.bytes.data()),
                               std::min(room, piece.bytes.size()));
    const auto request = read_request(connection.received);
    if (!request) return receive(id, connection);
    if (request->status != 200) return send(id, write_answer(*request, {}));
    connection.stage = Stage::making;
    limit(id, connection, scrape_patience);
    make_([this, id, asked = *request](const std::string& text) {
        if (find(id) != nullptr) send(id, write_answer(asked, text));
    });
}

void ScrapeServer::send(Id id, std::string answer) {
    Connection& connection = *find(id);
    connection.stage = Stage::sending;
    limit(id, connection, scrape_patience);
    const auto* first = reinterpret_cast<const std::byte*>(answer.data());
    connection.sending = loop_.send(connection.socket.get(), std::vector(first, first + answer.size()), {},
                                    [this, id](int result) {
                                        Connection* sent = find(id);
                                        if (sent == nullptr) return;
                                        sent->sending = 0;
                                        if (result < 0) return close(id);
                                        say_farewell(id);
                                    });
}

/// The other end may still be sending: a socket that is closed with bytes unread takes the answer with it.
void ScrapeServer::say_farewell(Id id) {
    Connection& connection = *find(id);
    connection.stage = Stage::farewell;
    if (::shutdown(connection.socket.get(), SHUT_WR) != 0) return close(id);
    limit(id, connection, farewell_patience);
    receive(id, connection);
}

void ScrapeServer::close(Id id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    loop_.cancel(found->second.receiving);
    loop_.cancel(found->second.sending);
    loop_.cancel(found->second.patience);
    connections_.erase(found);
}

}  // namespace maru::daemon
