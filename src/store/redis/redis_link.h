/*
 * One connection to a Redis server: finding the server (address, Unix socket, or by asking Sentinels), TLS,
 * authentication, commands out, replies in. Every call is bounded by a deadline; a connection on which something went
 * wrong must be closed by its owner, so that a late reply is never taken for that of a later request. hiredis parses
 * replies. The socket is ours, because Debian's hiredis has no TLS. So are the commands that are sent, because its
 * formatter calls sprintf() for every size and copies everything twice. This code knows nothing of leases. Called by
 * the Redis backend, and by the agent's Redis sources and sinks.
 */
#ifndef TEN_STORE_REDIS_LINK_H
#define TEN_STORE_REDIS_LINK_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/url.h"

/* What a URL says, checked; files that it names (password_file, ca_file...) have been found readable. */
typedef struct ten_redis_settings ten_redis_settings;

/* redis://[user:pass@]host[:port][/db], rediss://, redis+unix://[user:pass@]/path/to.sock[?db=N] and
 * redis+sentinel://h1[:p],h2/name[/db]. Options that are not about the connection are the caller's (it has checked
 * that every option is one that it knows). TENURE_E_INVALID says what is wrong and shows how it should look. */
int ten_redis_settings_make(const ten_url *url, ten_redis_settings **ret_settings, ten_error *error);
void ten_redis_settings_free(ten_redis_settings *settings);
/* "redis://cache-1:6379/0", for messages: without user or password. Valid as long as the settings. */
const char *ten_redis_settings_name(const ten_redis_settings *settings);

uint64_t ten_redis_settings_database(const ten_redis_settings *settings);

/* The options above that are about the connection, NULL-terminated, to be put into a caller's list. */
#define TEN_REDIS_LINK_OPTIONS "ca_file", "cert_file", "key_file", "password_file", "db", "timeout"

/* What the server said of itself when the connection was made. */
typedef struct ten_redis_server {
    char version[32];
    char run_id[48];
    bool is_replica;
    bool is_cluster;
    bool is_loading;
    char eviction[32];  /* maxmemory_policy */
    uint64_t maxmemory; /* 0: no limit */
    unsigned replicas;  /* connected */
    bool saves;         /* to an append-only file; snapshots are not told */
    char address[128];  /* "127.0.0.1:6379", where we really are: the name's address, or the Sentinel's answer */
} ten_redis_server;

enum ten_redis_need {
    TEN_REDIS_ANY,    /* whatever answers */
    TEN_REDIS_LEASES, /* a server that leases can be kept on: a master, no cluster, one that evicts nothing, >= 6.0 */
};

typedef struct ten_redis_link ten_redis_link;

/* Connects, authenticates, selects the database and asks the server what it is, all by deadline_ms on the boot clock.
 * TENURE_E_UNREACHABLE: nobody there, a replica that is not (yet) a master, a server that is loading; TENURE_E_TIMEOUT;
 * TENURE_E_DENIED: wrong credentials or a missing permission (the message names the command); TENURE_E_UNSUPPORTED: a
 * cluster, a server that evicts, one that is too old. */
int ten_redis_link_open(ten_redis_settings *settings, enum ten_redis_need need, uint64_t deadline_ms,
                        ten_redis_link **ret_link, ten_error *error);
/* A second connection to the very server to which `other` goes: no name is resolved and nobody is asked. */
int ten_redis_link_open_beside(const ten_redis_link *other, ten_redis_settings *settings, uint64_t deadline_ms,
                               ten_redis_link **ret_link, ten_error *error);
void ten_redis_link_close(ten_redis_link *link); /* NULL is nothing; never waits */

const ten_redis_server *ten_redis_link_server(const ten_redis_link *link);
int ten_redis_link_fd(const ten_redis_link *link);
/* False when the server has closed it meanwhile, or when it has lain idle for so long that something on the way may
 * have forgotten it: look before the first command after a pause. Costs one system call. */
bool ten_redis_link_is_fresh(ten_redis_link *link);

/* Queues a command; nothing is sent before receive() or flush(). sizes: NULL if the words end with a NUL. */
int ten_redis_link_send(ten_redis_link *link, size_t count, const char *const *words, const size_t *sizes,
                        ten_error *error);
/* The same of words that ten_redis_add_word() has put together. */
int ten_redis_link_send_words(ten_redis_link *link, size_t count, const ten_buf *words, ten_error *error);
void ten_redis_add_word(ten_buf *words, const char *data, size_t size);
/* Writes what is queued; receives meanwhile, so that two full buffers do not wait for each other. */
int ten_redis_link_flush(ten_redis_link *link, uint64_t deadline_ms, ten_error *error);
/* Writes what is queued, then waits for the next reply. An error reply of the server is a reply (its type says so).
 * TENURE_E_TIMEOUT, TENURE_E_UNREACHABLE: the link is dead. The caller frees the reply with freeReplyObject(). */
int ten_redis_link_receive(ten_redis_link *link, uint64_t deadline_ms, redisReply **ret_reply, ten_error *error);
static inline void ten_redis_free_reply(redisReply **reply) {
    if (*reply)
        freeReplyObject(*reply);
}
/* The next reply if there is one, without waiting; *ret_reply NULL when there is none (yet). */
int ten_redis_link_take(ten_redis_link *link, redisReply **ret_reply, ten_error *error);

/* send() and receive() of one command; an error reply is turned into an error by ten_redis_refusal(). */
int ten_redis_link_ask(ten_redis_link *link, uint64_t deadline_ms, redisReply **ret_reply, ten_error *error,
                       const char *const *words, size_t count);

/* What an error reply means, by its first word: READONLY, LOADING, MASTERDOWN, NOREPLICAS, TRYAGAIN, CLUSTERDOWN:
 * TENURE_E_UNREACHABLE; NOAUTH, WRONGPASS, NOPERM: TENURE_E_DENIED; OOM: TENURE_E_FULL with what to do; MOVED, ASK:
 * TENURE_E_UNSUPPORTED (a cluster); else TENURE_E_STORE. The message starts with `what` ("renewing 3 leases") and ends
 * with the server's text, its control characters shown. */
int ten_redis_refusal(const redisReply *reply, const char *what, ten_error *error);

#endif
