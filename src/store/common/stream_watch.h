/*
 * A thread that reads an endless answer over HTTP, and makes a descriptor readable whenever something comes. What has
 * changed is then read by changes(). While the stream is down the descriptor becomes readable every second, so that
 * nothing is missed for long. Shared by the HTTP and the etcd store.
 */
#ifndef TEN_STORE_STREAM_WATCH_H
#define TEN_STORE_STREAM_WATCH_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

typedef struct ten_stream_watch ten_stream_watch;

/* How a store's stream is read. `owner` is what was given to ten_stream_watch_get(). Called on the thread, one at a
 * time, but for end(). */
typedef struct ten_stream {
    /* Says what is to be read, and how; false: not now. Before each attempt. */
    bool (*prepare)(CURL *easy, const char *namespace_name, void *owner);
    /* When nothing has come for idle_ms; false: the stream is dead, and begun anew. NULL: it is not asked. */
    bool (*is_alive)(void *owner);
    uint64_t idle_ms;
    void (*end)(void *owner); /* called when the thread has ended; may be NULL */
} ten_stream;

/* The store's watch(), watch_clear() and close(). NULL: nobody watches. */
int ten_stream_watch_get(ten_stream_watch **watch, const ten_stream *stream, void *owner, const char *namespace_name,
                         int *ret_fd, ten_error *error);
void ten_stream_watch_clear(const ten_stream_watch *watch);
/* Waits for the thread's end. */
void ten_stream_watch_close(ten_stream_watch *watch);

#endif
