/*
 * Hearing of changes over HTTP: the server's event stream, read by a thread of its own (stream_watch.h). Called through
 * store.h.
 */
#include "store/http/http_state.h"

#define SILENCE_S 45L /* the server says something every 15 s */

static bool prepare(CURL *easy, const char *namespace_name, void *owner) {
    const ten_http_settings *settings = &((const ten_http_store *)owner)->settings;
    char url[512];
    snprintf(url, sizeof url, "%s/api/v1/%s/events", settings->base, namespace_name);
    return ten_curl_prepare(easy, &settings->files) && ten_http_prepare(easy, settings) &&
           curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SILENCE_S) == CURLE_OK;
}

int ten_http_watch_open(ten_store *base, const char *namespace_name, int *ret_fd) {
    static const ten_stream stream = {.prepare = prepare};
    ten_http_store *store = (ten_http_store *)base;
    return ten_stream_watch_get(&store->watch, &stream, store, namespace_name, ret_fd, &base->error);
}

void ten_http_watch_clear(ten_store *base) {
    ten_stream_watch_clear(((ten_http_store *)base)->watch);
}
