// maru.h: connection, description of errors.
#include "client/call.hpp"

#include <exception>

using maru::Code;
using namespace maru::client;

extern "C" {

maru_status maru_connect(const maru_options* options, maru_client** client) {
    if (client == nullptr) return fail(Code::invalid, "the place for the client is NULL");
    *client = nullptr;
    try {
        remark("");
        const auto settings = read_options(options);
        if (!settings) return fail(settings.error());
        auto opened = Client::open(*settings);
        if (!opened) return fail(opened.error());
        *client = *opened;
        return MARU_OK;
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

maru_status maru_close(maru_client* client) {
    if (client == nullptr) return MARU_OK;
    try {
        return client->close();
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

maru_status maru_close_keeping(maru_client* client, const maru_page* pages, size_t count) {
    if (client == nullptr || (count > 0 && pages == nullptr))
        return fail(Code::invalid, "the client or the pages are NULL");
    try {
        return client->close({pages, count});
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

maru_status maru_hold(maru_client* client) {
    return client != nullptr ? client->hold() : fail(Code::invalid, "the client is NULL");
}

maru_status maru_let_go(maru_client* client) {
    if (client == nullptr) return fail(Code::invalid, "the client is NULL");
    try {
        return client->let_go();
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

maru_status maru_ping(maru_client* client) {
    Call call(client);
    if (!call || !call.active()) return call.status();
    try {
        auto answer = call.client().ask(
            [](std::uint32_t number) { return maru::wire::encode_frame(number, maru::wire::Type::ping); });
        if (!answer) return fail(answer.error());
        auto pong = maru::wire::open_empty(*answer, maru::wire::Type::pong);
        return pong ? MARU_OK : fail(pong.error());
    } catch (const std::exception& error) {
        return fail(Code::unavailable, error.what());
    }
}

int maru_event_fd(maru_client* client) {
    Call call(client);
    return call ? call.client().event_descriptor() : -1;
}

const char* maru_instance_id(maru_client* client) {
    Call call(client);
    return call ? call.client().settings().instance_id.c_str() : "";
}

uint64_t maru_page_size(maru_client* client) {
    Call call(client);
    return call ? call.client().page_bytes : 0;
}

const char* maru_daemon_version(maru_client* client) {
    Call call(client);
    return call ? call.client().daemon_version().c_str() : "";
}

const char* maru_strerror(maru_status status) {
    return maru::describe(static_cast<Code>(status));
}

const char* maru_detail(maru_client*) {
    return detail();
}

const char* maru_version(void) {
    return MARU_VERSION;
}

}  // extern "C"
