/* The smallest engine in C: stores a chunk, finds it again, reads it in place. */
#include <maru/maru.h>
#include <stdio.h>
#include <string.h>

static int failed(const char* what, maru_client* client, maru_status status) {
    fprintf(stderr, "%s: %s: %s\n", what, maru_strerror(status), maru_detail(client));
    return 1;
}

int main(void) {
    maru_options options = MARU_OPTIONS_INIT;
    options.instance_id = "example";
    options.page_size = 1 << 20; /* the largest chunk this client will store */
    maru_client* client = NULL;
    maru_status status = maru_connect(&options, &client);
    if (status != MARU_OK) return failed("connect", NULL, status);

    /* Store: reserve a page, write into it (or let the GPU do it), publish it under a key. */
    const char* key = "model@layer0@chunk7";
    maru_page page;
    status = maru_alloc(client, 4096, &page);
    if (status != MARU_OK) return failed("alloc", client, status);
    memset(page.data, 42, 4096);
    status = maru_store(client, key, strlen(key), &page, 4096);
    if (status < 0) return failed("store", client, status);
    maru_free(client, &page); /* MARU_EXISTS: somebody stored it before, and the page goes back */

    /* Read: any process of the domain gets a pointer to the same page, under a lease. */
    maru_view view;
    status = maru_retrieve(client, key, strlen(key), &view);
    if (status != MARU_OK) return failed("retrieve", client, status);
    printf("%llu bytes in region %u, page %u; the first is %d\n", (unsigned long long)view.size, view.region,
           view.page, ((const unsigned char*)view.data)[0]);
    maru_release(client, &view);

    maru_close(client);
    return 0;
}
