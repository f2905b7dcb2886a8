// One call of the C interface: may this thread act, and with what?
#pragma once

#include <new>

#include "client/client.hpp"

namespace maru::client {

/// The status of a client whose control region has gone.
inline maru_status fail_lost() {
    return fail(Code::damaged,
                "the domain's control region is not there any more (its device was disabled or has gone, its "
                "file was cut short, or its memory is bad): close this client, and connect again when the "
                "daemon serves");
}

/// Stands while a call works on shared memory. Costs a few loads of lines that are in the cache.
///
/// A false Call says in `status` why the call must not go on, and has left the detail text.
class Call {
  public:
    explicit Call(maru_client* client) noexcept {
        if (client == nullptr) [[unlikely]] {
            status_ = fail(Code::invalid, "client is NULL");
            return;
        }
        const std::uint64_t serial = client->ward.serial.load(std::memory_order_acquire);  // pairs with open
        Hands* hands = thread_cache.serial == serial ? thread_cache.hands : client->enter(&status_);
        if (hands == nullptr) [[unlikely]]
            return;
        hands->busy.store(1,
                          std::memory_order_relaxed);  // before the look at the serial: see Roster::quiesce
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (client->ward.serial.load(std::memory_order_relaxed) == ForkWard::not_open) [[unlikely]] {
            hands->busy.store(0, std::memory_order_release);
            (void)client->enter(&status_);
            return;
        }
        client_ = client;
        hands_ = hands;
    }
    ~Call() {
        if (hands_ != nullptr)
            hands_->busy.store(0, std::memory_order_release);  // pairs with Roster::quiesce
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    explicit operator bool() const { return hands_ != nullptr; }
    maru_status status() const { return status_; }

    /// False, with the status set, when the daemon took this client for gone.
    bool active() {
        if (!hands_->fenced()) [[likely]]
            return true;
        // Zeroes in place of a lost control region show no active slot either.
        status_ = client_->memory->is_lost() ? fail_lost()
                                             : fail(Code::fenced,
                                                    "the daemon took this client for gone; its slot was "
                                                    "fenced: close it and connect again");
        return false;
    }

    /// False, with the status set, when this client may only read.
    bool may_write() {
        if (client_->may_write()) [[likely]]
            return true;
        status_ = client_->refuse_write();
        return false;
    }

    Client& client() const { return *client_; }
    Hands& hands() const { return *hands_; }
    table::Worker& worker() const { return *hands_->worker; }

  private:
    maru_client* client_ = nullptr;
    Hands* hands_ = nullptr;
    maru_status status_ = MARU_ERR_INVALID;
};

/// The key ready for the table; false, with the status set, for one that no key can be.
inline bool make_key(const Client& client, const void* data, std::size_t size, table::Key* key,
                     maru_status* status) {
    if (data == nullptr || size - 1 >= table::key_length_max) [[unlikely]] {
        *status = size > table::key_length_max
                      ? fail_with(Code::too_large, "a key has at most %u bytes, this one has %zu",
                                  table::key_length_max, size)
                      : fail(Code::invalid, "a key has at least one byte");
        return false;
    }
    // In place: a copy would load wider words than were just stored, and wait until they have left the store
    // buffer.
    ::new (key) table::Key(client.control->key(client.name_space, {static_cast<const char*>(data), size}));
    return true;
}

/// Status of a table operation that failed, with its text.
inline maru_status fail_plainly(Code code) {
    return fail(code, describe(code));
}

/// Turns a found object into a view for the caller; a damaged one is released (and, where only its bytes are
/// wrong, retired, which reads as a miss).
maru_status hand_out(Call& call, const table::View& found, maru_view* view);

/// Checksum of a value, as the record carries it.
std::uint64_t checksum_of(const void* data, std::uint64_t size);

}  // namespace maru::client
