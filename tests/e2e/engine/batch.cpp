// Commands on many keys.
#include <utility>
#include <vector>

#include "payload.hpp"
#include "session.hpp"

namespace engine {
namespace {

std::vector<std::string> keys_of(const Command& command) {
    std::vector<std::string> keys;
    for (const auto& item : command.list("keys"))
        keys.push_back(bytes_of(item));
    for (std::uint64_t n = 0; n < command.number("count"); ++n)
        keys.push_back(command.bytes("prefix") + std::to_string(n));
    return keys;
}

using KeysCall = maru_status (*)(maru_client*, const maru_key*, maru_status*, size_t);

std::pair<maru_status, std::vector<maru_status>> call_keys(KeysCall call, maru_client* client,
                                                           const Command& command) {
    const auto keys = keys_of(command);
    std::vector<maru_status> statuses(keys.size(), MARU_ERR_INVALID);
    const auto status = call(client, borrow(keys).data(), statuses.data(), keys.size());
    return {status, statuses};
}

}  // namespace

void Session::match(const Command& command, Answer& answer) {
    const auto keys = keys_of(command);
    std::vector<maru_view> views(keys.size() + 1);
    std::size_t matched = 0;
    const bool hold = command.has("v");
    const auto status = maru_match_prefix(client(command), borrow(keys).data(), keys.size(),
                                          hold ? views.data() : nullptr, &matched);
    report(answer, status, client(command));
    answer.number("matched", matched);
    if (!hold || status < 0) return;
    bool right = true;
    for (std::size_t n = 0; n < matched; ++n) {
        right = right && engine::verify(views[n].data, keys[n], views[n].size).right;
        views_[command.text("v") + std::to_string(n)] = {views[n], keys[n]};
    }
    answer.boolean("right", right);
}

void Session::store_batch(const Command& command, Answer& answer) {
    const auto names = command.list("pages");
    const auto keys = keys_of(command);
    const std::vector<std::uint64_t> sizes(keys.size(), command.number("size"));
    std::vector<maru_status> statuses(keys.size(), MARU_ERR_INVALID);
    std::vector<maru_page> pages(keys.size());
    for (std::size_t n = 0; n < keys.size(); ++n)
        pages[n] = pages_[names.at(n)];
    report(answer,
           maru_store_batch(client(command), borrow(keys).data(), pages.data(), sizes.data(), statuses.data(),
                            keys.size()),
           client(command));
    for (std::size_t n = 0; n < keys.size(); ++n)
        pages_[names.at(n)] = pages[n];
    answer.numbers("statuses", statuses);
}

void Session::retrieve_batch(const Command& command, Answer& answer) {
    const auto keys = keys_of(command);
    std::vector<maru_view> views(keys.size());
    std::vector<maru_status> statuses(keys.size(), MARU_ERR_INVALID);
    report(
        answer,
        maru_retrieve_batch(client(command), borrow(keys).data(), views.data(), statuses.data(), keys.size()),
        client(command));
    bool right = true;
    for (std::size_t n = 0; n < keys.size(); ++n) {
        if (statuses[n] != MARU_OK) continue;
        right = right && engine::verify(views[n].data, keys[n], views[n].size).right;
        views_[command.text("v", "v") + std::to_string(n)] = {views[n], keys[n]};
    }
    answer.numbers("statuses", statuses).boolean("right", right);
}

void Session::release_batch(const Command& command, Answer& answer) {
    std::vector<maru_view> views;
    for (const auto& name : command.list("views"))
        views.push_back(views_[name].view);
    for (std::uint64_t n = 0; n < command.number("count"); ++n)
        views.push_back(views_[command.text("v", "v") + std::to_string(n)].view);
    report(answer, maru_release_batch(client(command), views.data(), views.size()), client(command));
}

void Session::exists_batch(const Command& command, Answer& answer) {
    const auto [status, statuses] = call_keys(maru_exists_batch, client(command), command);
    report(answer, status, client(command));
    answer.numbers("statuses", statuses);
}

void Session::pin_batch(const Command& command, Answer& answer) {
    const auto [status, statuses] = call_keys(maru_pin_batch, client(command), command);
    report(answer, status, client(command));
    answer.numbers("statuses", statuses);
}

void Session::unpin_batch(const Command& command, Answer& answer) {
    const auto [status, statuses] = call_keys(maru_unpin_batch, client(command), command);
    report(answer, status, client(command));
    answer.numbers("statuses", statuses);
}

}  // namespace engine
