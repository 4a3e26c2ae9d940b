/*
 * Hearing of changes in etcd: a watch of the namespace's feed, read by a thread of its own (stream_watch.h). A stream
 * that etcd cancels or compacts away ends, and the next one begins with the present: whoever waits is woken then, and
 * reads the feed, so that nothing is missed. Called through backend.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "store/etcd/etcd_state.h"

#define IDLE_MS 4000u /* after so much silence the member is asked for its health */
#define ASK_MS  2000u

struct watch {
    ten_etcd_link *link; /* the thread's own */
    ten_buf body;
    struct curl_slist *headers;
    const ten_etcd_settings *settings;
    bool tried;
};

static bool prepare(CURL *easy, const char *namespace_name, void *userdata) {
    struct watch *watch = userdata;
    (void)namespace_name; /* the body has it */
    char url[512];
    ten_error error = {0};
    if (watch->tried) { /* the last stream has ended: another member, and a new token */
        ten_etcd_next_endpoint(watch->link);
        ten_etcd_forget_token(watch->link);
    }
    watch->tried = true;
    const char *token = ten_etcd_token(watch->link, ten_now_ms() + ASK_MS, &error);
    if ((watch->settings->user && !token) || !ten_curl_headers(&watch->headers, token))
        return false;
    snprintf(url, sizeof url, "%s/v3/watch", ten_etcd_endpoint(watch->link));
    return ten_curl_prepare(easy, &watch->settings->files) && curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, watch->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, watch->body.data) == CURLE_OK;
}

/* A member that is frozen, or cut off from the others, just becomes silent. */
static bool is_alive(void *userdata) {
    const struct watch *watch = userdata;
    ten_error error = {0};
    ten_etcd_call call = {.path = "/health", .once = true};
    const char *before = ten_etcd_endpoint(watch->link);
    (void)ten_etcd_perform(watch->link, &call, 1, ten_now_ms() + ASK_MS, &error);
    const char *health = json_string_value(json_object_get(call.answer, "health"));
    bool alive = before == ten_etcd_endpoint(watch->link) && health && strcmp(health, "true") == 0;
    ten_etcd_calls_free(&call, 1);
    return alive;
}

/* What is new below PREFIX/NS/feed/. */
static void write_request(ten_buf *body, const ten_etcd_dir *dir) {
    ten_etcd_key key = ten_etcd_place(dir, TEN_ETCD_FEED, NULL);
    size_t size = strlen(key.text);
    ten_buf_text(body, "{\"create_request\":{\"key\":\"");
    ten_base64_encode(body, key.text, size);
    key.text[size - 1]++;
    ten_buf_text(body, "\",\"range_end\":\"");
    ten_base64_encode(body, key.text, size);
    ten_buf_text(body, "\",\"filters\":[\"NODELETE\"]}}");
}

static void end(void *userdata) {
    struct watch *watch = userdata;
    ten_etcd_link_close(watch->link);
    curl_slist_free_all(watch->headers);
    ten_buf_free(&watch->body);
    ten_free(watch);
}

static int open_watch(ten_etcd_store *store, const char *namespace_name) {
    struct watch *watch = ten_calloc(1, sizeof *watch);
    if (!watch)
        return ten_etcd_no_memory(store);
    watch->settings = &store->settings;
    write_request(&watch->body, &(ten_etcd_dir){store->settings.prefix, namespace_name});
    ten_stream stream = {.prepare = prepare, .is_alive = is_alive, .idle_ms = IDLE_MS, .userdata = watch, .end = end};
    int r = watch->body.failed ? ten_etcd_no_memory(store)
                               : ten_etcd_link_open(&store->settings, &watch->link, store->base.error);
    if (r == TENURE_OK)
        return ten_stream_watch_open(&stream, namespace_name, &store->watch, store->base.error);
    end(watch);
    return r;
}

int ten_etcd_watch_open(ten_backend *base, const char *namespace_name, int *ret_fd) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    int r = ten_stream_watch_has(&store->watch, namespace_name) ? TENURE_OK : open_watch(store, namespace_name);
    if (r == TENURE_OK)
        *ret_fd = ten_stream_watch_fd(store->watch);
    return r;
}

void ten_etcd_watch_clear(ten_backend *base) {
    ten_stream_watch_clear(((ten_etcd_store *)base)->watch);
}
