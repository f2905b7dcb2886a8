#include "daemon/session.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace maru::daemon {

Session::Session(Loop& loop, std::uint64_t id, Descriptor socket, Peer peer, Events events)
    : loop_(loop), id_(id), socket_(std::move(socket)), peer_(std::move(peer)), events_(std::move(events)) {}

Session::~Session() {
    events_.closed = nullptr;
    close();
}

void Session::start() {
    patience_ = loop_.after(first_frame_patience, [this] {
        patience_ = 0;
        refuse(Error{Code::timeout, "no request within " +
                                        std::to_string(first_frame_patience.count() / 1000) +
                                        " s of the connection"});
    });
    receive();
}

void Session::receive() {
    if (closed_ || closing_ || held_ || receiving_ != 0) return;
    receiving_ = loop_.receive(socket_.get(), [this](Received piece) {
        receiving_ = 0;
        received(std::move(piece));
    });
}

void Session::received(Received piece) {
    if (piece.result <= 0) return close();
    if (piece.descriptors_lost || !piece.descriptors.empty())
        return refuse(Error{Code::invalid, "a request carries descriptors: none does"});
    if (auto fed = reader_.feed(piece.bytes); !fed) return refuse(fed.error());
    hand_over();
}

void Session::hand_over() {
    if (handing_over_) return;  // an event handler went on from within a frame: the loop below sees it
    handing_over_ = true;
    while (!closed_ && !closing_ && !held_) {
        auto frame = reader_.next();
        if (!frame) break;
        loop_.cancel(std::exchange(patience_, 0));
        events_.frame(*this, std::move(*frame));
    }
    handing_over_ = false;
    receive();
}

void Session::go_on() {
    held_ = false;
    hand_over();
}

void Session::send(wire::Bytes frame, std::vector<Descriptor> owned, std::vector<int> borrowed) {
    if (closed_ || closing_) return;
    queued_bytes_ += frame.size();
    queue_.push_back({std::move(frame), std::move(owned), std::move(borrowed)});
    if (queued_bytes_ > send_queue_bytes_max) {
        spdlog::warn("process {} does not read its answers, {} bytes wait: disconnected", peer_.pid,
                     queued_bytes_);
        return close();
    }
    send_next();
}

void Session::send_next() {
    if (sending_ != 0 || closed_) return;
    if (queue_.empty()) {
        if (closing_) close();
        return;
    }
    auto next = std::make_shared<Outgoing>(std::move(queue_.front()));
    queue_.pop_front();
    queued_bytes_ -= next->bytes.size();
    std::vector<int> numbers;
    for (const auto& descriptor : next->owned)
        numbers.push_back(descriptor.get());
    numbers.insert(numbers.end(), next->borrowed.begin(), next->borrowed.end());
    // The callback keeps the owned descriptors until the kernel is done with them.
    sending_ =
        loop_.send(socket_.get(), std::move(next->bytes), std::move(numbers), [this, next](int result) {
            sending_ = 0;
            next->owned.clear();
            sent(result);
        });
}

void Session::sent(int result) {
    if (result < 0) return close();
    send_next();
}

void Session::fail(std::uint32_t request, const Error& error) {
    send(wire::encode_frame(request, wire::to_failure(error)));
}

void Session::refuse(const Error& error) {
    spdlog::debug("connection of process {}: {}", peer_.pid, error.text);
    fail(0, error);
    close_after_sending();
}

void Session::close_after_sending() {
    if (closed_) return;
    closing_ = true;
    loop_.cancel(std::exchange(receiving_, 0));
    // A peer that does not take its last answer is not waited for.
    loop_.cancel(std::exchange(patience_, 0));
    patience_ = loop_.after(first_frame_patience, [this] {
        patience_ = 0;
        close();
    });
    send_next();
}

void Session::close() {
    if (std::exchange(closed_, true)) return;
    loop_.cancel(std::exchange(receiving_, 0));
    loop_.cancel(std::exchange(sending_, 0));
    loop_.cancel(std::exchange(patience_, 0));
    queue_.clear();
    socket_.reset();
    if (events_.closed) events_.closed(*this);
}

}  // namespace maru::daemon
