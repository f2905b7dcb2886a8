// Must not compile: a Word is no reference to its value.
#include "shm/word.hpp"

std::uint64_t& refer(maru::shm::Word64& word) {
    return word;
}
