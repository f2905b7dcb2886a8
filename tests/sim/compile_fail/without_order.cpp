// Must not compile: each access names its order.
#include "shm/word.hpp"

std::uint64_t read(maru::shm::Word64& word) {
    return word.load();
}
