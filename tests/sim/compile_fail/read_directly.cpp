// Must not compile: a Word converts to nothing.
#include "shm/word.hpp"

std::uint64_t read(maru::shm::Word64& word) {
    return word;
}
