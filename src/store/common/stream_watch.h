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

/* Called on the thread, one at a time. */
typedef struct ten_stream {
    /* Says what is to be read, and how; false: not now. Before each attempt. */
    bool (*prepare)(CURL *easy, const char *namespace_name, void *userdata);
    /* When nothing has come for idle_ms; false: the stream is dead, and begun anew. NULL: it is not asked. */
    bool (*is_alive)(void *userdata);
    uint64_t idle_ms;
    void *userdata;
    void (*end)(void *userdata); /* when it is closed, or could not be opened; NULL: nothing is to be done */
} ten_stream;

/* Whether there is one of that namespace; one of another is closed. */
bool ten_stream_watch_has(ten_stream_watch **watch, const char *namespace_name);
int ten_stream_watch_open(const ten_stream *stream, const char *namespace_name, ten_stream_watch **ret_watch,
                          ten_error *error);
/* Waits for the thread's end; NULL is ignored. */
void ten_stream_watch_close(ten_stream_watch *watch);
int ten_stream_watch_fd(const ten_stream_watch *watch);
void ten_stream_watch_clear(const ten_stream_watch *watch); /* NULL is ignored */

#endif
