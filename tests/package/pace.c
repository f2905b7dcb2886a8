/* An engine that goes on at a steady pace whatever becomes of the daemon:
 * pace SECONDS OPERATIONS_PER_SECOND PHASE_FILE END_FILE.
 *
 * An operation stores a value under a new key, reads one of the last 1,000 in place, comparing every byte, or
 * removes one. Each second, and at the end, it prints how many operations it has done while PHASE_FILE named
 * each phase (one word), and how many failed. It ends when END_FILE is there, or after SECONDS. The status is
 * 0 when none failed. */
#include <maru/maru.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { value_bytes = 4096, kept = 1000, phases_max = 8 };

static struct {
    char name[32];
    unsigned long done;
} phases[phases_max];
static size_t phase_count;
static unsigned long failures;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The counter of the phase that the file names now. */
static unsigned long* count_of_phase(const char* path) {
    char name[32] = "unknown";
    FILE* file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%31s", name) != 1) strcpy(name, "unknown");
        fclose(file);
    }
    for (size_t i = 0; i < phase_count; ++i)
        if (strcmp(phases[i].name, name) == 0) return &phases[i].done;
    if (phase_count == phases_max) return &phases[phases_max - 1].done;
    strcpy(phases[phase_count].name, name);
    return &phases[phase_count++].done;
}

static void print_counts(void) {
    for (size_t i = 0; i < phase_count; ++i)
        printf("%s=%lu ", phases[i].name, phases[i].done);
    printf("failed=%lu\n", failures);
    fflush(stdout);
}

static void fail(const char* what, maru_client* client, maru_status status) {
    ++failures;
    printf("%s: %s: %s\n", what, maru_strerror(status), maru_detail(client));
}

static void store(maru_client* client, unsigned long number) {
    maru_page page;
    maru_status status = maru_alloc(client, value_bytes, &page);
    if (status != MARU_OK) {
        fail("alloc", client, status);
        return;
    }
    memset(page.data, (int)(number & 0xff), value_bytes);
    status = maru_store(client, &number, sizeof number, &page, value_bytes);
    if (status != MARU_OK) fail("store", client, status);
    maru_free(client, &page);
}

static void read_in_place(maru_client* client, unsigned long number) {
    maru_view view;
    const maru_status status = maru_retrieve(client, &number, sizeof number, &view);
    if (status != MARU_OK) {
        fail("retrieve", client, status);
        return;
    }
    const unsigned char* bytes = view.data;
    for (size_t i = 0; i < view.size; ++i)
        if (bytes[i] != (number & 0xff)) {
            ++failures;
            printf("key %lu differs at byte %zu\n", number, i);
            break;
        }
    maru_release(client, &view);
}

int main(int count, char** words) {
    if (count != 5) return 2;
    const double seconds = atof(words[1]), rate = atof(words[2]);
    maru_options options = MARU_OPTIONS_INIT;
    options.instance_id = "pace";
    options.page_size = value_bytes;
    options.pool_size = 32 << 20;
    maru_client* client = NULL;
    maru_status status = maru_connect(&options, &client);
    if (status != MARU_OK) {
        printf("connect: %s\n", maru_detail(NULL));
        return 1;
    }

    const double begin = now_s();
    double look = begin, second = begin + 1;
    unsigned long *counter = count_of_phase(words[3]), stored = 0, removed = 0, reads = 0, done = 0;
    for (double now = begin; now < begin + seconds; now = now_s()) {
        if (now >= look) {
            if (access(words[4], F_OK) == 0) break;
            counter = count_of_phase(words[3]);
            look = now + 0.01;
        }
        if (now >= second) {
            print_counts();
            second += 1;
        }
        const unsigned long due = (unsigned long)((now - begin) * rate);
        for (; done < due; ++done, ++*counter) {
            if (stored < kept || done % 4 == 0) {
                store(client, stored++);
            } else if (done % 4 == 1) {
                const unsigned long oldest = removed++;
                status = maru_remove(client, &oldest, sizeof oldest);
                if (status != MARU_OK) fail("remove", client, status);
            } else {
                read_in_place(client, removed + reads++ % (stored - removed));
            }
        }
        const struct timespec rest = {0, 1000000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
    }
    print_counts();
    maru_statistics statistics = {.size = sizeof statistics};
    maru_stats(client, &statistics);
    printf("reconnects=%lu connected=%d\n", (unsigned long)statistics.reconnects, statistics.connected);
    maru_close(client);
    return failures ? 1 : 0;
}
