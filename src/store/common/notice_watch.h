/*
 * The descriptor behind which a store hears of changes by a connection of its own: SUBSCRIBE, LISTEN. It stays the same
 * when that connection is made anew. While there is none, a timer wakes the caller, who reads the feed and so finds
 * what was not announced; a connection whose server has vanished is found out by a ping that stays without answer.
 * Everything happens in the caller's thread. Shared by the Redis and the PostgreSQL store.
 */
#ifndef TEN_STORE_NOTICE_WATCH_H
#define TEN_STORE_NOTICE_WATCH_H

#include "store/backend.h"

/* How a store listens. */
typedef struct ten_notice_ops {
    const char *server; /* for messages */
    unsigned patience;  /* how often the time for a try is doubled when it was not enough */
    /* Connects and listens to watch->namespace_name by deadline_ms; the connection is the store's to keep, and what
     * close() ends. On failure *base->error says why. TEN_NOTICE_NOT_NOW: nothing was tried. */
    int (*listen)(ten_backend *base, uint64_t deadline_ms, int *ret_fd);
    /* Ends the connection, if there is one, and forgets what came by it. */
    void (*close)(ten_backend *base);
    /* Takes what has come, without waiting; resets watch->ping_sent when it is an answer. False: the connection is
     * dead. */
    bool (*read)(ten_backend *base);
    /* Sends what the server answers. False: the connection is dead. */
    bool (*ping)(ten_backend *base, uint64_t deadline_ms);
} ten_notice_ops;

#define TEN_NOTICE_NOT_NOW 1

typedef struct ten_notice_watch {
    const ten_notice_ops *ops;
    int epoll_fd; /* the caller's; -1: nobody watches */
    int timer_fd;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    bool listening;
    bool ping_sent;    /* and not answered yet */
    uint64_t retry_ms; /* not before this, when it is down */
    unsigned failures; /* in a row */
    uint64_t poll_ms;  /* set by listen(): listening is in vain here, and the feed is read so often instead; else 0 */
} ten_notice_watch;

/* What the handle of a store starts with that listens. All of these are called with it. */
typedef struct ten_noticing {
    ten_backend base;
    ten_notice_watch watch;
} ten_noticing;

void ten_notice_watch_init(ten_backend *base, const ten_notice_ops *ops);
void ten_notice_watch_close(ten_backend *base);

/* The backend's watch() and watch_clear(). */
int ten_notice_watch_get(ten_backend *base, const char *namespace_name, int *ret_fd);
void ten_notice_watch_clear(ten_backend *base);

/* Listens again if that is due. Before the feed is read: what happens earlier is then seen by the reading. */
void ten_notice_watch_reconnect(ten_backend *base);

#endif
