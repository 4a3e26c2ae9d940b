/*
 * Hearing of changes over HTTP: the server's event stream, read by a thread of its own (stream_watch.h). Called through
 * store.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/common/stream_watch.h"
#include "store/http/http_state.h"

#define SILENCE_S 45L /* the server says something every 15 s */

struct ten_http_watch {
    const ten_http_settings *settings;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    ten_stream_watch *stream;
};

static bool prepare(CURL *easy, void *userdata) {
    const struct ten_http_watch *watch = userdata;
    char url[512];
    snprintf(url, sizeof url, "%s/api/v1/%s/events", watch->settings->base, watch->namespace_name);
    return ten_http_prepare(easy, watch->settings) && curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SILENCE_S) == CURLE_OK;
}

void ten_http_watch_close(ten_http_watch *watch) {
    if (!watch)
        return;
    ten_stream_watch_close(watch->stream);
    ten_free(watch);
}

int ten_http_watch_open(ten_store *base, const char *namespace_name, int *ret_fd) {
    ten_http_store *store = (ten_http_store *)base;
    if (store->watch && strcmp(store->watch->namespace_name, namespace_name) != 0) {
        ten_http_watch_close(store->watch);
        store->watch = NULL;
    }
    if (!store->watch) {
        struct ten_http_watch *watch = ten_calloc(1, sizeof *watch);
        if (!watch)
            return ten_fail_memory(&base->error, "a watch");
        watch->settings = &store->settings;
        snprintf(watch->namespace_name, sizeof watch->namespace_name, "%s", namespace_name);
        ten_stream stream = {.prepare = prepare, .userdata = watch};
        int r = ten_stream_watch_open(&stream, &watch->stream, &base->error);
        if (r < 0) {
            ten_free(watch);
            return r;
        }
        store->watch = watch;
    }
    *ret_fd = ten_stream_watch_fd(store->watch->stream);
    return TENURE_OK;
}

void ten_http_watch_clear(ten_store *base) {
    const ten_http_store *store = (ten_http_store *)base;
    if (store->watch)
        ten_stream_watch_clear(store->watch->stream);
}
