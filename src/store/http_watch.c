/*
 * Hearing of changes over HTTP: a thread reads the server's event stream, and makes a descriptor readable at each
 * event. What has changed is then read by changes(). While the stream is down the descriptor becomes readable every
 * second, so that nothing is missed for long.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "store/http_state.h"

#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 1000u
#define SILENCE_S    45L /* the server says something every 15 s */

struct ten_http_watch {
    const ten_http_settings *settings;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    int fd;       /* the caller's */
    int end_fd;   /* wakes the thread for its end */
    bool started; /* the thread */
    pthread_t thread;
    _Atomic(bool) ending;
};

static void poke(int fd) {
    uint64_t one = 1;
    (void)ten_write_all(fd, &one, sizeof one);
}

static size_t take_event(char *data, size_t size, size_t count, void *userdata) {
    struct ten_http_watch *watch = userdata;
    (void)data;
    poke(watch->fd);
    return watch->ending ? 0 : size * count;
}

static int look_for_end(void *userdata, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const struct ten_http_watch *watch = userdata;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return watch->ending ? 1 : 0;
}

/* Reads the stream until it breaks, or the end is wanted. A multi handle, because that can be woken. */
static void read_stream(struct ten_http_watch *watch) {
    char url[512];
    snprintf(url, sizeof url, "%s/api/v1/%s/events", watch->settings->base, watch->namespace_name);
    CURL *easy = curl_easy_init();
    CURLM *multi = curl_multi_init();
    bool good = easy && multi && ten_http_prepare(easy, watch->settings) &&
                curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 5000L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SILENCE_S) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_event) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEDATA, watch) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_for_end) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_XFERINFODATA, watch) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
                curl_multi_add_handle(multi, easy) == CURLM_OK;
    int running = 1;
    struct curl_waitfd end = {.fd = watch->end_fd, .events = CURL_WAIT_POLLIN};
    while (good && running && !watch->ending)
        good = curl_multi_perform(multi, &running) == CURLM_OK &&
               (!running || curl_multi_poll(multi, &end, 1, 1000, NULL) == CURLM_OK);
    if (easy && multi)
        (void)curl_multi_remove_handle(multi, easy);
    curl_easy_cleanup(easy);
    (void)curl_multi_cleanup(multi);
}

static void *run(void *arg) {
    struct ten_http_watch *watch = arg;
    uint64_t pause_ms = RETRY_MIN_MS;
    while (!watch->ending) {
        uint64_t began_ms = ten_http_now_ms();
        read_stream(watch);
        poke(watch->fd); /* something may have been missed */
        if (ten_http_now_ms() - began_ms > RETRY_MAX_MS)
            pause_ms = RETRY_MIN_MS;
        (void)ten_wait_readable(watch->end_fd, -1, watch->ending ? 0 : pause_ms);
        pause_ms = ten_min_u64(pause_ms * 2, RETRY_MAX_MS);
    }
    return NULL;
}

void ten_http_watch_close(ten_http_watch *watch) {
    if (!watch)
        return;
    watch->ending = true;
    poke(watch->end_fd);
    if (watch->started)
        pthread_join(watch->thread, NULL);
    ten_close_fd(&watch->fd);
    ten_close_fd(&watch->end_fd);
    ten_free(watch);
}

static bool start(struct ten_http_watch *watch) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch->started = pthread_create(&watch->thread, NULL, run, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watch->started;
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
            return ten_fail(&base->error, TENURE_E_NOMEM, "out of memory for a watch");
        watch->settings = &store->settings;
        snprintf(watch->namespace_name, sizeof watch->namespace_name, "%s", namespace_name);
        watch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        watch->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (watch->fd < 0 || watch->end_fd < 0 || !start(watch)) {
            ten_http_watch_close(watch);
            return ten_fail(&base->error, TENURE_E_SYSTEM, "cannot watch the server");
        }
        store->watch = watch;
    }
    *ret_fd = store->watch->fd;
    return TENURE_OK;
}

void ten_http_watch_clear(ten_store *base) {
    const ten_http_store *store = (ten_http_store *)base;
    uint64_t count;
    if (store->watch)
        (void)ten_read_some(store->watch->fd, &count, sizeof count);
}
