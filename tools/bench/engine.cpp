#include "engine.hpp"

namespace maru::bench {
namespace {
constexpr std::uint32_t call_limit_ms = 60'000;  // formatting a million pages takes the daemon a while
}

Result<Client> connect(const maru_options& options) {
    maru_client* client = nullptr;
    if (const maru_status status = maru_connect(&options, &client); status != MARU_OK)
        return refused(nullptr, "connect", status);
    return Client(client);
}

Result<Client> connect_reader(const std::string& socket) {
    maru_options options = MARU_OPTIONS_INIT;
    options.server = socket.c_str();
    options.instance_id = "maru-bench reader";
    options.no_claim = 1;
    options.no_prefault = 1;
    options.timeout_ms = call_limit_ms;
    return connect(options);
}

Result<Client> connect_writer(const std::string& socket, std::uint64_t page_bytes, std::uint64_t bytes) {
    maru_options options = MARU_OPTIONS_INIT;
    options.server = socket.c_str();
    options.instance_id = "maru-bench writer";
    options.page_size = page_bytes;
    options.pool_size = bytes;
    options.expand_size = 16 * page_bytes;
    options.no_prefault = 1;
    options.timeout_ms = call_limit_ms;
    return connect(options);
}

Error refused(maru_client* client, const char* call, maru_status status) {
    const char* detail = maru_detail(client);
    return {static_cast<Code>(status), std::string(call) + ": " + maru_strerror(status) +
                                           (*detail != 0 ? " (" + std::string(detail) + ")" : "")};
}

maru_status store_all(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count,
                      std::uint64_t object_bytes) {
    for (std::size_t i = first; i < first + count; ++i) {
        maru_page page;
        maru_status status = maru_alloc(client, object_bytes, &page);
        if (status != MARU_OK) return status;
        status = maru_store(client, keys.data(i), key_bytes, &page, object_bytes);
        if (status != MARU_OK) return status;
        status = maru_free(client, &page);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

maru_status retrieve_all(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
        maru_view view;
        maru_status status = maru_retrieve(client, keys.data(i), key_bytes, &view);
        if (status != MARU_OK) return status;
        status = maru_release(client, &view);
        if (status != MARU_OK) return status;
    }
    return MARU_OK;
}

maru_status remove_all(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i)
        if (const maru_status status = maru_remove(client, keys.data(i), key_bytes); status != MARU_OK)
            return status;
    return MARU_OK;
}

}  // namespace maru::bench
