// Commands on one key, one page or one view.
#include <vector>

#include "history.hpp"
#include "payload.hpp"
#include "session.hpp"

namespace engine {

void Session::alloc(const Command& command, Answer& answer) {
    maru_page page{};
    const auto status = maru_alloc(client(command), command.number("size"), &page);
    report(answer, status, client(command));
    if (status != MARU_OK) return;
    answer.number("region", page.region).number("page", page.page).number("capacity", page.capacity);
    answer.number("address", reinterpret_cast<std::uintptr_t>(page.data));
    pages_[command.text("p", "p")] = page;
}

void Session::write(const Command& command, Answer& answer) {
    const maru_page& page = pages_[command.text("p", "p")];
    fill(page.data, command.bytes("key"), command.number("id", next_id_++), command.number("size"));
    answer.signed_number("status", MARU_OK);
}

void Session::store(const Command& command, Answer& answer) {
    maru_page page = pages_[command.text("p", "p")];
    const auto key = command.bytes("key");
    report(answer, maru_store(client(command), key.data(), key.size(), &page, command.number("size")),
           client(command));
    if (!command.has("stale")) pages_[command.text("p", "p")] = page;
}

void Session::free(const Command& command, Answer& answer) {
    maru_page page = pages_[command.text("p", "p")];
    report(answer, maru_free(client(command), &page), client(command));
}

void Session::put(const Command& command, Answer& answer) {
    const auto key = command.bytes("key");
    const auto size = command.number("size");
    const auto id = command.number("id", next_id_++);
    std::vector<unsigned char> bytes(size + 1);
    fill(bytes.data(), key, id, size);
    report(answer, maru_put(client(command), key.data(), key.size(), bytes.data(), size), client(command));
    answer.number("id", carried_id(id, size));
}

/// count values under PREFIX0, PREFIX1, ...: how many were stored, were there, and the first error.
void Session::put_many(const Command& command, Answer& answer) {
    const auto size = command.number("size");
    const auto first = command.number("first"), count = command.number("count");
    std::vector<unsigned char> bytes(size + 1);
    std::uint64_t stored = 0, present = 0;
    maru_status status = MARU_OK;
    for (std::uint64_t n = first; n < first + count && status >= 0; ++n) {
        const auto key = command.bytes("prefix") + std::to_string(n);
        fill(bytes.data(), key, next_id_++, size);
        status = maru_put(client(command), key.data(), key.size(), bytes.data(), size);
        stored += status == MARU_OK;
        present += status == MARU_EXISTS;
    }
    report(answer, status < 0 ? status : MARU_OK, client(command));
    answer.number("stored", stored).number("present", present);
}

void Session::get(const Command& command, Answer& answer) {
    const auto key = command.bytes("key");
    std::vector<unsigned char> bytes(command.number("capacity", 1 << 20) + 1);
    std::uint64_t size = 0;
    const auto status =
        maru_get(client(command), key.data(), key.size(), bytes.data(), bytes.size() - 1, &size);
    report(answer, status, client(command));
    answer.number("size", size);
    if (status != MARU_OK) return;
    const auto verdict = engine::verify(bytes.data(), key, size);
    answer.boolean("right", verdict.right).number("id", verdict.id);
}

void Session::retrieve(const Command& command, Answer& answer) {
    Held held;
    held.key = command.bytes("key");
    const auto status = maru_retrieve(client(command), held.key.data(), held.key.size(), &held.view);
    report(answer, status, client(command));
    if (status != MARU_OK) return;
    describe_view(answer, held.view, held.key);
    views_[command.text("v", "v")] = held;
}

/// Looks at the bytes of a view again.
void Session::verify(const Command& command, Answer& answer) {
    const Held& held = views_[command.text("v", "v")];
    answer.signed_number("status", MARU_OK);
    describe_view(answer, held.view, held.key);
}

void Session::release(const Command& command, Answer& answer) {
    maru_view view = views_[command.text("v", "v")].view;
    report(answer, maru_release(client(command), &view), client(command));
}

void Session::exists(const Command& command, Answer& answer) {
    const auto key = command.bytes("key");
    report(answer, maru_exists(client(command), key.data(), key.size()), client(command));
}

void Session::remove(const Command& command, Answer& answer) {
    const auto key = command.bytes("key");
    report(answer, maru_remove(client(command), key.data(), key.size()), client(command));
}

void Session::pin(const Command& command, Answer& answer) {
    const auto key = command.bytes("key");
    report(answer, maru_pin(client(command), key.data(), key.size()), client(command));
}

void Session::unpin(const Command& command, Answer& answer) {
    const auto key = command.bytes("key");
    report(answer, maru_unpin(client(command), key.data(), key.size()), client(command));
}

/// Stores PREFIX0 ... against other engines that do the same from `start_ns` on; the answer lists who won
/// what.
void Session::race(const Command& command, Answer& answer) {
    const auto count = command.number("count"), size = command.number("size", 64);
    const auto start_ns = command.number("start_ns");
    std::vector<unsigned char> bytes(size + 1);
    std::vector<std::uint64_t> won;
    std::uint64_t lost = 0, unseen = 0;
    while (now_ns() < start_ns) {
    }
    for (std::uint64_t n = 0; n < count; ++n) {
        const auto key = command.bytes("prefix") + std::to_string(n);
        fill(bytes.data(), key, command.number("id") + n, size);
        const auto status = maru_put(client(command), key.data(), key.size(), bytes.data(), size);
        if (status == MARU_OK) won.push_back(n);
        lost += status == MARU_EXISTS;
        if (status < 0) {
            report(answer, status, client(command));
            return;
        }
        std::uint64_t found = 0;
        const bool seen =
            maru_exists(client(command), key.data(), key.size()) == MARU_OK &&
            maru_get(client(command), key.data(), key.size(), bytes.data(), size, &found) == MARU_OK &&
            engine::verify(bytes.data(), key, found).right && found == size;
        unseen += !seen;
    }
    answer.signed_number("status", MARU_OK).numbers("won", won).number("lost", lost).number("unseen", unseen);
}

}  // namespace engine
