/* A program in C against the installed header: `c_program` without a daemon, `c_program SOCKET` with one. */
#include <maru/maru.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(int holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "c_program: %s; detail: %s\n", what, maru_detail(NULL));
    exit(1);
}

static void without_daemon(void) {
    maru_options options = MARU_OPTIONS_INIT;
    maru_client* client = (maru_client*)&options;
    maru_page page;
    maru_view view;
    char name[129] = "";
    options.server = "/nonexistent/maru.sock";
    options.timeout_ms = 200;
    require(maru_connect(&options, &client) == MARU_ERR_UNAVAILABLE,
            "connect without a daemon is unavailable");
    require(client == NULL, "a failed connect gives no client");
    require(strstr(maru_detail(NULL), "/nonexistent/maru.sock") != NULL, "the detail names the socket");
    options.size = 1;
    require(maru_connect(&options, &client) == MARU_ERR_INVALID, "an options.size of 1 is invalid");
    options.size = sizeof options;
    memset(name, 'x', sizeof name - 1);
    options.instance_id = name;
    require(maru_connect(&options, &client) == MARU_ERR_INVALID, "a name of 128 bytes is invalid");
    require(maru_connect(NULL, NULL) == MARU_ERR_INVALID, "no place for the client is invalid");
    require(maru_close(NULL) == MARU_OK, "closing nothing is fine");
    require(maru_alloc(NULL, 1, &page) == MARU_ERR_INVALID, "alloc without a client is invalid");
    require(maru_retrieve(NULL, "k", 1, &view) == MARU_ERR_INVALID, "retrieve without a client is invalid");
    require(maru_strerror(MARU_ERR_FULL)[0] != 0, "each status has a sentence");
    require(strcmp(maru_version(), "0") > 0, "there is a version");
}

static void with_daemon(const char* socket) {
    maru_options options = MARU_OPTIONS_INIT;
    maru_client* client = NULL;
    maru_page page;
    maru_view view;
    maru_statistics statistics;
    char copy[16] = "";
    uint64_t size = 0;
    options.server = socket;
    options.page_size = 64 * 1024;
    options.pool_size = 1 << 20;
    options.instance_id = "c_program";
    memset(&statistics, 0, sizeof statistics);
    statistics.size = sizeof statistics;
    require(maru_connect(&options, &client) == MARU_OK, "connect");
    require(maru_ping(client) == MARU_OK, "ping");
    require(maru_alloc(client, 6, &page) == MARU_OK, "alloc");
    memcpy(page.data, "value", 6);
    require(maru_store(client, "c-key", 5, &page, 6) == MARU_OK, "store");
    require(maru_retrieve(client, "c-key", 5, &view) == MARU_OK, "retrieve");
    require(view.data == page.data && view.size == 6, "the view is the very page");
    require(maru_release(client, &view) == MARU_OK, "release");
    require(maru_release(client, &view) == MARU_ERR_INVALID, "a second release is refused");
    require(maru_free(client, &page) == MARU_OK, "free");
    require(maru_free(client, &page) == MARU_ERR_NOT_RESERVED, "a second free is refused");
    require(maru_put(client, "c-key", 5, "other", 6) == MARU_EXISTS, "the first value stays");
    require(maru_get(client, "c-key", 5, copy, sizeof copy, &size) == MARU_OK, "get");
    require(size == 6 && strcmp(copy, "value") == 0, "the value is right");
    require(maru_stats(client, &statistics) == MARU_OK && statistics.stores == 1, "one store is counted");
    require(maru_remove(client, "c-key", 5) == MARU_OK, "remove");
    require(maru_exists(client, "c-key", 5) == MARU_MISS, "a removed key is gone");
    require(maru_close(client) == MARU_OK, "close");
    require(maru_ping(client) == MARU_ERR_INVALID, "a closed client says so");
}

int main(int count, char** arguments) {
    if (count > 1)
        with_daemon(arguments[1]);
    else
        without_daemon();
    return 0;
}
