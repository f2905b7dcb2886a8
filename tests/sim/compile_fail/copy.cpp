// Must not compile: a Word is copied by a load and a store.
#include "shm/word.hpp"

maru::shm::Word64 copy(maru::shm::Word64& word) {
    return word;
}
