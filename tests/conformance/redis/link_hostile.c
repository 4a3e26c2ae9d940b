/*
 * Whoever listens where a Redis should be: silent, slow, gone in the middle of a word, another service, or somebody who
 * wants our memory or our time. Each costs no more than the deadline and little memory, is told clearly, and raises no
 * SIGPIPE.
 */
#include "conformance/redis/link_place.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_PEER "redis://:" SECRET "@127.0.0.1:%d"

static int open_at(struct link_place *place, const struct peer *peer, uint64_t wait_ms) {
    use_url(place, AT_PEER, peer->port);
    return try_open(place, TEN_REDIS_LEASES, wait_ms);
}

static void expect_at(struct link_place *place, struct peer *peer, uint64_t wait_ms, int code, const char *says) {
    int r = open_at(place, peer, wait_ms);
    peer_stop(peer);
    if (r != code)
        fail_msg("%s instead of %s: %s", tenure_error_name(r), tenure_error_name(code), place->error.message);
    expect_said(place, says);
}

/* Somebody who says just this. */
static void expect_about(struct link_place *place, const char *text, uint64_t wait_ms, int code, const char *says) {
    struct peer peer = {.say = text, .say_size = strlen(text)};
    peer_start(&peer, peer_says);
    expect_at(place, &peer, wait_ms, code, says);
}

/* ---- silence */

/* A real conversation that ends after every possible number of bytes. */
LINK_CASE(a_peer_that_is_gone_in_the_middle_of_a_reply_is_told) {
    struct link_place *place = *state;
    struct peer peer = {.fd = -1};
    peer_start_relay(&peer, place->server.port);
    use_url(place, "redis://127.0.0.1:%d", peer.port);
    assert_int_equal(try_open(place, TEN_REDIS_LEASES, OPEN_MS), TENURE_OK);
    close_link(place);
    size_t whole = atomic_load(&peer.passed);
    assert_true(whole > 1000);
    whole -= 64; /* some numbers become shorter */
    for (size_t pass = 1; pass < whole; pass += pass < 64 || whole - pass < 64 ? 1 : 61) {
        atomic_store(&peer.pass, pass);
        atomic_store(&peer.then, pass % 2 ? PEER_CLOSE : PEER_RESET);
        int r = try_open(place, TEN_REDIS_LEASES, OPEN_MS);
        if (r != TENURE_E_UNREACHABLE)
            fail_msg("after %zu of %zu bytes: %s: %s", pass, whole, tenure_error_name(r), place->error.message);
        expect_said(place, "closed the connection");
    }
    atomic_store(&peer.then, PEER_STALL);
    for (size_t pass = 1; pass < whole; pass += whole / 5) {
        atomic_store(&peer.pass, pass);
        assert_int_equal(try_open(place, TEN_REDIS_LEASES, 60), TENURE_E_TIMEOUT);
    }
    peer_stop(&peer);
}

static bool write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && ten_write_all(fd, text, strlen(text)) == 0;
    ten_close_fd(&fd);
    return done;
}

/* A network of our own, in which every connection starts from the same port; false: that is not allowed here. */
static bool enter_narrow_network(const char *ports) {
    struct ifreq request = {.ifr_flags = IFF_UP};
    snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
    /* As root at once; else by way of a user namespace, which is not to be had everywhere. */
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0 &&
                write_text("/proc/sys/net/ipv4/ip_local_port_range", ports);
    ten_close_fd(&fd);
    return done;
}

/* A TCP connection to a port that is also the one that the system picks for us is one to ourselves. */
LINK_CASE_ALONE(nobody_takes_himself_for_a_server) {
    struct link_place *place = *state;
    use_url(place, "redis://:" SECRET "@127.0.0.1:40001");
    pid_t child = fork();
    if (child == 0) {
        if (!enter_narrow_network("40001 40001"))
            _exit(77);
        ten_error error = {0};
        int r = ten_redis_link_open(place->settings, TEN_REDIS_ANY, boot_ms() + OPEN_MS, &place->link, &error);
        _exit(r == TENURE_E_UNREACHABLE && strstr(error.message, "refused") ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("a network of our own is not to be had here: this shows nothing\n");
        return;
    }
    assert_int_equal(status, 0);
}

/* ---- another service */

/* What it has to say comes before it hangs up on what it was told. */
static void say_and_hang_up(struct peer *peer, int client) {
    (void)peer_write(peer, client, peer->say, peer->say_size);
    pause_ms(1);
}

LINK_CASE_ALONE(the_last_words_of_a_peer_are_heard) {
    struct link_place *place = *state;
    static const char words[] = "-ERR max number of clients reached\r\n";
    struct peer peer = {.say = words, .say_size = sizeof words - 1};
    peer_start(&peer, say_and_hang_up);
    use_url(place, AT_PEER, peer.port);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(try_open(place, TEN_REDIS_LEASES, OPEN_MS), TENURE_E_UNREACHABLE);
        expect_said(place, "max number of clients");
    }
    peer_stop(&peer);
}

/* Replies that came before the connection broke are not lost with it. */
LINK_CASE(replies_that_came_before_the_end_are_had) {
    struct link_place *place = *state;
    struct peer peer = {.fd = -1};
    static char data[4000000];
    memset(data, 'x', sizeof data);
    peer_start_relay(&peer, place->server.port);
    must_open(place, "redis://127.0.0.1:%d", peer.port);
    atomic_store(&peer.then, PEER_RESET);
    atomic_store(&peer.pass, atomic_load(&peer.passed) + 7 + 7 + 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ten_redis_link_send(place->link, 1, (const char *const[]){"PING"}, (const size_t[]){4}, NULL),
                         TENURE_OK);
    assert_int_equal(ten_redis_link_send(place->link, 2, (const char *const[]){"ECHO", data},
                                         (const size_t[]){4, sizeof data}, NULL),
                     TENURE_OK);
    for (int i = 0; i < 3; i++) {
        redisReply *reply = NULL;
        int r = ten_redis_link_receive(place->link, boot_ms() + OPEN_MS, &reply, &place->error);
        assert_int_equal(r, i < 2 ? TENURE_OK : TENURE_E_UNREACHABLE);
        if (reply)
            freeReplyObject(reply);
    }
    close_link(place);
    peer_stop(&peer);
}

/* ---- servers that are not fit, and are too old to be started here */

static void expect_server(struct link_place *place, const char *info, int code, const char *says) {
    char text[1000];
    /* AUTH, INFO, CLIENT SETNAME. */
    snprintf(text, sizeof text, "+OK\r\n$%zu\r\n%s\r\n+OK\r\n", strlen(info), info);
    expect_about(place, text, OPEN_MS, code, says);
}

#define INFO_TEXT(version, loading)                                                                                    \
    "redis_version:" version "\r\nrole:master\r\nloading:" loading "\r\nmaxmemory_policy:noeviction\r\n"

LINK_CASE_ALONE(old_loading_and_unknown_servers_are_refused) {
    expect_server(*state, INFO_TEXT("5.0.14", "0"), TENURE_E_UNSUPPORTED, "is Redis 5.0.14; leases need 6.0 or later");
    expect_server(*state, INFO_TEXT("7.0.0", "1"), TENURE_E_UNREACHABLE, "reading its data");
    expect_server(*state, "redis_version:7.0.0\r\nloading:0\r\n", TENURE_E_UNSUPPORTED, "unknown");
    expect_server(*state, "", TENURE_E_UNSUPPORTED, "unknown version");
    for (const char *const *odd = (const char *const[]){":1", "*0", "$-1", "+x", "*1\r\n:1", NULL}; *odd; odd++) {
        char text[64];
        snprintf(text, sizeof text, "+OK\r\n%s\r\n:0\r\n", *odd);
        expect_about(*state, text, OPEN_MS, TENURE_E_UNSUPPORTED, "unknown version");
    }
}

/* ---- who wants our memory */

static long peak_kb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

LINK_CASE_ALONE(arrays_of_an_unlikely_size_are_refused_before_there_is_room_for_them) {
    long before = peak_kb();
    expect_about(*state, "*1000000000\r\n", OPEN_MS, TENURE_E_STORE, "too large");
    expect_about(*state, "*2147483647\r\n", OPEN_MS, TENURE_E_STORE, "too large");
    expect_about(*state, "*99999999999\r\n", OPEN_MS, TENURE_E_STORE, "");
    expect_about(*state, "*-5\r\n", OPEN_MS, TENURE_E_STORE, "");
    expect_about(*state, "*600000\r\n*600000\r\n", OPEN_MS, TENURE_E_STORE, "too large");
    expect_about(*state, "*2\r\n*0\r\n*600000\r\n", 100, TENURE_E_TIMEOUT, "");
    expect_about(*state, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", 300,
                 TENURE_E_STORE, "does not speak the Redis protocol");
    assert_in_range(peak_kb(), 0, before + 50000);
}

LINK_CASE_ALONE(a_string_of_an_unlikely_size_costs_no_more_than_the_deadline) {
    long before = peak_kb();
    expect_about(*state, "$1000000000000\r\nabc", 100, TENURE_E_TIMEOUT, "");
    expect_about(*state, "$9223372036854775807\r\nabc", 100, TENURE_E_TIMEOUT, "");
    expect_about(*state, "$-7\r\nabc", OPEN_MS, TENURE_E_STORE, "");
    expect_about(*state, "$x\r\n", OPEN_MS, TENURE_E_STORE, "");
    expect_about(*state, ":x\r\n", OPEN_MS, TENURE_E_STORE, "");
    assert_in_range(peak_kb(), 0, before + 50000);
}

static void say_without_end(struct peer *peer, int client) {
    static const char block[65536];
    if (peer_write(peer, client, peer->say, peer->say_size))
        while (peer_write(peer, client, block, sizeof block))
            ;
}

LINK_CASE_ALONE(a_string_without_end_is_refused) {
    long before = peak_kb();
    struct peer peer = {.say = "$1000000000000\r\n", .say_size = 16};
    peer_start(&peer, say_without_end);
    expect_at(*state, &peer, 6 * OPEN_MS, TENURE_E_STORE, "too large");
    assert_in_range(peak_kb(), 0, before + 200000);
}

static void list_without_end(struct peer *peer, int client) {
    static char block[65536];
    for (size_t i = 0; i < sizeof block; i += 4)
        memcpy(block + i, ":1\r\n", 4);
    (void)peer_write(peer, client, "*1000000\r\n", 10);
    while (peer_write(peer, client, block, sizeof block))
        ;
}

/* Each element costs many times its bytes. */
LINK_CASE_ALONE(a_list_of_a_million_is_the_end) {
    struct link_place *place = *state;
    long before = peak_kb();
    struct peer peer = {.fd = -1};
    peer_start(&peer, list_without_end);
    int r = open_at(place, &peer, 1500);
    peer_stop(&peer);
    assert_true(r < 0);
    assert_in_range(peak_kb(), 0, before + 200000);
}

/* ---- who wants our time */

LINK_CASE_ALONE(a_line_without_end_costs_the_deadline) {
    struct peer peer = {.say = "+", .say_size = 1};
    peer_start(&peer, say_without_end);
    struct link_place *place = *state;
    int r = open_at(place, &peer, 200);
    peer_stop(&peer);
    assert_true(r == TENURE_E_TIMEOUT || r == TENURE_E_STORE);
}

static void flood(struct peer *peer, int client) {
    static char block[65536];
    for (size_t i = 0; i + 4 <= sizeof block; i += 4)
        memcpy(block + i, ":1\r\n", 4);
    while (peer_write(peer, client, block, sizeof block))
        ;
}

/* It never reads, and always has something for us. */
LINK_CASE_ALONE(a_flood_while_we_write_costs_the_deadline) {
    struct link_place *place = *state;
    struct peer peer = {.fd = -1};
    static char data[8000000];
    peer_start(&peer, flood);
    use_url(place, "redis://127.0.0.1:%d", peer.port);
    assert_int_equal(try_open(place, TEN_REDIS_ANY, OPEN_MS), TENURE_OK);
    assert_false(ten_redis_link_is_fresh(place->link));
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            ten_redis_link_send(place->link, 1, (const char *const[]){data}, (const size_t[]){sizeof data}, NULL),
            TENURE_OK);
    uint64_t start_ms = boot_ms();
    int r = ten_redis_link_flush(place->link, start_ms + 150, &place->error);
    uint64_t took_ms = boot_ms() - start_ms;
    close_link(place);
    peer_stop(&peer);
    /* Or it was the limit of what is kept for us, on a fast machine. */
    assert_true(r == TENURE_E_TIMEOUT || r == TENURE_E_STORE);
    assert_in_range(took_ms, 0, 150 + SLACK_MS);
}

/* A connection that nothing was said on yet. */
static void connect_bare(struct link_place *place, const struct peer *peer) {
    ten_addresses addresses;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    use_url(place, "redis://127.0.0.1:%d", peer->port);
    assert_int_equal(ten_resolve("127.0.0.1", (uint16_t)peer->port, 0, &addresses, NULL), TENURE_OK);
    (void)connect(fd, (struct sockaddr *)&addresses.at[0].address, addresses.at[0].size);
    assert_int_equal(ten_redis_link_make(place->settings, fd, "h", "redis://h", 0, &place->link, NULL), TENURE_OK);
}

LINK_CASE_ALONE(take_returns_from_a_flood_without_a_whole_reply) {
    struct link_place *place = *state;
    struct peer peer = {.say = "$50000000\r\n", .say_size = 11};
    redisReply *reply = NULL;
    peer_start(&peer, say_without_end);
    connect_bare(place, &peer);
    unsigned without = 0;
    uint64_t end_ms = boot_ms() + OPEN_MS;
    while (!reply && boot_ms() < end_ms) {
        assert_int_equal(ten_redis_link_take(place->link, &reply, &place->error), TENURE_OK);
        without += reply == NULL;
    }
    assert_non_null(reply);
    assert_int_equal(reply->len, 50000000);
    assert_true(without > 10);
    freeReplyObject(reply);
    close_link(place);
    peer_stop(&peer);
}

static void say_then_listen(struct peer *peer, int client) {
    if (peer_write(peer, client, peer->say, peer->say_size))
        peer_is_silent(peer, client);
}

/* One that is larger than what is read at a time, from a peer who reads nothing before it is gone. */
LINK_CASE_ALONE(a_large_reply_that_came_before_we_had_written_is_found) {
    struct link_place *place = *state;
    static char data[20000014];
    memset(data, 'x', sizeof data);
    memcpy(data, "$20000001\r\n", 11);
    memcpy(data + sizeof data - 2, "\r\n", 2);
    struct peer peer = {.say = data, .say_size = sizeof data};
    redisReply *reply = NULL;
    peer_start(&peer, say_then_listen);
    connect_bare(place, &peer);
    assert_int_equal(
        ten_redis_link_send(place->link, 1, (const char *const[]){data}, (const size_t[]){sizeof data}, NULL),
        TENURE_OK);
    assert_int_equal(ten_redis_link_flush(place->link, boot_ms() + OPEN_MS, &place->error), TENURE_OK);
    assert_true(place->link->in.size > 2000000);
    assert_false(ten_redis_link_is_fresh(place->link));
    assert_int_equal(ten_redis_link_receive(place->link, boot_ms() + OPEN_MS, &reply, &place->error), TENURE_OK);
    assert_int_equal(reply->len, 20000001);
    freeReplyObject(reply);
    assert_int_equal(place->link->in.size, 0);
    assert_true(ten_redis_link_is_fresh(place->link));
    close_link(place);
    peer_stop(&peer);
}

/* ---- SIGPIPE, whose default would end this program */

LINK_CASE(writing_to_a_peer_that_is_gone_raises_no_signal) {
    struct link_place *place = *state;
    for (int how = PEER_CLOSE; how <= PEER_RESET; how++) {
        struct peer peer = {.then = how};
        peer_start_relay(&peer, place->server.port);
        must_open(place, "redis://127.0.0.1:%d", peer.port);
        redis_server_kill(&place->server);
        pause_ms(5);
        int r = TENURE_OK;
        for (int i = 0; i < 10; i++) {
            assert_int_equal(
                ten_redis_link_send(place->link, 1, (const char *const[]){"PING"}, (const size_t[]){4}, NULL),
                TENURE_OK);
            r = ten_redis_link_flush(place->link, boot_ms() + OPEN_MS, &place->error);
            pause_ms(1);
        }
        assert_int_equal(r, TENURE_E_UNREACHABLE);
        redisReply *reply = NULL;
        assert_int_equal(ten_redis_link_receive(place->link, boot_ms() + OPEN_MS, &reply, &place->error),
                         TENURE_E_UNREACHABLE);
        expect_said(place, "closed the connection");
        close_link(place);
        peer_stop(&peer);
        assert_int_equal(redis_server_start_again(&place->server), 0);
    }
}
