/*
 * Hearing of changes in etcd: a watch of the namespace's feed, read by a thread of its own (stream_watch.h). A stream
 * that etcd cancels or compacts away ends, and the next one begins with the present: whoever waits is woken then, and
 * reads the feed, so that nothing is missed. Called through backend.h.
 */
#include <string.h>

#include "base/encode.h"
#include "store/etcd/etcd_state.h"

#define IDLE_MS 4000u /* after so much silence the member is asked for its health */
#define ASK_MS  2000u

/* What is new below PREFIX/NS/feed/. */
static void write_request(ten_buf *body, const ten_etcd_dir *dir) {
    ten_etcd_key key = ten_etcd_place(dir, TEN_ETCD_FEED, NULL);
    size_t size = strlen(key.text);
    ten_buf_clear(body);
    ten_buf_text(body, "{\"create_request\":{\"key\":\"");
    ten_base64_encode(body, key.text, size);
    key.text[size - 1]++;
    ten_buf_text(body, "\",\"range_end\":\"");
    ten_base64_encode(body, key.text, size);
    ten_buf_text(body, "\",\"filters\":[\"NODELETE\"]}}");
}

static bool prepare(CURL *easy, const char *namespace_name, void *owner) {
    ten_etcd_store *store = owner;
    struct ten_etcd_listener *listener = &store->listener;
    char url[512];
    ten_error error = {0};
    if (listener->link) { /* the last stream has ended: another member, and a new token */
        ten_etcd_next_endpoint(listener->link);
        ten_etcd_forget_token(listener->link);
    } else if (ten_etcd_link_open(&store->settings, &listener->link, &error) < 0)
        return false;
    write_request(&listener->body, &(ten_etcd_dir){store->settings.prefix, namespace_name});
    const char *token = ten_etcd_token(listener->link, ten_now_ms() + ASK_MS, &error);
    if ((store->settings.user && !token) || !ten_curl_headers(&listener->headers, token) || listener->body.failed)
        return false;
    snprintf(url, sizeof url, "%s/v3/watch", ten_etcd_endpoint(listener->link));
    return ten_curl_prepare(easy, &store->settings.files) && curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, listener->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, listener->body.data) == CURLE_OK;
}

/* A member that is frozen, or cut off from the others, just becomes silent. */
static bool is_alive(void *owner) {
    ten_etcd_link *link = ((ten_etcd_store *)owner)->listener.link;
    ten_error error = {0};
    ten_etcd_call call = {.path = "/health", .once = true};
    const char *before = ten_etcd_endpoint(link);
    (void)ten_etcd_perform(link, &call, 1, ten_now_ms() + ASK_MS, &error);
    const char *health = json_string_value(json_object_get(call.answer, "health"));
    bool alive = before == ten_etcd_endpoint(link) && health && strcmp(health, "true") == 0;
    ten_etcd_calls_free(&call, 1);
    return alive;
}

static void end(void *owner) {
    struct ten_etcd_listener *listener = &((ten_etcd_store *)owner)->listener;
    ten_etcd_link_close(listener->link);
    curl_slist_free_all(listener->headers);
    ten_buf_free(&listener->body);
    *listener = (struct ten_etcd_listener){0};
}

int ten_etcd_watch_open(ten_backend *base, const char *namespace_name, int *ret_fd) {
    static const ten_stream stream = {.prepare = prepare, .is_alive = is_alive, .idle_ms = IDLE_MS, .end = end};
    ten_etcd_store *store = (ten_etcd_store *)base;
    return ten_stream_watch_get(&store->watch, &stream, store, namespace_name, ret_fd, base->error);
}

void ten_etcd_watch_clear(ten_backend *base) {
    ten_stream_watch_clear(((ten_etcd_store *)base)->watch);
}
