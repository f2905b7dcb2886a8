// Two guests at once on the same words of a device: no update of one may overwrite another's.
//
//   words DEVICE COUNT
//
// Adds 1 to the word at 0 COUNT times by an atomic addition, and to the word at 64 by compare-and-swap. It
// begins when two callers have come (the word at 128), and gives up when the other does not come.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { length = 2 << 20, deadline_s = 120 };

int main(int count, char** arguments) {
    const long rounds = count == 3 ? strtol(arguments[2], NULL, 10) : 0;
    const int device = rounds > 0 ? open(arguments[1], O_RDWR) : -1;
    if (device < 0) return 2;
    char* memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
    if (memory == MAP_FAILED) return 2;
    _Atomic uint64_t* added = (_Atomic uint64_t*)memory;
    _Atomic uint64_t* swapped = (_Atomic uint64_t*)(memory + 64);
    _Atomic uint64_t* come = (_Atomic uint64_t*)(memory + 128);

    const time_t begun = time(NULL);
    atomic_fetch_add(come, 1);
    while (atomic_load(come) < 2)
        if (time(NULL) > begun + deadline_s) return 3;

    uint64_t retries = 0;
    for (long round = 0; round < rounds; ++round) {
        atomic_fetch_add(added, 1);
        uint64_t seen = atomic_load(swapped);
        while (!atomic_compare_exchange_strong(swapped, &seen, seen + 1))
            ++retries;
    }
    printf("%llu\n", (unsigned long long)retries);
    return 0;
}
