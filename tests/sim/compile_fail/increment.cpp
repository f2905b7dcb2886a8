// Must not compile: a Word has no operators.
#include "shm/word.hpp"

void raise(maru::shm::Word64& word) {
    ++word;
}
