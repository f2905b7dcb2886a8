// Must not compile: what a Word holds is private.
#include "shm/word.hpp"

std::uint64_t* reach(maru::shm::Word64& word) {
    return &word.value_;
}
