/*
 * The inside of the connections to Redis: what the settings are, and what the parts (redis_settings.c, redis_dial.c,
 * redis_tls.c, redis_link.c) call of each other.
 */
#ifndef TEN_STORE_REDIS_LINK_STATE_H
#define TEN_STORE_REDIS_LINK_STATE_H

#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/resolve.h"
#include "base/url_files.h"
#include "store/redis/redis_link.h"

#define TEN_REDIS_HOSTS_MAX 8u
#define TEN_REDIS_HOST_SIZE 256u

typedef struct ten_redis_host {
    char name[TEN_REDIS_HOST_SIZE];
    uint16_t port;
    ten_addresses known; /* the last good answer */
} ten_redis_host;

struct ten_redis_settings {
    char *name; /* for messages */
    bool tls;
    char *socket_path;                         /* NULL: by TCP */
    char *master;                              /* NULL: no Sentinel; else the hosts are Sentinels */
    ten_redis_host hosts[TEN_REDIS_HOSTS_MAX]; /* one, or the Sentinels */
    size_t host_count;
    size_t next_host;      /* the Sentinel that is asked first */
    ten_redis_host leader; /* what a Sentinel said last */
    uint64_t database;
    char *user;
    char *password;
    ten_url_files files;
    SSL_CTX *tls_context; /* NULL until it is needed */
};

struct ten_redis_link {
    int fd;
    SSL *tls;                /* NULL: plain */
    unsigned long tls_error; /* OpenSSL's, of a session that ended by one */
    redisReader *reader;
    redisReplyObjectFunctions functions; /* the reader's, with our count of elements */
    const redisReplyObjectFunctions *usual_functions;
    size_t bytes;    /* of the reply that is not complete yet */
    size_t elements; /* that it has announced */
    bool too_large;
    bool heard;  /* the server has sent anything at all */
    short wants; /* what to wait for before the socket is read or written again */
    ten_buf out;
    size_t written; /* of out */
    ten_buf in;     /* what the reader has not got yet */
    size_t taken;   /* of in */
    uint64_t used_ms;
    ten_address address;
    char host[TEN_REDIS_HOST_SIZE];      /* whose certificate is expected */
    char name[TEN_REDIS_HOST_SIZE + 64]; /* for messages */
    ten_redis_server server;
};

/* A connected socket's link, with TLS where the settings say so. The descriptor is the link's also when that fails. */
int ten_redis_link_make(ten_redis_settings *settings, int fd, const char *host, const char *name, uint64_t deadline_ms,
                        ten_redis_link **ret_link, ten_error *error);

/* ---- TLS: a handshake by the deadline, then reading and writing as recv() and send() do: the count, 0 at the end, or
 * a negative errno; -EAGAIN, with what to wait for in link->wants */
int ten_redis_tls_start(ten_redis_settings *settings, ten_redis_link *link, uint64_t deadline_ms, ten_error *error);
ssize_t ten_redis_tls_read(ten_redis_link *link, void *data, size_t size);
ssize_t ten_redis_tls_write(ten_redis_link *link, const void *data, size_t size);
/* Whether the server has not ended the session while it lay idle. */
bool ten_redis_tls_is_fresh(ten_redis_link *link);
/* The error of a session that ended by link->tls_error. */
int ten_redis_tls_lost(const ten_redis_link *link, ten_error *error);

/* Waits for the events by the deadline: TENURE_OK, or TENURE_E_TIMEOUT with a message. */
int ten_redis_link_wait(const ten_redis_link *link, short events, uint64_t deadline_ms, ten_error *error);

#endif
