/*
 * See stream_watch.h. Called by http_watch.c and etcd_watch.c.
 */
#include "store/common/stream_watch.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/thread.h"

#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 1000u

struct ten_stream_watch {
    const ten_stream *stream;
    void *owner;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    int fd;       /* the caller's */
    int end_fd;   /* wakes the thread for its end */
    bool started; /* the thread */
    pthread_t thread;
    _Atomic(bool) ending;
    uint64_t heard_ms; /* boot clock: when something last came */
};

static size_t take_event(char *data, size_t size, size_t count, void *userdata) {
    ten_stream_watch *watch = userdata;
    (void)data;
    watch->heard_ms = ten_now_ms();
    ten_eventfd_poke(watch->fd);
    return watch->ending ? 0 : size * count;
}

static int look_for_end(void *userdata, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const ten_stream_watch *watch = userdata;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return watch->ending ? 1 : 0;
}

static bool is_dead(ten_stream_watch *watch) {
    const ten_stream *stream = watch->stream;
    if (!stream->is_alive || ten_now_ms() - watch->heard_ms < stream->idle_ms)
        return false;
    watch->heard_ms = ten_now_ms();
    ten_eventfd_poke(watch->fd); /* a server may have lost an event */
    return !stream->is_alive(watch->owner);
}

/* Reads the stream until it breaks, or the end is wanted. A multi handle, because that can be woken. */
static void read_stream(ten_stream_watch *watch) {
    CURL *easy = curl_easy_init();
    CURLM *multi = curl_multi_init();
    watch->heard_ms = ten_now_ms();
    bool good = easy && multi && watch->stream->prepare(easy, watch->namespace_name, watch->owner) &&
                curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 5000L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_event) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEDATA, watch) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_for_end) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_XFERINFODATA, watch) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
                curl_multi_add_handle(multi, easy) == CURLM_OK;
    int running = 1;
    struct curl_waitfd end = {.fd = watch->end_fd, .events = CURL_WAIT_POLLIN};
    while (good && running && !watch->ending && !is_dead(watch))
        good = curl_multi_perform(multi, &running) == CURLM_OK &&
               (!running || curl_multi_poll(multi, &end, 1, 1000, NULL) == CURLM_OK);
    if (easy && multi)
        (void)curl_multi_remove_handle(multi, easy);
    curl_easy_cleanup(easy);
    (void)curl_multi_cleanup(multi);
}

static void *run(void *arg) {
    ten_stream_watch *watch = arg;
    uint64_t pause_ms = RETRY_MIN_MS;
    while (!watch->ending) {
        uint64_t began_ms = ten_now_ms();
        read_stream(watch);
        ten_eventfd_poke(watch->fd); /* something may have been missed */
        if (ten_now_ms() - began_ms > RETRY_MAX_MS)
            pause_ms = RETRY_MIN_MS;
        (void)ten_wait_readable(watch->end_fd, -1, watch->ending ? 0 : pause_ms);
        pause_ms = ten_min_u64(pause_ms * 2, RETRY_MAX_MS);
    }
    return NULL;
}

void ten_stream_watch_close(ten_stream_watch *watch) {
    if (!watch)
        return;
    watch->ending = true;
    if (watch->end_fd >= 0)
        ten_eventfd_poke(watch->end_fd);
    if (watch->started)
        pthread_join(watch->thread, NULL);
    ten_close_fd(&watch->fd);
    ten_close_fd(&watch->end_fd);
    if (watch->stream->end)
        watch->stream->end(watch->owner);
    ten_free(watch);
}

static int open_watch(ten_stream_watch **ret_watch, const ten_stream *stream, void *owner, const char *namespace_name,
                      ten_error *error) {
    ten_stream_watch *watch = ten_calloc(1, sizeof *watch);
    if (!watch)
        return ten_fail_memory(error, "a watch");
    watch->stream = stream;
    watch->owner = owner;
    ten_copy_text(watch->namespace_name, sizeof watch->namespace_name, namespace_name);
    watch->fd = ten_eventfd_open();
    watch->end_fd = ten_eventfd_open();
    watch->started = watch->fd >= 0 && watch->end_fd >= 0 && ten_thread_start(&watch->thread, run, watch) == 0;
    if (!watch->started) {
        ten_stream_watch_close(watch);
        return ten_fail(error, TENURE_E_SYSTEM, "cannot watch the server");
    }
    *ret_watch = watch;
    return TENURE_OK;
}

int ten_stream_watch_get(ten_stream_watch **watch, const ten_stream *stream, void *owner, const char *namespace_name,
                         int *ret_fd, ten_error *error) {
    if (*watch && strcmp((*watch)->namespace_name, namespace_name) != 0) {
        ten_stream_watch_close(*watch);
        *watch = NULL;
    }
    int r = *watch ? TENURE_OK : open_watch(watch, stream, owner, namespace_name, error);
    if (r == TENURE_OK)
        *ret_fd = (*watch)->fd;
    return r;
}

void ten_stream_watch_clear(const ten_stream_watch *watch) {
    if (watch)
        ten_eventfd_clear(watch->fd);
}
