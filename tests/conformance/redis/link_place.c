/*
 * What the tests of connections to Redis share. See link_place.h.
 */
#include "conformance/redis/link_place.h"

#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

uint64_t boot_ms(void) {
    return ten_boot_ms(&ten_system_clock);
}

void pause_ms(uint64_t ms) {
    ten_sleep_us(ms * 1000);
}

/* ---- the place ----------------------------------------------------------------------------------------- */

static int count_fds(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count++;
    closedir(directory);
    return count;
}

int link_setup_without(void **state) {
    struct link_place *place = calloc(1, sizeof *place);
    if (!place)
        return -1;
    *state = place;
    names_reset();
    late_from_now();
    place->fds = count_fds();
    return 0;
}

int link_setup(void **state) {
    if (link_setup_without(state) != 0)
        return -1;
    struct link_place *place = *state;
    return redis_server_start(&place->server, NULL);
}

void close_link(struct link_place *place) {
    ten_redis_link_close(place->link);
    place->link = NULL;
}

int link_teardown(void **state) {
    struct link_place *place = *state;
    close_link(place);
    ten_redis_settings_free(place->settings);
    redis_server_remove(&place->server);
    free(place->text);
    names_reset();
    int left = count_fds() - place->fds;
    free(place);
    if (left != 0)
        print_error("%d descriptors were left open\n", left);
    return left == 0 ? 0 : -1;
}

/* ---- connections --------------------------------------------------------------------------------------- */

static ten_redis_settings *settings_of(const char *text) {
    ten_url url;
    ten_error error = {0};
    ten_redis_settings *settings = NULL;
    int r = ten_url_parse(text, &url, &error);
    if (r == TENURE_OK) {
        r = ten_redis_settings_make(&url, &settings, &error);
        ten_url_free(&url);
    }
    if (r < 0)
        fail_msg("%s: %s", text, error.message);
    return settings;
}

static ten_redis_settings *settings_by(const char *format, va_list arguments) {
    char text[1200];
    vsnprintf(text, sizeof text, format, arguments);
    return settings_of(text);
}

ten_redis_settings *make_settings(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    ten_redis_settings *settings = settings_by(format, arguments);
    va_end(arguments);
    return settings;
}

static void use_url_by(struct link_place *place, const char *format, va_list arguments) {
    close_link(place);
    ten_redis_settings_free(place->settings);
    place->settings = settings_by(format, arguments);
}

void use_url(struct link_place *place, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    use_url_by(place, format, arguments);
    va_end(arguments);
}

int try_open(struct link_place *place, enum ten_redis_need need, uint64_t wait_ms) {
    close_link(place);
    place->error = (ten_error){0};
    uint64_t start_ms = boot_ms();
    int r = ten_redis_link_open(place->settings, need, start_ms + wait_ms, &place->link, &place->error);
    uint64_t took_ms = boot_ms() - start_ms;
    if (took_ms > wait_ms + SLACK_MS)
        fail_msg("it took %llu ms instead of %llu", (unsigned long long)took_ms, (unsigned long long)wait_ms);
    if (strstr(place->error.message, SECRET))
        fail_msg("the password was told: %s", place->error.message);
    if (r < 0) {
        assert_null(place->link);
        assert_int_equal(place->error.code, r);
        assert_true(place->error.message[0] != '\0');
    }
    return r;
}

static void must_be_open(const struct link_place *place, int r) {
    if (r != TENURE_OK)
        fail_msg("%s: %s", tenure_error_name(r), place->error.message);
}

void must_open(struct link_place *place, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    use_url_by(place, format, arguments);
    va_end(arguments);
    must_be_open(place, try_open(place, TEN_REDIS_LEASES, OPEN_MS));
}

void must_reopen(struct link_place *place) {
    must_be_open(place, try_open(place, TEN_REDIS_LEASES, OPEN_MS));
}

void fail_allocations(struct link_place *place, long least) {
    for (long skip = 0;; skip++) {
        place->settings->hosts[0].known.count = 0;
        ten_alloc_fail_after(skip);
        int r = try_open(place, TEN_REDIS_LEASES, OPEN_MS);
        bool failed = ten_alloc_has_failed();
        ten_alloc_fail_after(-1);
        if (!failed) {
            must_be_open(place, r);
            assert_true(skip >= least);
            return;
        }
        if (r != TENURE_E_NOMEM)
            fail_msg("allocation %ld: %s: %s", skip, tenure_error_name(r), place->error.message);
    }
}

void expect_said(const struct link_place *place, const char *says) {
    if (!strstr(place->error.message, says))
        fail_msg("'%s' does not say '%s'", place->error.message, says);
}

void expect_refused(struct link_place *place, int code, const char *says, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    use_url_by(place, format, arguments);
    va_end(arguments);
    int r = try_open(place, TEN_REDIS_LEASES, OPEN_MS);
    if (r != code)
        fail_msg("%s instead of %s: %s", tenure_error_name(r), tenure_error_name(code), place->error.message);
    expect_said(place, says);
}

static char *text_of(const redisReply *reply) {
    char *text = NULL;
    int size = reply->type == REDIS_REPLY_INTEGER ? asprintf(&text, "%lld", reply->integer)
               : reply->type == REDIS_REPLY_NIL   ? asprintf(&text, "(nil)")
               : reply->type == REDIS_REPLY_ARRAY ? asprintf(&text, "(%zu elements)", reply->elements)
               : reply->type == REDIS_REPLY_ERROR ? asprintf(&text, "-%s", reply->str)
                                                  : asprintf(&text, "%s", reply->str);
    assert_true(size >= 0);
    return text;
}

const char *ask(struct link_place *place, const char *word, ...) {
    const char *words[8];
    size_t sizes[8];
    size_t count = 0;
    va_list arguments;
    va_start(arguments, word);
    for (; word && count < TEN_COUNT(words); word = va_arg(arguments, const char *)) {
        sizes[count] = strlen(word);
        words[count++] = word;
    }
    va_end(arguments);
    redisReply *reply = NULL;
    int r = ten_redis_link_send(place->link, count, words, sizes, &place->error);
    if (r == TENURE_OK)
        r = ten_redis_link_receive(place->link, boot_ms() + OPEN_MS, &reply, &place->error);
    must_be_open(place, r);
    free(place->text);
    place->text = text_of(reply);
    freeReplyObject(reply);
    return place->text;
}

void expect_works(struct link_place *place) {
    assert_string_equal(ask(place, "PING", NULL), "PONG");
}

void tell_server(const struct redis_server *server, const char *format, ...) {
    va_list arguments;
    redisContext *context = redisConnectUnix(server->socket);
    assert_non_null(context);
    va_start(arguments, format);
    redisReply *reply = context->err ? NULL : redisvCommand(context, format, arguments);
    va_end(arguments);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply ? reply->str : context->errstr);
    freeReplyObject(reply);
    redisFree(context);
}

/* ---- strangers ----------------------------------------------------------------------------------------- */

static void *run_peer(void *arg) {
    struct peer *peer = arg;
    for (;;) {
        int client = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0 || atomic_load(&peer->stops)) {
            ten_close_fd(&client);
            return NULL;
        }
        atomic_fetch_add(&peer->accepted, 1);
        atomic_store(&peer->client, client);
        peer->serve(peer, client);
        atomic_store(&peer->client, -1);
        close(client);
    }
}

void peer_start(struct peer *peer, void (*serve)(struct peer *, int)) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    peer->serve = serve;
    peer->client = -1;
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(peer->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(peer->fd, 16), 0);
    assert_int_equal(getsockname(peer->fd, (struct sockaddr *)&address, &size), 0);
    peer->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&peer->thread, NULL, run_peer, peer), 0);
}

void peer_stop(struct peer *peer) {
    atomic_store(&peer->stops, true);
    shutdown(peer->fd, SHUT_RDWR);
    pthread_join(peer->thread, NULL);
    close(peer->fd);
}

/* Waits until there is something to read; false when the test is over. */
static bool wait_for(struct peer *peer, int fd, short events) {
    while (!atomic_load(&peer->stops)) {
        struct pollfd place = {.fd = fd, .events = events};
        if (poll(&place, 1, 5) > 0)
            return true;
    }
    return false;
}

static void note_heard(struct peer *peer, const char *data, size_t size) {
    size_t at = atomic_load(&peer->heard_size);
    for (size_t i = 0; i < size && at + i < sizeof peer->heard; i++)
        peer->heard[at + i] = data[i];
    atomic_fetch_add(&peer->heard_size, size);
}

size_t peer_hear(struct peer *peer, int client) {
    char data[4096];
    if (!wait_for(peer, client, POLLIN))
        return 0;
    ssize_t count = recv(client, data, sizeof data, 0);
    if (count > 0)
        note_heard(peer, data, (size_t)count);
    return count > 0 ? (size_t)count : 0;
}

bool peer_write(struct peer *peer, int client, const void *data, size_t size) {
    const char *from = data;
    while (size > 0 && wait_for(peer, client, POLLOUT)) {
        ssize_t count = send(client, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno != EAGAIN)
            return false;
        from += count > 0 ? count : 0;
        size -= count > 0 ? (size_t)count : 0;
    }
    return size == 0;
}

void peer_is_silent(struct peer *peer, int client) {
    while (peer_hear(peer, client) > 0)
        ;
}

void peer_says(struct peer *peer, int client) {
    if (peer_hear(peer, client) > 0 && peer_write(peer, client, peer->say, peer->say_size))
        peer_is_silent(peer, client);
}

void peer_says_and_closes(struct peer *peer, int client) {
    if (peer_hear(peer, client) > 0)
        (void)peer_write(peer, client, peer->say, peer->say_size);
}

void peer_closes(struct peer *peer, int client) {
    (void)peer;
    (void)client;
}

void peer_resets(struct peer *peer, int client) {
    (void)peer;
    struct linger linger = {.l_onoff = 1};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

/* ---- relays -------------------------------------------------------------------------------------------- */

static int connect_to_port(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        ten_close_fd(&fd);
    return fd;
}

/* What the server says, up to the limit; false when that is reached or somebody closed. */
static bool carry_back(struct peer *peer, int server, int client) {
    char data[4096];
    size_t passed = atomic_load(&peer->passed);
    size_t left = atomic_load(&peer->pass) - passed;
    size_t most = left < sizeof data ? left : sizeof data;
    ssize_t count = most > 0 ? recv(server, data, most, 0) : 0;
    if (count <= 0)
        return false;
    atomic_fetch_add(&peer->passed, (size_t)count);
    return peer_write(peer, client, data, (size_t)count) && (size_t)count < left;
}

static bool carry_on(struct peer *peer, int client, int server) {
    char data[4096];
    ssize_t count = recv(client, data, sizeof data, 0);
    if (count > 0)
        note_heard(peer, data, (size_t)count);
    return count > 0 && peer_write(peer, server, data, (size_t)count);
}

static void relay(struct peer *peer, int client) {
    int server = connect_to_port(peer->to_port);
    bool open = server >= 0;
    atomic_store(&peer->passed, 0);
    while (open && !atomic_load(&peer->stops)) {
        struct pollfd places[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        if (poll(places, 2, 5) <= 0)
            continue;
        if (places[0].revents)
            open = carry_on(peer, client, server);
        if (open && places[1].revents)
            open = carry_back(peer, server, client);
    }
    ten_close_fd(&server);
    if (atomic_load(&peer->then) == PEER_STALL)
        peer_is_silent(peer, client);
    if (atomic_load(&peer->then) == PEER_RESET)
        peer_resets(peer, client);
}

void peer_start_relay(struct peer *peer, int to_port) {
    peer->to_port = to_port;
    if (atomic_load(&peer->pass) == 0)
        atomic_store(&peer->pass, SIZE_MAX);
    peer_start(peer, relay);
}

/* ---- names --------------------------------------------------------------------------------------------- */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);

atomic_bool names_hang;
atomic_bool names_fail;
atomic_uint names_asked;
static atomic_uint names_running;

void names_reset(void) {
    atomic_store(&names_hang, false);
    while (atomic_load(&names_running) > 0)
        pause_ms(1);
    atomic_store(&names_fail, false);
    atomic_store(&names_asked, 0);
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    if (hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(host, port, hints, found);
    atomic_fetch_add(&names_running, 1);
    atomic_fetch_add(&names_asked, 1);
    while (atomic_load(&names_hang))
        pause_ms(1);
    bool two = strcmp(host, "two.test") == 0;
    bool known = two || strcmp(host, "redis.test") == 0 || strcmp(host, "other.test") == 0;
    int failure = known && !atomic_load(&names_fail)
                      ? __real_getaddrinfo(two ? "127.0.0.9" : "127.0.0.1", port, hints, found)
                      : EAI_AGAIN;
    if (two && !failure)
        failure = __real_getaddrinfo("127.0.0.1", port, hints, &(*found)->ai_next);
    atomic_fetch_sub(&names_running, 1);
    return failure;
}
