#include "shm/across_hosts.hpp"

#include "shm/copy.hpp"

namespace maru::shm {

void place_payload(void* page, const void* from, std::size_t size, Copy how) {
    const bool streams = how == Copy::streamed || (how == Copy::by_size && size >= streaming_copy_min);
    std::size_t streamed = 0;
    if (streams) streamed = line::stream(page, from, size - size % cache_line);
    std::byte* rest = static_cast<std::byte*>(page) + streamed;
    if (streamed != size) line::store(rest, static_cast<const std::byte*>(from) + streamed, size - streamed);
    if (mutant(FlushMutant::publish_without_write_back) && streamed == 0) return;
    if (mutant(FlushMutant::publish_rest_left) && streamed != 0) return line::store_fence();
    if (mutant(FlushMutant::publish_without_fence) && streamed == size) return;
    write_back(rest, size - streamed);  // its fence is the streamed stores' too
}

}  // namespace maru::shm
