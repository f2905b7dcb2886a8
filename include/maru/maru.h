/* maru: KV-cache storage in shared memory. The C interface of libmaru-client.
 *
 * A client is one connection to the daemon of this host. After maru_connect, storing and retrieving work on
 * shared memory alone: no system call, no lock, no allocation, no daemon. If the daemon is stopped or
 * restarted, those calls go on; only maru_connect and the claim of further memory need it.
 *
 * Threads:  every function may be called from any thread at any time. maru_close waits for calls under way;
 * of later ones only maru_release of views that are still out succeeds. Errors:   negative status.
 * maru_strerror has one sentence for each, maru_detail says what happened in this thread last: the thing, the
 * value, the remedy. MARU_EXISTS and MARU_MISS are answers, not errors. Keys:     1 to 4096 bytes, any bytes.
 * Death:    a process may die at any instruction. Published objects stay; pages it had reserved, its leases
 * and its pins come back with the daemon's sweep; no other client waits for that. fork:     a child inherits
 * nothing it may use: every call returns MARU_ERR_FORKED until it connects by itself. Signals:  maru_connect
 * installs a handler of SIGBUS, which passes on what does not concern the client's own memory to the one that
 * was there before; a program that installs one later passes on to it likewise, or ends where memory goes.
 * Growth:   structures that may grow carry their size; set it with the initialiser.
 */
#ifndef MARU_MARU_H
#define MARU_MARU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MARU_API __attribute__((visibility("default")))

typedef enum maru_status {
    MARU_OK = 0,
    MARU_EXISTS = 1, /* the key is already present; the first value stays */
    MARU_MISS = 2,   /* the key is not present */
    MARU_ERR_INVALID = -1,
    MARU_ERR_TOO_LARGE = -2,    /* larger than a page, or a key over 4096 bytes */
    MARU_ERR_FULL = -3,         /* no page, or no pin slot, and nothing could be evicted */
    MARU_ERR_PINNED = -4,       /* key-pinned by somebody */
    MARU_ERR_NOT_RESERVED = -5, /* the page is not reserved by this client: freed, published or foreign */
    MARU_ERR_FENCED = -6,       /* the daemon took this client for gone: close and connect again */
    MARU_ERR_FORKED = -7,
    MARU_ERR_UNAVAILABLE = -8, /* the daemon cannot be reached */
    MARU_ERR_TIMEOUT = -9,
    MARU_ERR_CONTENDED = -10,  /* gave up after many rounds against other writers of this key */
    MARU_ERR_INDEX_FULL = -11, /* no index slot left near this key */
    MARU_ERR_DAMAGED = -12,    /* shared memory does not make sense, or the domain's tables have gone */
    MARU_ERR_POISONED = -13,
    MARU_ERR_DENIED = -14, /* socket or namespace do not let this user in, or let it only read */
    MARU_ERR_VERSION = -15
} maru_status;

typedef struct maru_client maru_client;

/* Options of a connection. Zero or NULL means the default. */
typedef struct maru_options {
    size_t size; /* sizeof(maru_options) */
    /* Socket path, or "unix:///path". Default, first that is there: $MARU_SOCKET,
     * $RUNTIME_DIRECTORY/maru.sock, /run/maru/maru.sock as root, $XDG_RUNTIME_DIR/maru.sock,
     * /tmp/maru-UID/maru.sock, /run/maru/maru.sock. */
    const char* server;
    const char* instance_id; /* name for people, at most 127 bytes; default: a UUID */
    const char* name_space;  /* default: the default namespace */
    /* Bytes claimed at connect, rounded up to whole regions; default 100 MiB. Less when less is free. */
    uint64_t pool_size;
    uint64_t page_size;   /* bytes; one object fits one page; rounded up to 4 KiB; default 1 MiB */
    uint64_t expand_size; /* bytes of each further claim; default pool_size */
    int no_expand;        /* non-zero: never claim more; evict instead */
    int no_claim;         /* non-zero: claim nothing at connect (readers); the first alloc does */
    int no_prefault;      /* non-zero: do not touch claimed memory in the background */
    uint32_t timeout_ms;  /* bound of every call that needs the daemon; default 2000 */
} maru_options;

#define MARU_OPTIONS_INIT \
    { sizeof(maru_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* A reserved page: `data` has room for `capacity` bytes. After maru_store it names the published page, whose
 * bytes stay readable and must not be written, until maru_free. */
typedef struct maru_page {
    void* data;
    uint64_t capacity; /* bytes, as asked for */
    uint32_t region, page;
    uint64_t token;
    uint64_t record;
} maru_page;

/* A published object under a lease: the bytes do not change and the page is not reused until maru_release. */
typedef struct maru_view {
    const void* data;
    uint64_t size; /* bytes of the value */
    uint32_t region, page;
    uint64_t token;
} maru_view;

/* A key of a batch. */
typedef struct maru_key {
    const void* data;
    size_t size;
} maru_key;

/* -- connection
 * ---------------------------------------------------------------------------------------------- */

/* Connects, maps the domain's memory and claims pool_size. Bounded by timeout_ms. On failure *client is NULL
 * and maru_detail(NULL) says why; on success it holds the daemon's warning, or "". */
MARU_API maru_status maru_connect(const maru_options* options, maru_client** client);

/* Ends the client. Published objects stay; reserved pages, key pins and what page handles still hold go back.
 * Views may outlive it: memory, client slot and their leases go with the last maru_release. NULL does
 * nothing. Later calls on the pointer give MARU_ERR_INVALID while views are out and until 1,024 other clients
 * have ended; after that they are undefined. In a forked child it gives MARU_ERR_FORKED and touches nothing.
 */
MARU_API maru_status maru_close(maru_client* client);

/* The same, but these pages stay this client's until maru_free of each, which is then the one call that takes
 * them: for programs whose buffers may be written to after the close. */
MARU_API maru_status maru_close_keeping(maru_client* client, const maru_page* pages, size_t count);

/* Keeps the memory mapped, and with it the client slot, past maru_close, until maru_let_go; counted. */
MARU_API maru_status maru_hold(maru_client* client);
MARU_API maru_status maru_let_go(maru_client* client);

/* Round trip to the daemon. */
MARU_API maru_status maru_ping(maru_client* client);

/* -- storing
 * ------------------------------------------------------------------------------------------------- */

/* Reserves a page with room for `size` bytes (0 is valid). MARU_ERR_TOO_LARGE over the page size;
 * MARU_ERR_FULL when the held regions are full, no more can be claimed and nothing can be evicted (the detail
 * says what holds it, and whether it is the quota of the namespace). alloc, store, put, remove and pin of a
 * client that may only read in its namespace: MARU_ERR_DENIED. */
MARU_API maru_status maru_alloc(maru_client* client, uint64_t size, maru_page* page);

/* The same without waiting: MARU_ERR_FULL when the held regions have no free page, though maru_alloc may find
 * one. */
MARU_API maru_status maru_alloc_held(maru_client* client, uint64_t size, maru_page* page);

/* Gives an unpublished page back; after maru_store drops the page's lease, and the key stays. */
MARU_API maru_status maru_free(maru_client* client, maru_page* page);

/* Publishes the first `size` bytes of the page under the key; the commit is one compare-and-swap, and from
 * then on any process sees the whole value. MARU_EXISTS: another value was there first and stays; the page is
 * still reserved and must be freed or used for another key. After writes from a GPU synchronise its stream
 * first. */
MARU_API maru_status maru_store(maru_client* client, const void* key, size_t key_size, maru_page* page,
                                uint64_t size);

/* alloc + copy + store + free in one call. */
MARU_API maru_status maru_put(maru_client* client, const void* key, size_t key_size, const void* data,
                              uint64_t size);

/* Each entry by itself: statuses[i] for keys[i]. A key that stands twice: the first wins, the second is
 * MARU_EXISTS. Returns MARU_OK, or what made the whole call impossible. */
MARU_API maru_status maru_store_batch(maru_client* client, const maru_key* keys, maru_page* pages,
                                      const uint64_t* sizes, maru_status* statuses, size_t count);

/* -- reading
 * ------------------------------------------------------------------------------------------------- */

MARU_API maru_status maru_retrieve(maru_client* client, const void* key, size_t key_size, maru_view* view);
/* Ends a view, once, from any thread. MARU_ERR_INVALID when it does not name a standing lease. */
MARU_API maru_status maru_release(maru_client* client, maru_view* view);
MARU_API maru_status maru_retrieve_batch(maru_client* client, const maru_key* keys, maru_view* views,
                                         maru_status* statuses, size_t count);
MARU_API maru_status maru_release_batch(maru_client* client, maru_view* views, size_t count);

/* A view of what is published in this page, whatever its key. MARU_MISS when nothing is, or no such page. */
MARU_API maru_status maru_lease(maru_client* client, uint32_t region, uint32_t page, maru_view* view);

/* Copies the value out. *size is its length, also when MARU_ERR_TOO_LARGE says that it does not fit
 * `capacity`. */
MARU_API maru_status maru_get(maru_client* client, const void* key, size_t key_size, void* data,
                              uint64_t capacity, uint64_t* size);

/* MARU_OK or MARU_MISS; no pin, no eviction credit. */
MARU_API maru_status maru_exists(maru_client* client, const void* key, size_t key_size);
MARU_API maru_status maru_exists_batch(maru_client* client, const maru_key* keys, maru_status* statuses,
                                       size_t count);

/* *matched is the number of leading keys that are present. With `views` each of those is retrieved; release
 * them. */
MARU_API maru_status maru_match_prefix(maru_client* client, const maru_key* keys, size_t count,
                                       maru_view* views, size_t* matched);

/* -- pins by name, removal
 * ----------------------------------------------------------------------------------- */

/* Pins are counted per client and key. They end with the client, and after the daemon's key_pin_ttl. */
MARU_API maru_status maru_pin(maru_client* client, const void* key, size_t key_size);
/* MARU_MISS when this client holds no pin on the key. */
MARU_API maru_status maru_unpin(maru_client* client, const void* key, size_t key_size);
/* Prefix stop: from the first miss on everything is MARU_MISS and nothing is pinned. */
MARU_API maru_status maru_pin_batch(maru_client* client, const maru_key* keys, maru_status* statuses,
                                    size_t count);
MARU_API maru_status maru_unpin_batch(maru_client* client, const maru_key* keys, maru_status* statuses,
                                      size_t count);

/* Removes the key at once; its page is reused when the last view of it is released. MARU_ERR_PINNED:
 * key-pinned. */
MARU_API maru_status maru_remove(maru_client* client, const void* key, size_t key_size);

/* -- description
 * --------------------------------------------------------------------------------------------- */

typedef struct maru_region_description {
    size_t size;
    uint32_t region;
    uint32_t pool;
    uint64_t offset; /* of its first byte in the pool */
    uint64_t bytes;
    uint64_t page_size;
    uint32_t page_count;
    int held;   /* by this client */
    void* base; /* where this process maps it */
} maru_region_description;

/* MARU_MISS for a region that is not in use. Set description->size first. */
MARU_API maru_status maru_region_info(maru_client* client, uint32_t region,
                                      maru_region_description* description);
/* The regions this client holds: writes up to `capacity` numbers, *count is how many there are. */
MARU_API maru_status maru_held_regions(maru_client* client, uint32_t* regions, size_t capacity,
                                       size_t* count);

typedef struct maru_pool_description {
    size_t size;
    uint64_t bytes;
    const char *name, *path; /* path: as the daemon's host knows it, "" if none; valid until maru_close */
    const char* kind;
    void* base;
} maru_pool_description;

/* MARU_MISS beyond the last pool this client knows. Pools are added and removed while it is connected: of a
   number in between whose pool left, or is not mapped here yet, bytes is 0 and base NULL. Set
   description->size first. */
MARU_API maru_status maru_pool_info(maru_client* client, uint32_t pool, maru_pool_description* description);

typedef struct maru_statistics {
    size_t size;
    /* this client, all its threads */
    uint64_t lookups, hits, stores, duplicates, deletes, evictions, rescues, contended;
    /* this client's memory */
    uint64_t held_regions, held_bytes, page_size, pages, free_pages;
    /* the domain */
    uint64_t pool_bytes, unclaimed_bytes;
    uint64_t reconnects;
    int connected;    /* to the daemon, right now */
    uint64_t damaged; /* reads that met a value with a wrong checksum */
} maru_statistics;

/* Never waits for the daemon. Set statistics->size first. */
MARU_API maru_status maru_stats(maru_client* client, maru_statistics* statistics);

/* The whole domain, counted now by looking at every page record: a few milliseconds for a million pages. */
typedef struct maru_domain_statistics {
    size_t size;
    uint64_t objects, object_bytes; /* published, and the bytes of their values */
    uint64_t free_pages, reserved_pages, retired_pages, quarantined_pages;
    uint64_t pinned_pages; /* published pages that a view or a key pin holds */
    uint64_t page_bytes;   /* of all pages */
    uint64_t reserved_bytes;
    uint64_t evictions;
    uint64_t regions, clients;
} maru_domain_statistics;

/* Never waits for the daemon. Set statistics->size first. */
MARU_API maru_status maru_domain_stats(maru_client* client, maru_domain_statistics* statistics);

typedef struct maru_client_description {
    size_t size;
    char instance_id[128];
    int self; /* this very client */
    uint64_t lookups, hits, stores, duplicates, deletes, evictions, rescues, contended;
} maru_client_description;

/* The clients of the domain, whatever their process or host: client slot `slot`. MARU_MISS for a slot without
 * one, MARU_ERR_INVALID beyond the last slot. Never waits for the daemon. Set description->size first. */
MARU_API maru_status maru_client_info(maru_client* client, uint32_t slot,
                                      maru_client_description* description);

/* Becomes readable when the daemon goes or comes back; read 8 bytes to reset, then ask maru_stats. The
 * descriptor belongs to the client. */
MARU_API int maru_event_fd(maru_client* client);

/* This client's name, valid until maru_close. */
MARU_API const char* maru_instance_id(maru_client* client);
MARU_API uint64_t maru_page_size(maru_client* client);
/* Version of the daemon that this client connected to, valid until maru_close. */
MARU_API const char* maru_daemon_version(maru_client* client);

MARU_API const char* maru_strerror(maru_status status);
/* What the last failed call of this thread had to say; "" if none. Valid until this thread's next call. */
MARU_API const char* maru_detail(maru_client* client);
MARU_API const char* maru_version(void);

#ifdef __cplusplus
}
#endif
#endif
