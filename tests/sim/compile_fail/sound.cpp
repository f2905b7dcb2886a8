// Compiles: what the others do wrong, done through the accessor.
#include "shm/word.hpp"

std::uint64_t sound(maru::shm::Word64& word) {
    word.store(1, maru::shm::release);
    return word.load(maru::shm::acquire);
}
