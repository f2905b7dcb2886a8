#include "session.hpp"

#include "payload.hpp"

namespace engine {

const std::map<std::string, Session::Handler>& Session::handlers() {
    static const std::map<std::string, Handler> table = {
        {"connect", &Session::connect},
        {"close", &Session::close},
        {"ping", &Session::ping},
        {"stats", &Session::stats},
        {"regions", &Session::regions},
        {"pool", &Session::pool},
        {"event", &Session::event},
        {"fork", &Session::fork_child},
        {"fork_and_stay", &Session::fork_and_stay},
        {"hits", &Session::hits},
        {"mix", &Session::mix},
        {"alloc", &Session::alloc},
        {"write", &Session::write},
        {"store", &Session::store},
        {"free", &Session::free},
        {"put", &Session::put},
        {"put_many", &Session::put_many},
        {"get", &Session::get},
        {"retrieve", &Session::retrieve},
        {"verify", &Session::verify},
        {"release", &Session::release},
        {"exists", &Session::exists},
        {"remove", &Session::remove},
        {"pin", &Session::pin},
        {"unpin", &Session::unpin},
        {"race", &Session::race},
        {"match", &Session::match},
        {"store_batch", &Session::store_batch},
        {"retrieve_batch", &Session::retrieve_batch},
        {"release_batch", &Session::release_batch},
        {"exists_batch", &Session::exists_batch},
        {"pin_batch", &Session::pin_batch},
        {"unpin_batch", &Session::unpin_batch},
    };
    return table;
}

bool Session::execute(const Command& command, Answer& answer) {
    const auto found = handlers().find(command.name());
    if (found == handlers().end()) return false;
    (this->*found->second)(command, answer);
    return true;
}

maru_client* Session::client(const Command& command) {
    const auto found = clients_.find(command.text("c", "c"));
    return found == clients_.end() ? nullptr : found->second;
}

void Session::report(Answer& answer, maru_status status, maru_client* client) {
    answer.signed_number("status", status);
    if (status < 0) answer.text("error", maru_strerror(status)).text("detail", maru_detail(client));
}

void describe_view(Answer& answer, const maru_view& view, const std::string& key) {
    const Verdict verdict = engine::verify(view.data, key, view.size);
    answer.number("size", view.size)
        .number("region", view.region)
        .number("page", view.page)
        .number("token", view.token)
        .number("address", reinterpret_cast<std::uintptr_t>(view.data))
        .boolean("right", verdict.right)
        .number("id", verdict.id);
    if (!verdict.right)
        answer.number("wrong_at", verdict.offset)
            .number("found", verdict.found)
            .number("expected", verdict.expected);
}

std::vector<maru_key> borrow(const std::vector<std::string>& keys) {
    std::vector<maru_key> borrowed;
    for (const auto& key : keys)
        borrowed.push_back({key.data(), key.size()});
    return borrowed;
}

}  // namespace engine
