/*
 * Commands out and replies in, on a connection that redis_dial.c has made. See redis_link.h.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/io.h"
#include "base/utf8.h"
#include "store/redis/redis_link_state.h"

#define READ_SIZE    65536u
#define TAKE_READS   16u                   /* of a take(), so that a flood does not keep it for ever */
#define REPLY_MAX    (UINT64_C(64) << 20)  /* bytes of a reply */
#define ELEMENTS_MAX (UINT64_C(1) << 20)   /* of a reply, in all of its arrays */
#define BACKLOG_MAX  (UINT64_C(256) << 20) /* bytes of replies that come while commands are written */
#define BUFFER_KEPT  (UINT64_C(1) << 20)   /* a buffer that grew larger is freed */
#define IDLE_MAX_MS  (UINT64_C(5) * 60 * 1000)

/* ---- life ---------------------------------------------------------------------------------------------- */

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

/* hiredis makes room for an array as soon as its size is announced: a few bytes could cost gigabytes. */
static void *make_bounded_array(const redisReadTask *task, element_count count) {
    ten_redis_link *link = task->privdata;
    link->elements += (size_t)count;
    link->too_large |= link->elements > ELEMENTS_MAX;
    return link->too_large ? NULL : link->usual_functions->createArray(task, count);
}

static bool make_reader(ten_redis_link *link) {
    link->reader = redisReaderCreate();
    if (!link->reader)
        return false;
    link->usual_functions = link->reader->fn;
    link->functions = *link->usual_functions;
    link->functions.createArray = make_bounded_array;
    link->reader->fn = &link->functions;
    link->reader->privdata = link;
    link->reader->maxbuf = BUFFER_KEPT;
    return true;
}

int ten_redis_link_make(ten_redis_settings *settings, int fd, const char *host, const char *name, uint64_t deadline_ms,
                        ten_redis_link **ret_link, ten_error *error) {
    ten_redis_link *link = ten_calloc(1, sizeof *link);
    if (!link) {
        close(fd);
        return ten_fail_memory(error, "a connection to %s", name);
    }
    link->fd = fd;
    link->wants = POLLIN;
    link->used_ms = ten_now_ms();
    snprintf(link->host, sizeof link->host, "%s", host);
    snprintf(link->name, sizeof link->name, "%s", name);
    int r = make_reader(link) ? TENURE_OK : ten_fail_memory(error, "a connection to %s", name);
    if (r == TENURE_OK && settings->tls)
        r = ten_redis_tls_start(settings, link, deadline_ms, error);
    if (r < 0)
        ten_redis_link_close(link);
    else
        *ret_link = link;
    return r;
}

void ten_redis_link_close(ten_redis_link *link) {
    if (!link)
        return;
    /* Without a goodbye: a late one could be taken for data, and writing could wait. */
    SSL_free(link->tls);
    if (link->reader)
        redisReaderFree(link->reader);
    ten_buf_free(&link->out);
    ten_buf_free(&link->in);
    ten_close_fd(&link->fd);
    ten_free(link);
}

const ten_redis_server *ten_redis_link_server(const ten_redis_link *link) {
    return &link->server;
}

int ten_redis_link_fd(const ten_redis_link *link) {
    return link->fd;
}

static bool has_backlog(const ten_redis_link *link) {
    return link->taken < link->in.size;
}

bool ten_redis_link_is_fresh(ten_redis_link *link) {
    char byte;
    if (ten_now_ms() - link->used_ms > IDLE_MAX_MS || has_backlog(link) || link->reader->pos < link->reader->len)
        return false;
    if (link->tls)
        return ten_redis_tls_is_fresh(link);
    ssize_t count = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- the socket ---------------------------------------------------------------------------------------- */

int ten_redis_link_wait(const ten_redis_link *link, short events, uint64_t deadline_ms, ten_error *error) {
    /* Looked at first: a server that always has something for us must not hold us beyond it. */
    int ready = ten_now_ms() >= deadline_ms ? 0 : ten_wait_events(link->fd, events, deadline_ms);
    if (ready == 0)
        return ten_fail(error, TENURE_E_TIMEOUT, "%s did not answer in time", link->name);
    return ready > 0 ? TENURE_OK : ten_fail_errno(error, TENURE_E_SYSTEM, -ready, "cannot wait for %s", link->name);
}

static ssize_t read_socket(ten_redis_link *link, void *data, size_t size) {
    link->wants = POLLIN;
    if (link->tls)
        return ten_redis_tls_read(link, data, size);
    ssize_t count = recv(link->fd, data, size, MSG_DONTWAIT);
    return count >= 0 ? count : errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t write_socket(ten_redis_link *link, const void *data, size_t size) {
    link->wants = POLLOUT;
    if (link->tls)
        return ten_redis_tls_write(link, data, size);
    ssize_t count = send(link->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return count >= 0 ? count : errno == EINTR ? -EAGAIN : -errno;
}

static int lost(const ten_redis_link *link, ssize_t failure, ten_error *error) {
    if (link->tls_error)
        return ten_redis_tls_lost(link, error);
    if (failure == 0 || failure == -ECONNRESET || failure == -EPIPE)
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s closed the connection%s", link->name,
                        link->heard || link->tls ? "" : " before it said anything; does it want TLS (rediss://)?");
    return ten_fail_errno(error, TENURE_E_UNREACHABLE, (int)-failure, "the connection to %s failed", link->name);
}

/* Keeps what has come, up to READ_SIZE bytes, for take(). The reader is not fed with it at once: it moves all that it
 * has with every reply. */
static int read_some(ten_redis_link *link, ten_error *error) {
    char data[READ_SIZE];
    ssize_t count = read_socket(link, data, sizeof data);
    if (count == -EAGAIN)
        return TENURE_OK;
    if (count <= 0)
        return lost(link, count, error);
    link->heard = true;
    if (link->in.size - link->taken > BACKLOG_MAX)
        return ten_fail(error, TENURE_E_STORE, "%s sends more than it was asked for", link->name);
    ten_buf_add(&link->in, data, (size_t)count);
    return link->in.failed ? ten_fail_memory(error, "a reply of %s", link->name) : TENURE_OK;
}

static void let_go(ten_buf *buf) {
    if (buf->room > BUFFER_KEPT)
        ten_buf_free(buf);
    else
        ten_buf_clear(buf);
}

/* Until all is out, or nothing more can be written at this moment. */
static int write_some(ten_redis_link *link, ten_error *error) {
    while (link->written < link->out.size) {
        ssize_t count = write_socket(link, link->out.data + link->written, link->out.size - link->written);
        if (count == -EAGAIN)
            return TENURE_OK;
        if (count <= 0)
            return lost(link, count, error);
        link->written += (size_t)count;
    }
    link->written = 0;
    let_go(&link->out);
    link->used_ms = ten_now_ms();
    return TENURE_OK;
}

/* ---- commands and replies ------------------------------------------------------------------------------ */

/* "$5\r\n" or "*3\r\n" */
static void add_size(ten_buf *out, char kind, size_t size) {
    char text[24];
    char *end = text + sizeof text;
    *--end = '\n';
    *--end = '\r';
    end = ten_digits_before(end, size);
    *--end = kind;
    ten_buf_add(out, end, (size_t)(text + sizeof text - end));
}

/* By hand: hiredis would print every size with sprintf(), and copy everything twice. */
void ten_redis_add_word(ten_buf *words, const char *data, size_t size) {
    add_size(words, '$', size);
    ten_buf_add(words, data, size);
    ten_buf_add(words, "\r\n", 2);
}

int ten_redis_link_send_words(ten_redis_link *link, size_t count, const ten_buf *words, ten_error *error) {
    add_size(&link->out, '*', count);
    ten_buf_add(&link->out, words->data, words->size);
    link->out.failed |= words->failed;
    return link->out.failed ? ten_fail_memory(error, "a command to %s", link->name) : TENURE_OK;
}

int ten_redis_link_send(ten_redis_link *link, size_t count, const char *const *words, const size_t *sizes,
                        ten_error *error) {
    add_size(&link->out, '*', count);
    for (size_t i = 0; i < count; i++)
        ten_redis_add_word(&link->out, words[i], sizes ? sizes[i] : strlen(words[i]));
    return link->out.failed ? ten_fail_memory(error, "a command to %s", link->name) : TENURE_OK;
}

int ten_redis_link_flush(ten_redis_link *link, uint64_t deadline_ms, ten_error *error) {
    int r = write_some(link, error);
    while (r == TENURE_OK && link->out.size > 0) {
        /* A server that waits until its replies are read reads no more commands. */
        r = ten_redis_link_wait(link, (short)(link->wants | POLLIN), deadline_ms, error);
        if (r == TENURE_OK)
            r = read_some(link, error);
        if (r == TENURE_OK)
            r = write_some(link, error);
    }
    return r;
}

static int too_large(const ten_redis_link *link, ten_error *error) {
    return ten_fail(error, TENURE_E_STORE, "%s sends a reply that is too large for anything that was asked",
                    link->name);
}

static int feed_reader(ten_redis_link *link, ten_error *error) {
    size_t size = ten_min_u64(link->in.size - link->taken, READ_SIZE);
    link->bytes += size;
    if (link->bytes > REPLY_MAX)
        return too_large(link, error);
    if (redisReaderFeed(link->reader, link->in.data + link->taken, size) != REDIS_OK)
        return ten_fail_memory(error, "a reply of %s", link->name);
    link->taken += size;
    if (!has_backlog(link)) {
        let_go(&link->in);
        link->taken = 0;
    }
    return TENURE_OK;
}

static int reader_failed(const ten_redis_link *link, ten_error *error) {
    if (link->too_large)
        return too_large(link, error);
    if (link->reader->err == REDIS_ERR_OOM)
        return ten_fail_memory(error, "a reply of %s", link->name);
    return ten_fail(error, TENURE_E_STORE,
                    "%s does not speak the Redis protocol (%s); is it another service, or one "
                    "with TLS (rediss://)?",
                    link->name, link->reader->errstr);
}

int ten_redis_link_take(ten_redis_link *link, redisReply **ret_reply, ten_error *error) {
    *ret_reply = NULL;
    for (unsigned reads = 0;;) {
        void *reply = NULL;
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK)
            return reader_failed(link, error);
        if (reply) {
            link->bytes = link->reader->len - link->reader->pos;
            link->elements = 0;
            *ret_reply = reply;
            return TENURE_OK;
        }
        int r = has_backlog(link) || reads++ == TAKE_READS ? TENURE_OK : read_some(link, error);
        if (r < 0 || !has_backlog(link))
            return r;
        if ((r = feed_reader(link, error)) < 0)
            return r;
    }
}

/* A server that hangs up has perhaps said why before. */
static int take_last_words(ten_redis_link *link, int lost_by, redisReply **ret_reply, ten_error *error) {
    int r = ten_redis_link_take(link, ret_reply, error);
    return *ret_reply || r < 0 ? r : lost_by;
}

int ten_redis_link_receive(ten_redis_link *link, uint64_t deadline_ms, redisReply **ret_reply, ten_error *error) {
    redisReply *reply = NULL;
    int r = ten_redis_link_flush(link, deadline_ms, error);
    if (r == TENURE_E_UNREACHABLE)
        r = take_last_words(link, r, &reply, error);
    /* The answer to what was just sent is not there yet, and trying to read it costs as much as waiting for it. */
    if (r == TENURE_OK && !reply && !link->tls && !has_backlog(link) && link->reader->pos == link->reader->len)
        r = ten_redis_link_wait(link, POLLIN, deadline_ms, error);
    while (r == TENURE_OK && !reply) {
        r = ten_redis_link_take(link, &reply, error);
        if (r == TENURE_OK && !reply)
            r = ten_redis_link_wait(link, link->wants, deadline_ms, error);
    }
    if (r < 0)
        return r;
    link->used_ms = ten_now_ms();
    *ret_reply = reply;
    return TENURE_OK;
}

int ten_redis_link_ask(ten_redis_link *link, uint64_t deadline_ms, redisReply **ret_reply, ten_error *error,
                       const char *const *words, size_t count) {
    int r = ten_redis_link_send(link, count, words, NULL, error);
    if (r == TENURE_OK)
        r = ten_redis_link_receive(link, deadline_ms, ret_reply, error);
    if (r == TENURE_OK && (*ret_reply)->type == REDIS_REPLY_ERROR) {
        r = ten_redis_refusal(*ret_reply, words[0], error);
        freeReplyObject(*ret_reply);
        *ret_reply = NULL;
    }
    return r;
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
    {"DENIED", TENURE_E_DENIED, "it is in protected mode: give it a password, and name that here"},
    {"NOPERM", TENURE_E_DENIED, "the ACL user lacks this permission"},
    {"OOM", TENURE_E_FULL, "raise maxmemory, or make room: nothing can be granted or renewed until then"},
    {"LAYOUT", TENURE_E_SCHEMA,
     "another version of Tenure wrote this namespace. If that was an earlier one, and nobody uses it any more, fresh=1 "
     "in "
     "the URL removes its records and begins anew; or use another database or namespace"},
    {"MOVED", TENURE_E_UNSUPPORTED, "a Redis Cluster; Tenure needs a single Redis for now"},
    {"ASK", TENURE_E_UNSUPPORTED, "a Redis Cluster; Tenure needs a single Redis for now"},
    {"ERR max number of clients reached", TENURE_E_UNREACHABLE, "raise its maxclients, or see who has so many"},
};

static bool starts_with(const char *text, const char *word) {
    size_t size = strlen(word);
    return strncmp(text, word, size) == 0 && (text[size] == ' ' || text[size] == '\0');
}

/* For people: whatever a stranger sends, it is one line of text. */
static void show_text(const char *text, size_t size, char *shown, size_t room) {
    size_t used = 0;
    for (size_t at = 0; at < size && used + 4 < room;) {
        size_t step = ten_utf8_step(text + at, size - at);
        bool fit = step > 0 && ten_utf8_is_printable(text + at, step);
        memcpy(shown + used, fit ? text + at : "?", fit ? step : 1);
        used += fit ? step : 1;
        at += step > 0 ? step : 1;
    }
    shown[used] = '\0';
}

/* Redis 6 gives a script's inner error inside of its own text: "ERR Error running script (...): @...: -READONLY ..." */
int ten_redis_refusal(const redisReply *reply, const char *what, ten_error *error) {
    const char *given = reply->str ? reply->str : "";
    char shown[200];
    show_text(given, strlen(given), shown, sizeof shown);
    for (size_t i = 0; i < TEN_COUNT(refusals); i++) {
        const char *advice = refusals[i].advice;
        char inner[48];
        snprintf(inner, sizeof inner, ": -%s ", refusals[i].word);
        if (!starts_with(given, refusals[i].word) && !strstr(given, inner))
            continue;
        size_t size = strlen(shown);
        bool stops = advice[0] && size > 0 && shown[size - 1] == '.';
        return ten_fail(error, refusals[i].code, "%s: %.*s%s%s", what, (int)(size - stops), shown,
                        advice[0] ? "; " : "", advice);
    }
    return ten_fail(error, TENURE_E_STORE, "%s: %s", what, shown);
}
