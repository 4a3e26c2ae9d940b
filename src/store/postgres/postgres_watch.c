/*
 * Hearing of changes: a second connection that LISTENs to the namespace's channel. The descriptor that callers poll is
 * an epoll of that connection and a timer, so that it stays the same when the connection is made anew. While nobody
 * listens the timer wakes the caller, who reads the feed and so finds what was not announced; a connection whose peer
 * has vanished is found out by an empty statement that stays without answer.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/io.h"
#include "base/random.h"
#include "store/postgres/postgres_state.h"

#define LISTEN_MS 250u  /* at most, for a start: the thread that waits here has leases to renew */
#define PATIENCE  3u    /* times that this is doubled when it was not enough */
#define RETRY_MS  250u  /* between tries, and how often the feed is read meanwhile */
#define POOLED_MS 1000u /* how often the feed is read when listening is in vain */
#define PING_MS   5000u /* a silent peer is noticed after two of these */

static void set_timer(const ten_postgres_watch *watch, uint64_t first_ms, uint64_t then_ms) {
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(first_ms / 1000), .tv_nsec = (long)(first_ms % 1000) * 1000000L},
        .it_interval = {.tv_sec = (time_t)(then_ms / 1000), .tv_nsec = (long)(then_ms % 1000) * 1000000L}};
    (void)timerfd_settime(watch->timer_fd, 0, &when, NULL);
}

static void go_down(ten_postgres_watch *watch) {
    uint64_t pause_ms = watch->pooled ? POOLED_MS : RETRY_MS + ten_random_u64() % RETRY_MS;
    ten_postgres_link_close(watch->link);
    watch->link = NULL;
    watch->ping_sent = false;
    watch->retry_ms = ten_now_ms() + pause_ms;
    set_timer(watch, pause_ms, pause_ms);
}

/* A pooler tells its clients numbers of its own. Through one that gives the server connection to another client after
 * each transaction, nothing would be heard. */
static int check_for_pooler(ten_postgres_store *store, ten_postgres_link *link, uint64_t deadline_ms) {
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    int r = ten_postgres_link_run(link, "SELECT pg_backend_pid()", deadline_ms, &result, &store->base.error);
    if (r < 0)
        return r;
    store->watch.pooled = PQntuples(result) != 1 || ten_postgres_number(result, 0, 0) !=
                                                        (uint64_t)PQbackendPID(ten_postgres_link_connection(link));
    return store->watch.pooled
               ? ten_fail(&store->base.error, TENURE_E_UNSUPPORTED,
                          "a pooler stands in front of the server: give listen_url=URL for a direct connection")
               : TENURE_OK;
}

static int listen_on(ten_postgres_store *store, ten_postgres_link *link, uint64_t deadline_ms) {
    PGconn *connection = ten_postgres_link_connection(link);
    char channel[64];
    char statement[160];
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    snprintf(channel, sizeof channel, "tenure:%.56s", store->watch.namespace_name);
    char *quoted = PQescapeIdentifier(connection, channel, strlen(channel));
    if (!quoted)
        return ten_postgres_no_memory(store);
    snprintf(statement, sizeof statement, "LISTEN %s", quoted);
    PQfreemem(quoted);
    int r = ten_postgres_link_run(link, statement, deadline_ms, &result, &store->base.error);
    if (r == TENURE_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        r = ten_postgres_failed(result, "listening", &store->base.error);
    struct epoll_event interest = {.events = EPOLLIN};
    if (r == TENURE_OK && epoll_ctl(store->watch.epoll_fd, EPOLL_CTL_ADD, PQsocket(connection), &interest) != 0)
        r = ten_fail_errno(&store->base.error, TENURE_E_SYSTEM, errno, "cannot watch the PostgreSQL connection");
    return r;
}

void ten_postgres_watch_mend(ten_postgres_store *store) {
    ten_postgres_watch *watch = &store->watch;
    if (watch->epoll_fd < 0 || watch->link || watch->pooled || ten_now_ms() < watch->retry_ms)
        return;
    uint64_t deadline_ms = ten_now_ms() + (LISTEN_MS << watch->failures);
    ten_postgres_settings *settings = store->listen_settings ? store->listen_settings : store->settings;
    int r = ten_postgres_link_open(settings, deadline_ms, &watch->link, &store->base.error);
    if (r == TENURE_OK)
        r = check_for_pooler(store, watch->link, deadline_ms);
    if (r == TENURE_OK)
        r = listen_on(store, watch->link, deadline_ms);
    if (r < 0) {
        /* A far away server needs more; the leases can wait that long, too. */
        watch->failures = (unsigned)ten_min_u64(watch->failures + 1, PATIENCE);
        go_down(watch);
        return;
    }
    watch->failures = 0;
    /* What was told before is not heard here: the caller is woken once, and reads the feed. */
    set_timer(watch, 1, PING_MS);
}

static int open_descriptors(ten_postgres_store *store) {
    ten_postgres_watch *watch = &store->watch;
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event interest = {.events = EPOLLIN};
    if (watch->epoll_fd >= 0 && watch->timer_fd >= 0 &&
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->timer_fd, &interest) == 0)
        return TENURE_OK;
    int failed = errno;
    ten_postgres_watch_close(watch);
    return ten_fail_errno(&store->base.error, TENURE_E_SYSTEM, failed, "cannot watch for changes");
}

int ten_postgres_watch_get(ten_store *base, const char *namespace_name, int *ret_fd) {
    ten_postgres_store *store = (ten_postgres_store *)base;
    ten_postgres_watch *watch = &store->watch;
    int r = watch->epoll_fd >= 0 ? TENURE_OK : open_descriptors(store);
    if (r < 0)
        return r;
    if (strcmp(watch->namespace_name, namespace_name) != 0) {
        snprintf(watch->namespace_name, sizeof watch->namespace_name, "%s", namespace_name);
        ten_postgres_link_close(watch->link);
        watch->link = NULL;
        watch->retry_ms = 0;
    }
    ten_postgres_watch_mend(store);
    *ret_fd = watch->epoll_fd;
    return TENURE_OK;
}

/* Takes what has come: notices, and the answers to our empty statements. */
static bool drain(ten_postgres_watch *watch) {
    PGconn *connection = ten_postgres_link_connection(watch->link);
    if (!ten_postgres_link_is_fresh(watch->link))
        return false;
    for (PGnotify *notice; (notice = PQnotifies(connection)); PQfreemem(notice))
        ;
    while (watch->ping_sent && !PQisBusy(connection)) {
        PGresult *result = PQgetResult(connection);
        bool answered = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        if (answered)
            watch->ping_sent = false;
        else if (PQstatus(connection) != CONNECTION_OK)
            return false;
    }
    return true;
}

static bool ping(ten_postgres_watch *watch) {
    ten_error error;
    if (watch->ping_sent)
        return false;
    watch->ping_sent = true;
    return ten_postgres_link_sync(watch->link, ten_now_ms() + LISTEN_MS, &error) == TENURE_OK;
}

void ten_postgres_watch_clear(ten_store *base) {
    ten_postgres_watch *watch = &((ten_postgres_store *)base)->watch;
    uint64_t count = 0;
    bool timed = watch->timer_fd >= 0 && ten_read_some(watch->timer_fd, &count, sizeof count) > 0;
    if (watch->link && (!drain(watch) || (timed && !ping(watch))))
        go_down(watch);
}

void ten_postgres_watch_close(ten_postgres_watch *watch) {
    ten_postgres_link_close(watch->link);
    watch->link = NULL;
    ten_close_fd(&watch->epoll_fd);
    ten_close_fd(&watch->timer_fd);
}
