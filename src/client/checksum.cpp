#include <xxhash.h>

#include "client/call.hpp"

namespace maru::client {

std::uint64_t checksum_of(const void* data, std::uint64_t size) {
    return XXH3_64bits(data, size);
}

}  // namespace maru::client
