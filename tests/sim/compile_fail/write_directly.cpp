// Must not compile: nothing can be assigned to a Word.
#include "shm/word.hpp"

void write(maru::shm::Word64& word) {
    word = 1;
}
