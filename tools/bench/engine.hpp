// The client library as the benchmarks call it: the C interface, so that nothing between is measured.
#pragma once

#include <maru/maru.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "keys.hpp"

namespace maru::bench {

struct CloseClient {
    void operator()(maru_client* client) const { maru_close(client); }
};
using Client = std::unique_ptr<maru_client, CloseClient>;

Result<Client> connect(const maru_options& options);
/// A client that only reads.
Result<Client> connect_reader(const std::string& socket);
/// A client with `bytes` of pages of its own.
Result<Client> connect_writer(const std::string& socket, std::uint64_t page_bytes, std::uint64_t bytes);

/// "retrieve: the key is not present (...)": what a call that should have succeeded answered.
Error refused(maru_client* client, const char* call, maru_status status);

// Plain loops over keys [first, first + count) of a set, in its order. They end at the first call that does
// not answer MARU_OK and return its status.
maru_status store_all(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count,
                      std::uint64_t object_bytes);
maru_status retrieve_all(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count);
maru_status remove_all(maru_client* client, const KeySet& keys, std::size_t first, std::size_t count);

}  // namespace maru::bench
