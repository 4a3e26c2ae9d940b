/*
 * Replies of a Redis, or of what stands in its place, through our connection and our backend: the bytes lie in a
 * socket. With an odd first byte they are the conversation at the start of a connection; else that has gone well, and
 * they are the answer to a call, or (126) what comes on the connection that listens for changes.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "replies.h"
#include "store/redis/redis_link_state.h"
#include "store/redis/redis_state.h"

#define INPUT_MAX 65536u
#define URL       "redis+unix:///tmp/redis.sock"

static const uint8_t *answer;
static size_t answer_size;
static bool is_open;
static bool is_watching;

/* An end of a socket in which the bytes lie. The other end stays open for what our side writes: closed, the writing
 * would fail before the reading. -1: there are more than a socket takes. */
static int socket_with(const uint8_t *data, size_t size, bool ends_here) {
    static int other_ends[2] = {-1, -1};
    static unsigned next;
    int ends[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    ssize_t written = size > 0 ? write(ends[1], data, size) : 0;
    FUZZ_CHECK(!ends_here || shutdown(ends[1], SHUT_WR) == 0);
    if (other_ends[next % 2] >= 0)
        close(other_ends[next % 2]);
    other_ends[next++ % 2] = ends[1];
    if (written == (ssize_t)size)
        return ends[0];
    close(ends[0]);
    return -1;
}

/* The same after something that is as it should be. */
static int socket_after(const char *good, unsigned times, const uint8_t *data, size_t size, bool ends_here) {
    static uint8_t bytes[1024 + INPUT_MAX];
    size_t at = 0;
    for (unsigned i = 0; i < times; i++, at += strlen(good))
        memcpy(bytes + at, good, strlen(good));
    if (size > 0)
        memcpy(bytes + at, data, size);
    return socket_with(bytes, at + size, ends_here);
}

int __wrap_ten_redis_link_open(ten_redis_settings *settings, enum ten_redis_need need, uint64_t deadline_ms,
                               ten_redis_link **ret_link, ten_error *error);
int __real_ten_redis_link_open(ten_redis_settings *settings, enum ten_redis_need need, uint64_t deadline_ms,
                               ten_redis_link **ret_link, ten_error *error);

/* A connection that has been made; the scripts that are loaded then are known, too. */
int __wrap_ten_redis_link_open(ten_redis_settings *settings, enum ten_redis_need need, uint64_t deadline_ms,
                               ten_redis_link **ret_link, ten_error *error) {
    (void)need;
    if (is_open) /* a second connection */
        return ten_fail(error, TENURE_E_UNREACHABLE, "nobody there");
    is_open = true;
    int fd = socket_after("+sha1\r\n", TEN_REDIS_SCRIPT_COUNT, answer, is_watching ? 0 : answer_size, true);
    return fd < 0 ? ten_fail(error, TENURE_E_UNREACHABLE, "too much")
                  : ten_redis_link_make(settings, fd, "127.0.0.1", "127.0.0.1", deadline_ms, ret_link, error);
}

bool __wrap_ten_redis_link_is_fresh(ten_redis_link *link);

/* Its other end has said already whatever it will. */
bool __wrap_ten_redis_link_is_fresh(ten_redis_link *link) {
    return link->fd >= 0;
}

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);

int __wrap_socket(int domain, int type, int protocol) {
    (void)domain;
    (void)type;
    (void)protocol;
    if (is_watching)
        return socket_after("$-1\r\n+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", 1, answer, answer_size, false);
    return socket_with(answer, answer_size, true);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size) {
    (void)fd;
    (void)address;
    (void)size;
    return 0;
}

/* The conversation at the start of a connection. */
static void dial(void) {
    ten_url url = {0};
    ten_redis_settings *settings = NULL;
    ten_redis_link *link = NULL;
    ten_error error = {0};
    FUZZ_CHECK(ten_url_parse(URL "?db=2", &url, &error) == TENURE_OK);
    FUZZ_CHECK(ten_redis_settings_make(&url, &settings, &error) == TENURE_OK);
    if (__real_ten_redis_link_open(settings, TEN_REDIS_LEASES, ten_now_ms() + 50, &link, &error) == TENURE_OK)
        FUZZ_CHECK(!ten_redis_link_server(link)->is_cluster && !ten_redis_link_server(link)->is_replica);
    else
        FUZZ_CHECK(error.message[0] != '\0' && !fuzz_has_control(error.message, strlen(error.message)));
    ten_redis_link_close(link);
    ten_redis_settings_free(settings);
    ten_url_free(&url);
}

static int look_at_change(const ten_change *change, void *userdata) {
    (void)userdata;
    FUZZ_CHECK((int)change->kind < TEN_EVENT_COUNT && change->reason < TEN_REASON_COUNT);
    FUZZ_CHECK(change->target && change->instance && change->actor);
    return 0;
}

/* What is heard is told by changes(), which asks the server for nothing as long as it goes on where it was. */
static void listen_for_changes(ten_store *store) {
    uint64_t cursor = 5;
    int fd = -1;
    if (store->ops->watch(store, "poll", &fd) < 0)
        return;
    store->ops->watch_clear(store);
    (void)store->ops->changes(store, "poll", &cursor, 100, look_at_change, NULL, 50);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned which = fuzz_choice(&data, &size, 256);
    ten_store *store = NULL;
    ten_error error = {0};
    if (size > INPUT_MAX)
        return 0;
    answer = data;
    answer_size = size;
    is_open = false;
    is_watching = which == 126;
    if (which & 1) {
        dial();
    } else if (ten_store_open(URL, NULL, &store, &error) == TENURE_OK) {
        if (is_watching)
            listen_for_changes(store);
        else
            fuzz_replies(store, which / 2);
        ten_store_close(store);
    }
    return 0;
}
