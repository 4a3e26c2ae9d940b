/*
 * Commands out and replies in, on a connection that redis_dial.c has made. See redis_link.h.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "store/redis_link_state.h"

#define READ_SIZE   65536u
#define REPLY_MAX   (UINT64_C(256) << 20) /* what a reply may have in bytes before it is complete */
#define IDLE_MAX_MS (UINT64_C(5) * 60 * 1000)
#define OUT_KEPT    (UINT64_C(1) << 20) /* a buffer that grew larger is given back */

/* ---- life ---------------------------------------------------------------------------------------------- */

int ten_redis_link_make(ten_redis_settings *settings, int fd, const char *host, const char *name, uint64_t deadline_ms,
                        ten_redis_link **ret_link, ten_error *error) {
    ten_redis_link *link = ten_calloc(1, sizeof *link);
    if (!link) {
        close(fd);
        return ten_fail(error, TENURE_E_NOMEM, "out of memory for a connection to %s", name);
    }
    link->fd = fd;
    link->used_ms = ten_link_now_ms();
    snprintf(link->host, sizeof link->host, "%s", host);
    snprintf(link->name, sizeof link->name, "%s", name);
    link->reader = redisReaderCreate();
    int done = link->reader ? TENURE_OK : ten_fail(error, TENURE_E_NOMEM, "out of memory for a connection to %s", name);
    if (done == TENURE_OK)
        link->reader->maxbuf = 0; /* keeps its memory */
    if (done == TENURE_OK && settings->tls)
        done = ten_redis_tls_start(settings, link, deadline_ms, error);
    if (done < 0)
        ten_redis_link_close(link);
    else
        *ret_link = link;
    return done;
}

void ten_redis_link_close(ten_redis_link *link) {
    if (!link)
        return;
    /* Without a goodbye: a late one could be taken for data, and writing could wait. */
    SSL_free(link->tls);
    if (link->reader)
        redisReaderFree(link->reader);
    ten_buf_free(&link->out);
    ten_close_fd(&link->fd);
    ten_free(link);
}

const ten_redis_server *ten_redis_link_server(const ten_redis_link *link) {
    return &link->server;
}

int ten_redis_link_fd(const ten_redis_link *link) {
    return link->fd;
}

bool ten_redis_link_is_fresh(ten_redis_link *link) {
    char byte;
    if (ten_link_now_ms() - link->used_ms > IDLE_MAX_MS)
        return false;
    ssize_t count = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count > 0)
        return link->tls != NULL; /* TLS sends things of its own between replies; Redis does not */
    return count < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- the socket ---------------------------------------------------------------------------------------- */

int ten_redis_link_wait(const ten_redis_link *link, short events, uint64_t deadline_ms, ten_error *error) {
    for (;;) {
        uint64_t now_ms = ten_link_now_ms();
        uint64_t left_ms = ten_min_u64(ten_left_u64(deadline_ms, now_ms), 60000);
        struct pollfd place = {.fd = link->fd, .events = events};
        int ready = poll(&place, 1, (int)left_ms);
        if (ready > 0)
            return TENURE_OK;
        if (ready < 0 && errno != EINTR)
            return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot wait for %s", link->name);
        if (ten_link_now_ms() >= deadline_ms)
            return ten_fail(error, TENURE_E_TIMEOUT, "%s did not answer in time", link->name);
    }
}

static ssize_t read_socket(ten_redis_link *link, void *data, size_t size, short *ret_events) {
    if (link->tls)
        return ten_redis_tls_read(link, data, size, ret_events);
    ssize_t count = recv(link->fd, data, size, MSG_DONTWAIT);
    *ret_events = POLLIN;
    return count >= 0 ? count : errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t write_socket(ten_redis_link *link, const void *data, size_t size, short *ret_events) {
    if (link->tls)
        return ten_redis_tls_write(link, data, size, ret_events);
    ssize_t count = send(link->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    *ret_events = POLLOUT;
    return count >= 0 ? count : errno == EINTR ? -EAGAIN : -errno;
}

static int lost(const ten_redis_link *link, ssize_t failure, ten_error *error) {
    if (failure == 0 || failure == -ECONNRESET || failure == -EPIPE)
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s closed the connection", link->name);
    return ten_fail_errno(error, TENURE_E_UNREACHABLE, (int)-failure, "the connection to %s failed", link->name);
}

/* Feeds the reader with what has come: *ret_events is what to wait for when there was nothing. */
static int read_some(ten_redis_link *link, bool *ret_came, short *ret_events, ten_error *error) {
    char data[READ_SIZE];
    ssize_t count = read_socket(link, data, sizeof data, ret_events);
    *ret_came = count > 0;
    if (count == -EAGAIN)
        return TENURE_OK;
    if (count <= 0)
        return lost(link, count, error);
    if (link->reader->len - link->reader->pos > REPLY_MAX)
        return ten_fail(error, TENURE_E_STORE, "%s sends a reply without end", link->name);
    if (redisReaderFeed(link->reader, data, (size_t)count) != REDIS_OK)
        return ten_fail(error, TENURE_E_NOMEM, "out of memory for a reply of %s", link->name);
    return TENURE_OK;
}

/* Until nothing more can be written at this moment; *ret_events: 0 when all is out. */
static int write_some(ten_redis_link *link, short *ret_events, ten_error *error) {
    *ret_events = 0;
    while (link->written < link->out.size) {
        ssize_t count = write_socket(link, link->out.data + link->written, link->out.size - link->written, ret_events);
        if (count == -EAGAIN)
            return TENURE_OK;
        if (count <= 0)
            return lost(link, count, error);
        link->written += (size_t)count;
    }
    *ret_events = 0;
    link->written = 0;
    if (link->out.room > OUT_KEPT)
        ten_buf_free(&link->out);
    else
        ten_buf_clear(&link->out);
    link->used_ms = ten_link_now_ms();
    return TENURE_OK;
}

/* ---- commands and replies ------------------------------------------------------------------------------ */

int ten_redis_link_send(ten_redis_link *link, size_t count, const char *const *words, const size_t *sizes,
                        ten_error *error) {
    char *command = NULL;
    long long size = redisFormatCommandArgv(&command, (int)count, (const char **)(uintptr_t)words, sizes);
    if (size < 0)
        return ten_fail(error, TENURE_E_NOMEM, "out of memory for a command to %s", link->name);
    ten_buf_add(&link->out, command, (size_t)size);
    redisFreeCommand(command);
    return link->out.failed ? ten_fail(error, TENURE_E_NOMEM, "out of memory for a command to %s", link->name)
                            : TENURE_OK;
}

int ten_redis_link_flush(ten_redis_link *link, uint64_t deadline_ms, ten_error *error) {
    for (;;) {
        short events = 0;
        int done = write_some(link, &events, error);
        if (done < 0 || events == 0)
            return done;
        /* A server that waits until its replies are read reads no more commands. */
        done = ten_redis_link_wait(link, (short)(events | POLLIN), deadline_ms, error);
        bool came = false;
        short ignored;
        if (done == TENURE_OK)
            done = read_some(link, &came, &ignored, error);
        if (done < 0)
            return done;
    }
}

static int not_redis(const ten_redis_link *link, ten_error *error) {
    return ten_fail(error, TENURE_E_STORE,
                    "%s does not speak the Redis protocol (%s); is it another service, or one "
                    "with TLS (rediss://)?",
                    link->name, link->reader->errstr);
}

int ten_redis_link_take(ten_redis_link *link, redisReply **ret_reply, ten_error *error) {
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK)
            return link->reader->err == REDIS_ERR_OOM
                       ? ten_fail(error, TENURE_E_NOMEM, "out of memory for a reply of %s", link->name)
                       : not_redis(link, error);
        if (reply) {
            *ret_reply = reply;
            return TENURE_OK;
        }
        bool came = false;
        short events;
        int done = read_some(link, &came, &events, error);
        if (done < 0 || !came) {
            *ret_reply = NULL;
            return done;
        }
    }
}

int ten_redis_link_receive(ten_redis_link *link, uint64_t deadline_ms, redisReply **ret_reply, ten_error *error) {
    int done = ten_redis_link_flush(link, deadline_ms, error);
    while (done == TENURE_OK) {
        redisReply *reply = NULL;
        done = ten_redis_link_take(link, &reply, error);
        if (reply) {
            link->used_ms = ten_link_now_ms();
            *ret_reply = reply;
            return TENURE_OK;
        }
        if (done == TENURE_OK)
            done = ten_redis_link_wait(link, POLLIN, deadline_ms, error);
    }
    return done;
}

int ten_redis_link_ask(ten_redis_link *link, uint64_t deadline_ms, redisReply **ret_reply, ten_error *error,
                       const char *const *words, size_t count) {
    size_t sizes[16];
    TEN_INVARIANT(count <= TEN_COUNT(sizes));
    for (size_t i = 0; i < count; i++)
        sizes[i] = strlen(words[i]);
    redisReply *reply = NULL;
    int done = ten_redis_link_send(link, count, words, sizes, error);
    if (done == TENURE_OK)
        done = ten_redis_link_receive(link, deadline_ms, &reply, error);
    if (done == TENURE_OK && reply->type == REDIS_REPLY_ERROR) {
        done = ten_redis_refusal(reply, words[0], error);
        freeReplyObject(reply);
        reply = NULL;
    }
    if (reply)
        *ret_reply = reply;
    return done;
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static const struct {
    const char *word;
    int code;
    const char *advice;
} refusals[] = {
    {"READONLY", TENURE_E_UNREACHABLE, "it is a replica now: leases need the master"},
    {"LOADING", TENURE_E_UNREACHABLE, "it is reading its data after a start"},
    {"MASTERDOWN", TENURE_E_UNREACHABLE, "it is a replica without its master"},
    {"NOREPLICAS", TENURE_E_UNREACHABLE, "it has fewer replicas than min-replicas-to-write asks for"},
    {"TRYAGAIN", TENURE_E_UNREACHABLE, ""},
    {"CLUSTERDOWN", TENURE_E_UNREACHABLE, ""},
    {"BUSY", TENURE_E_UNREACHABLE, "somebody's script runs on it without end"},
    {"MISCONF", TENURE_E_UNREACHABLE, "it cannot write to its disk, and refuses to change anything"},
    {"NOAUTH", TENURE_E_DENIED, "name a password: redis://:password@host, or password_file=PATH"},
    {"WRONGPASS", TENURE_E_DENIED, "the user or the password is wrong"},
    {"NOPERM", TENURE_E_DENIED, "the ACL user lacks this permission"},
    {"OOM", TENURE_E_FULL, "raise maxmemory, or make room: nothing can be granted or renewed until then"},
    {"MOVED", TENURE_E_UNSUPPORTED, "a Redis Cluster; Tenure needs a single Redis for now"},
    {"ASK", TENURE_E_UNSUPPORTED, "a Redis Cluster; Tenure needs a single Redis for now"},
};

/* A script's error ends with where it happened, and may start with the name of the script. */
static bool starts_with(const char *text, const char *word) {
    size_t size = strlen(word);
    return strncmp(text, word, size) == 0 && (text[size] == ' ' || text[size] == '\0');
}

int ten_redis_refusal(const redisReply *reply, const char *what, ten_error *error) {
    const char *given = reply->str ? reply->str : "";
    char shown[200];
    size_t size = 0;
    for (const char *at = given; *at && size + 1 < sizeof shown; at++)
        shown[size++] = (unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at;
    shown[size] = '\0';
    /* Redis 6 gives a script's inner error inside of its own text: "ERR Error running script (...): @...: READONLY ..."
     */
    for (size_t i = 0; i < TEN_COUNT(refusals); i++) {
        char inner[24];
        snprintf(inner, sizeof inner, ": -%s ", refusals[i].word);
        if (starts_with(given, refusals[i].word) || strstr(given, inner))
            return ten_fail(error, refusals[i].code, "%s: %s%s%s", what, shown, refusals[i].advice[0] ? "; " : "",
                            refusals[i].advice);
    }
    return ten_fail(error, TENURE_E_STORE, "%s: %s", what, shown);
}
