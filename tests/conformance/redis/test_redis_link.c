/*
 * Connections to Redis on real servers: reaching one, logging in, what is refused and what is said then, pipelines,
 * connections that went stale, and what a connection leaves behind. Strangers, TLS, names and Sentinels have files of
 * their own, link_*.c.
 */
#include "conformance/redis/link_place.h"
#include "lib/freeze.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT "redis://127.0.0.1:%d"

/* ---- reaching a server */

LINK_CASE(a_server_is_reached_by_its_port_and_by_its_socket) {
    struct link_place *place = *state;
    char address[64];
    must_open(place, AT, place->server.port);
    expect_works(place);
    const ten_redis_server *server = ten_redis_link_server(place->link);
    snprintf(address, sizeof address, "127.0.0.1:%d", place->server.port);
    assert_string_equal(server->address, address);
    assert_true(atoi(server->version) >= 6);
    assert_int_equal(strlen(server->run_id), 40);
    assert_string_equal(server->eviction, "noeviction");
    assert_false(server->is_replica || server->is_cluster || server->is_loading || server->saves);
    assert_string_equal(ask(place, "CLIENT", "GETNAME", NULL), "tenure");
    must_open(place, "redis+unix://%s", place->server.socket);
    expect_works(place);
    assert_string_equal(ten_redis_link_server(place->link)->address, place->server.socket);
}

LINK_CASE(a_second_connection_goes_to_the_same_server_and_database) {
    struct link_place *place = *state;
    ten_redis_link *beside = NULL;
    tell_server(&place->server, "CONFIG SET requirepass " SECRET);
    must_open(place, "redis://:" SECRET "@127.0.0.1:%d/2", place->server.port);
    assert_string_equal(ask(place, "SET", "here", "2", NULL), "OK");
    assert_int_equal(
        ten_redis_link_open_beside(place->link, place->settings, boot_ms() + OPEN_MS, &beside, &place->error),
        TENURE_OK);
    assert_memory_equal(ten_redis_link_server(beside), ten_redis_link_server(place->link), sizeof(ten_redis_server));
    close_link(place);
    place->link = beside;
    assert_string_equal(ask(place, "GET", "here", NULL), "2");
    redis_server_kill(&place->server);
    beside = NULL;
    assert_int_equal(ten_redis_link_open_beside(place->link, place->settings, boot_ms() + OPEN_MS, &beside, NULL),
                     TENURE_E_UNREACHABLE);
    assert_null(beside);
}

/* ---- logging in */

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

LINK_CASE(a_password_file_is_read_again_for_every_connection) {
    struct link_place *place = *state;
    char path[300];
    snprintf(path, sizeof path, "%s/password", place->server.directory);
    write_file(path, "first-" SECRET "\nand more\n");
    tell_server(&place->server, "CONFIG SET requirepass first-" SECRET);
    must_open(place, AT "?password_file=%s", place->server.port, path);
    ask(place, "CONFIG", "SET", "requirepass", "second-" SECRET, NULL);
    assert_int_equal(try_open(place, TEN_REDIS_LEASES, OPEN_MS), TENURE_E_DENIED);
    write_file(path, "second-" SECRET);
    must_reopen(place);
    expect_works(place);
    write_file(path, "\n");
    assert_int_equal(try_open(place, TEN_REDIS_LEASES, OPEN_MS), TENURE_E_DENIED);
    expect_said(place, "has no password");
    unlink(path);
    assert_int_equal(try_open(place, TEN_REDIS_LEASES, OPEN_MS), TENURE_E_DENIED);
    expect_said(place, path);
    expect_said(place, strerror(ENOENT));
}

/* Some are tokens that a cloud has signed. */
LINK_CASE(a_long_password_is_not_cut) {
    struct link_place *place = *state;
    char path[300];
    static char password[20000];
    memset(password, 'p', 3000);
    tell_server(&place->server, "CONFIG SET requirepass %s", password);
    snprintf(path, sizeof path, "%s/password", place->server.directory);
    write_file(path, password);
    must_open(place, AT "?password_file=%s", place->server.port, path);
    memset(password, 'p', sizeof password - 1);
    write_file(path, password);
    expect_refused(place, TENURE_E_DENIED, "too long", AT "?password_file=%s", place->server.port, path);
}

/* ---- servers that are not fit for leases */

LINK_CASE(a_server_that_evicts_is_refused) {
    struct link_place *place = *state;
    tell_server(&place->server, "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    expect_refused(place, TENURE_E_UNSUPPORTED, "allkeys-lru", AT, place->server.port);
    expect_said(place, "noeviction");
    assert_int_equal(try_open(place, TEN_REDIS_ANY, OPEN_MS), TENURE_OK);
    assert_int_equal(ten_redis_link_server(place->link)->maxmemory, 100 << 20);
}

LINK_CASE(a_replica_is_refused_until_it_is_a_master) {
    struct link_place *place = *state;
    tell_server(&place->server, "REPLICAOF 127.0.0.1 1");
    expect_refused(place, TENURE_E_UNREACHABLE, "replica", AT, place->server.port);
    assert_int_equal(try_open(place, TEN_REDIS_ANY, OPEN_MS), TENURE_OK);
    assert_true(ten_redis_link_server(place->link)->is_replica);
    tell_server(&place->server, "REPLICAOF NO ONE");
    must_reopen(place);
    tell_server(&place->server, "REPLICAOF 127.0.0.1 1");
    ten_error error;
    redisReply *reply = NULL;
    const char *const words[] = {"SET", "key", "value"};
    assert_int_equal(ten_redis_link_ask(place->link, boot_ms() + OPEN_MS, &reply, &error, words, 3),
                     TENURE_E_UNREACHABLE);
    assert_null(reply);
    assert_non_null(strstr(error.message, "READONLY"));
}

LINK_CASE(a_server_with_too_many_clients_says_so) {
    struct link_place *place = *state;
    struct link_place other = {.link = NULL};
    must_open(place, AT, place->server.port);
    ask(place, "CONFIG", "SET", "maxclients", "1", NULL);
    for (int i = 0; i < 20; i++) {
        expect_refused(&other, TENURE_E_UNREACHABLE, "max number of clients", AT, place->server.port);
        expect_said(&other, "maxclients");
    }
    ten_redis_settings_free(other.settings);
}

/* ---- time */

LINK_CASE(a_server_that_is_stopped_costs_no_more_than_the_deadline) {
    struct link_place *place = *state;
    must_open(place, AT, place->server.port);
    assert_int_equal(freeze_process(place->server.pid), 0);
    ten_error error;
    redisReply *reply = NULL;
    const char *const words[] = {"PING"};
    uint64_t start_ms = boot_ms();
    assert_int_equal(ten_redis_link_ask(place->link, start_ms + 150, &reply, &error, words, 1), TENURE_E_TIMEOUT);
    assert_in_range(boot_ms() - start_ms, 150 - ROUNDING_MS, 150 + SLACK_MS);
    assert_int_equal(try_open(place, TEN_REDIS_ANY, 150), TENURE_E_TIMEOUT);
    expect_said(place, "did not answer in time");
    thaw_process(place->server.pid);
    must_reopen(place);
}

LINK_CASE_ALONE(a_unix_socket_whose_queue_is_full_costs_no_more_than_the_deadline) {
    struct link_place *place = *state;
    char path[100];
    int fds[8];
    size_t count = 0;
    snprintf(path, sizeof path, "/tmp/tenure-full-%ld.sock", (long)getpid());
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server, 1), 0);
    for (int failed = 0; !failed && count < TEN_COUNT(fds); count++) {
        fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        failed = connect(fds[count], (struct sockaddr *)&address, sizeof address);
    }
    use_url(place, "redis+unix://%s", path);
    int r = try_open(place, TEN_REDIS_ANY, 100);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    close(server);
    unlink(path);
    assert_int_equal(r, TENURE_E_TIMEOUT);
}

static void count_signal(int signal_number) {
    (void)signal_number;
}

static void storm(bool on) {
    struct sigaction action = {.sa_handler = on ? count_signal : SIG_IGN};
    struct itimerval timer = {.it_interval = {.tv_usec = on ? 300 : 0}, .it_value = {.tv_usec = on ? 300 : 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

LINK_CASE(signals_disturb_nothing) {
    struct link_place *place = *state;
    use_url(place, AT, place->server.port);
    storm(true);
    for (int i = 0; i < 50; i++) {
        must_reopen(place);
        expect_works(place);
    }
    storm(false);
}

/* ---- pipelines */

static void send_one(struct link_place *place, const char *word, const char *data, size_t size) {
    assert_int_equal(ten_redis_link_send(place->link, 2, (const char *const[]){word, data},
                                         (const size_t[]){strlen(word), size}, &place->error),
                     TENURE_OK);
}

LINK_CASE(thousand_commands_with_large_replies_do_not_wait_for_each_other) {
    struct link_place *place = *state;
    static char data[100000];
    must_open(place, AT, place->server.port);
    uint64_t start_ms = boot_ms();
    for (unsigned i = 0; i < 1000; i++) {
        memset(data, (int)('a' + i % 26), sizeof data);
        send_one(place, "ECHO", data, sizeof data - i);
    }
    for (unsigned i = 0; i < 1000; i++) {
        redisReply *reply = NULL;
        int r = ten_redis_link_receive(place->link, start_ms + 20000, &reply, &place->error);
        if (r < 0)
            fail_msg("reply %u: %s", i, place->error.message);
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        assert_int_equal(reply->len, sizeof data - i);
        assert_int_equal(reply->str[0], 'a' + i % 26);
        assert_int_equal(reply->str[reply->len - 1], 'a' + i % 26);
        freeReplyObject(reply);
    }
    expect_works(place);
    assert_true(ten_redis_link_is_fresh(place->link));
}

static size_t memory_in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

LINK_CASE(memory_is_given_back_after_a_large_reply) {
    struct link_place *place = *state;
    static char data[20000000];
    memset(data, 'x', sizeof data);
    must_open(place, AT, place->server.port);
    expect_works(place);
    size_t before = memory_in_use();
    send_one(place, "ECHO", data, sizeof data);
    redisReply *reply = NULL;
    assert_int_equal(ten_redis_link_receive(place->link, boot_ms() + OPEN_MS, &reply, &place->error), TENURE_OK);
    freeReplyObject(reply);
    expect_works(place);
    size_t after = memory_in_use();
    assert_in_range(after, 0, before + 4000000);
}

LINK_CASE(take_gives_what_is_there_and_does_not_wait) {
    struct link_place *place = *state;
    redisReply *reply = NULL;
    must_open(place, AT, place->server.port);
    assert_int_equal(ten_redis_link_take(place->link, &reply, &place->error), TENURE_OK);
    assert_null(reply);
    send_one(place, "ECHO", "1", 1);
    send_one(place, "ECHO", "2", 1);
    assert_int_equal(ten_redis_link_flush(place->link, boot_ms() + OPEN_MS, &place->error), TENURE_OK);
    unsigned seen = 0;
    for (uint64_t end_ms = boot_ms() + OPEN_MS; seen < 2 && boot_ms() < end_ms;) {
        assert_int_equal(ten_redis_link_take(place->link, &reply, &place->error), TENURE_OK);
        if (reply) {
            assert_int_equal(atoi(reply->str), ++seen);
            freeReplyObject(reply);
        }
    }
    assert_int_equal(seen, 2);
    redis_server_kill(&place->server);
    assert_int_equal(ten_redis_link_take(place->link, &reply, &place->error), TENURE_E_UNREACHABLE);
    assert_null(reply);
}

/* ---- stale connections */

LINK_CASE(a_connection_is_fresh_until_its_server_closes_it) {
    struct link_place *place = *state;
    must_open(place, AT, place->server.port);
    assert_true(ten_redis_link_is_fresh(place->link));
    expect_works(place);
    assert_true(ten_redis_link_is_fresh(place->link));
    tell_server(&place->server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_false(ten_redis_link_is_fresh(place->link));
    must_reopen(place);
    redis_server_kill(&place->server);
    assert_false(ten_redis_link_is_fresh(place->link));
}

LINK_CASE(a_connection_that_lay_idle_for_long_is_not_fresh) {
    struct link_place *place = *state;
    must_open(place, AT, place->server.port);
    place->link->used_ms -= UINT64_C(4) * 60 * 1000;
    assert_true(ten_redis_link_is_fresh(place->link));
    place->link->used_ms -= UINT64_C(61) * 1000;
    assert_false(ten_redis_link_is_fresh(place->link));
    expect_works(place);
    assert_true(ten_redis_link_is_fresh(place->link));
}

LINK_CASE(a_connection_with_something_unasked_for_is_not_fresh) {
    struct link_place *place = *state;
    must_open(place, AT, place->server.port);
    send_one(place, "ECHO", "x", 1);
    assert_int_equal(ten_redis_link_flush(place->link, boot_ms() + OPEN_MS, &place->error), TENURE_OK);
    for (int i = 0; i < 500 && ten_redis_link_is_fresh(place->link); i++)
        pause_ms(1);
    assert_false(ten_redis_link_is_fresh(place->link));
}

/* ---- children, and memory that is refused */

LINK_CASE(closing_in_a_child_leaves_the_parents_connection_alone) {
    struct link_place *place = *state;
    struct peer peer = {.fd = -1};
    peer_start_relay(&peer, place->server.port);
    must_open(place, AT, peer.port);
    size_t heard = atomic_load(&peer.heard_size);
    pid_t child = fork();
    if (child == 0) {
        ten_redis_link_close(place->link);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    pause_ms(10);
    assert_int_equal(atomic_load(&peer.heard_size), heard);
    assert_true(ten_redis_link_is_fresh(place->link));
    expect_works(place);
    close_link(place);
    peer_stop(&peer);
}

LINK_CASE(every_allocation_that_fails_is_told_and_leaves_nothing) {
    struct link_place *place = *state;
    use_url(place, "redis://redis.test:%d/1", place->server.port);
    fail_allocations(place, 3);
    expect_works(place);
}

/* ---- refusals */

LINK_CASE_ALONE(refusals_are_known_by_their_first_word) {
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"READONLY You can't write against a read only replica", TENURE_E_UNREACHABLE},
        {"LOADING Redis is loading the dataset in memory", TENURE_E_UNREACHABLE},
        {"MASTERDOWN Link with MASTER is down", TENURE_E_UNREACHABLE},
        {"NOREPLICAS Not enough good replicas to write", TENURE_E_UNREACHABLE},
        {"BUSY Redis is busy running a script", TENURE_E_UNREACHABLE},
        {"BUSYGROUP Consumer Group name already exists", TENURE_E_STORE},
        {"MISCONF Redis is configured to save RDB snapshots", TENURE_E_UNREACHABLE},
        {"NOAUTH Authentication required", TENURE_E_DENIED},
        {"WRONGPASS invalid username-password pair", TENURE_E_DENIED},
        {"NOPERM this user has no permissions", TENURE_E_DENIED},
        {"DENIED Redis is running in protected mode", TENURE_E_DENIED},
        {"OOM command not allowed when used memory > 'maxmemory'", TENURE_E_FULL},
        {"MOVED 1 127.0.0.1:1", TENURE_E_UNSUPPORTED},
        {"ERR max number of clients reached", TENURE_E_UNREACHABLE},
        {"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't",
         TENURE_E_UNREACHABLE},
        {"ERR unknown command", TENURE_E_STORE},
        {"", TENURE_E_STORE},
    };
    for (size_t i = 0; i < TEN_COUNT(cases); i++) {
        redisReply reply = {.type = REDIS_REPLY_ERROR, .str = (char *)(uintptr_t)cases[i].text};
        ten_error error;
        if (ten_redis_refusal(&reply, "doing it", &error) != cases[i].code)
            fail_msg("%s is %s", cases[i].text, tenure_error_name(error.code));
        assert_int_equal(strncmp(error.message, "doing it: ", 10), 0);
        assert_non_null(strstr(error.message, cases[i].text));
    }
}

LINK_CASE_ALONE(what_a_server_says_is_one_line_of_text) {
    redisReply reply = {.type = REDIS_REPLY_ERROR,
                        .str = (char *)(uintptr_t) "ERR a\x1b[2J\n\xff\x80 \xc2\x9b \xc3\xa4"};
    ten_error error;
    assert_int_equal(ten_redis_refusal(&reply, "x", &error), TENURE_E_STORE);
    assert_string_equal(error.message, "x: ERR a?[2J??? ? \xc3\xa4");
    reply.str = (char *)(uintptr_t) "NOAUTH Authentication required.";
    assert_int_equal(ten_redis_refusal(&reply, "x", &error), TENURE_E_DENIED);
    assert_non_null(strstr(error.message, "x: NOAUTH Authentication required; name a password"));
    char text[1000];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    reply.str = text;
    assert_int_equal(ten_redis_refusal(&reply, "x", &error), TENURE_E_STORE);
    assert_in_range(strlen(error.message), 100, 250);
}

/* An argument is a pattern of tests' names. */
int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_DFL);
    return run_cases(NULL, NULL);
}
