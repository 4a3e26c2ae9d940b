/*
 * TLS to real servers: whose certificate is accepted, what is said when it is not, that nothing goes out in clear, that
 * a handshake has an end, and that certificates can be replaced while a program runs.
 */
#include "conformance/redis/link_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct certificates certificates;

static void remove_certificates(void) {
    certificates_remove(&certificates);
}

/* They are made once, and go with the program. */
static int tls_setup(void **state) {
    if (!certificates.directory[0] && (certificates_make(&certificates) != 0 || atexit(remove_certificates) != 0))
        return -1;
    return link_setup_without(state);
}

#define TLS_CASE(name) TEST_WITH(name, tls_setup, link_teardown)

/* A server with TLS and the certificate of that name; `more` are two further arguments or NULL. */
static void start_tls(struct link_place *place, const char *name, const char *option, const char *value) {
    static char certificate[200];
    static char key[200];
    static const char *arguments[12];
    snprintf(certificate, sizeof certificate, "%s/%s.crt", certificates.directory, name);
    snprintf(key, sizeof key, "%s/%s.key", certificates.directory, name);
    const char *const words[] = {"--tls-cert-file",
                                 certificate,
                                 "--tls-key-file",
                                 key,
                                 "--tls-ca-cert-file",
                                 certificates.ca,
                                 "--tls-auth-clients",
                                 "no",
                                 option,
                                 value,
                                 NULL};
    memcpy(arguments, words, sizeof words);
    redis_server_remove(&place->server);
    assert_int_equal(redis_server_start_tls(&place->server, arguments), 0);
}

#define TLS "rediss://127.0.0.1:%d?ca_file=%s"

static void open_tls(struct link_place *place) {
    must_open(place, TLS, place->server.port, certificates.ca);
}

/* ---- whose certificate is accepted */

TLS_CASE(a_server_is_reached_by_tls_by_address_and_by_name) {
    struct link_place *place = *state;
    start_tls(place, "server", NULL, NULL);
    open_tls(place);
    expect_works(place);
    tell_server(&place->server, "CONFIG SET requirepass " SECRET);
    must_open(place, "rediss://:" SECRET "@redis.test:%d/3?ca_file=%s", place->server.port, certificates.ca);
    expect_works(place);
    ten_redis_link *beside = NULL;
    assert_int_equal(
        ten_redis_link_open_beside(place->link, place->settings, boot_ms() + OPEN_MS, &beside, &place->error),
        TENURE_OK);
    close_link(place);
    place->link = beside;
    expect_works(place);
}

TLS_CASE(old_and_new_versions_of_tls_are_spoken) {
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    for (size_t i = 0; i < TEN_COUNT(versions); i++) {
        start_tls(*state, "server", "--tls-protocols", versions[i]);
        open_tls(*state);
        expect_works(*state);
    }
}

static void expect_certificate_refused(struct link_place *place, const char *host, const char *ca, const char *says,
                                       const char *lacks) {
    if (ca)
        expect_refused(place, TENURE_E_UNREACHABLE, says, "rediss://:" SECRET "@%s:%d?ca_file=%s/%s", host,
                       place->server.port, certificates.directory, ca);
    else
        expect_refused(place, TENURE_E_UNREACHABLE, says, "rediss://:" SECRET "@%s:%d", host, place->server.port);
    expect_said(place, host);
    if (strstr(place->error.message, lacks))
        fail_msg("'%s' says '%s'", place->error.message, lacks);
}

TLS_CASE(certificates_of_strangers_are_refused) {
    struct link_place *place = *state;
    start_tls(place, "server", NULL, NULL);
    expect_certificate_refused(place, "127.0.0.1", "other-ca.crt", "ca_file names the authority", "expired");
    expect_certificate_refused(place, "127.0.0.1", NULL, "ca_file names the authority", "expired");
}

TLS_CASE(a_certificate_of_another_host_is_refused) {
    struct link_place *place = *state;
    start_tls(place, "by-name", NULL, NULL);
    expect_certificate_refused(place, "other.test", "ca.crt", "hostname mismatch", "ca_file");
    expect_certificate_refused(place, "127.0.0.1", "ca.crt", "IP address mismatch", "ca_file");
    must_open(place, "rediss://redis.test:%d?ca_file=%s", place->server.port, certificates.ca);
}

TLS_CASE(a_certificate_that_has_expired_is_refused) {
    struct link_place *place = *state;
    start_tls(place, "expired", NULL, NULL);
    expect_certificate_refused(place, "127.0.0.1", "ca.crt", "certificate has expired", "ca_file");
}

/* ---- our own certificate */

static void expect_client(struct link_place *place, const char *name, int code, const char *says) {
    use_url(place, "rediss://127.0.0.1:%d?ca_file=%s&cert_file=%s/%s.crt&key_file=%s/%s.key", place->server.port,
            certificates.ca, certificates.directory, name, certificates.directory, name);
    int r = try_open(place, TEN_REDIS_LEASES, OPEN_MS);
    if (r != code)
        fail_msg("%s: %s instead of %s: %s", name, tenure_error_name(r), tenure_error_name(code), place->error.message);
    expect_said(place, says);
}

TLS_CASE(a_server_that_wants_a_certificate_of_ours_says_so) {
    struct link_place *place = *state;
    static const char *const versions[] = {"TLSv1.3", "TLSv1.2"};
    for (size_t i = 0; i < TEN_COUNT(versions); i++) {
        start_tls(place, "server", "--tls-protocols", versions[i]);
        tell_server(&place->server, "CONFIG SET tls-auth-clients yes");
        /* Again and again: what it says comes by itself with TLS 1.3, and races with what we send. */
        for (int tries = 0; tries < 20; tries++) {
            use_url(place, TLS, place->server.port, certificates.ca);
            int r = try_open(place, TEN_REDIS_LEASES, OPEN_MS);
            assert_true(r == TENURE_E_DENIED || (i == 1 && r == TENURE_E_UNREACHABLE));
            expect_said(place, "cert_file and key_file name one");
            expect_client(place, "stranger", TENURE_E_DENIED, "our certificate");
        }
        expect_client(place, "client", TENURE_OK, "");
        expect_works(place);
    }
}

TLS_CASE(certificates_that_cannot_be_used_are_told) {
    struct link_place *place = *state;
    char file[300];
    start_tls(place, "server", NULL, NULL);
    snprintf(file, sizeof file, "%s/empty.crt", certificates.directory);
    fclose(fopen(file, "we"));
    expect_refused(place, TENURE_E_INVALID, "ca_file", "rediss://127.0.0.1:%d?ca_file=%s", place->server.port, file);
    expect_refused(place, TENURE_E_INVALID, "ca_file", "rediss://127.0.0.1:%d?ca_file=/tmp", place->server.port);
    expect_refused(place, TENURE_E_INVALID, "cert_file is not",
                   "rediss://127.0.0.1:%d?ca_file=%s&cert_file=%s&key_file=%s", place->server.port, certificates.ca,
                   file, file);
    expect_refused(place, TENURE_E_INVALID, "key_file is not",
                   "rediss://127.0.0.1:%d?ca_file=%s&cert_file=%s/client.crt&key_file=%s/server.key",
                   place->server.port, certificates.ca, certificates.directory, certificates.directory);
}

/* Nobody is asked at the terminal. */
TLS_CASE(a_key_with_a_pass_phrase_is_refused_at_once) {
    struct link_place *place = *state;
    start_tls(place, "server", NULL, NULL);
    uint64_t start_ms = boot_ms();
    expect_client(place, "locked", TENURE_E_INVALID, "without a pass phrase");
    assert_in_range(boot_ms() - start_ms, 0, SLACK_MS);
}

static void copy_file(const char *from, const char *to) {
    char command[700];
    snprintf(command, sizeof command, "cp %s/%s %s/%s", certificates.directory, from, certificates.directory, to);
    assert_int_equal(system(command), 0);
}

TLS_CASE(certificates_can_be_replaced_while_a_program_runs) {
    struct link_place *place = *state;
    const struct certificate_wish moved = {
        .name = "moved", .alternatives = "IP:127.0.0.1", .authority = "other-ca", .ends_s = 86400};
    assert_int_equal(certificate_make(&certificates, &moved), 0);
    copy_file("ca.crt", "current.crt");
    start_tls(place, "server", NULL, NULL);
    must_open(place, "rediss://127.0.0.1:%d?ca_file=%s/current.crt", place->server.port, certificates.directory);
    /* Somebody writes the file at this moment. */
    char path[200];
    snprintf(path, sizeof path, "%s/current.crt", certificates.directory);
    assert_int_equal(truncate(path, 100), 0);
    must_reopen(place);
    int port = place->server.port;
    start_tls(place, "moved", NULL, NULL);
    place->settings->hosts[0].port = (uint16_t)place->server.port;
    assert_int_not_equal(place->server.port, port);
    assert_int_equal(try_open(place, TEN_REDIS_LEASES, OPEN_MS), TENURE_E_UNREACHABLE);
    copy_file("other-ca.crt", "current.crt");
    must_reopen(place);
    expect_works(place);
}

/* ---- one side without TLS */

TLS_CASE(nothing_is_sent_in_clear_to_a_server_without_tls) {
    struct link_place *place = *state;
    struct peer peer = {.fd = -1};
    peer_start(&peer, peer_is_silent);
    use_url(place, "rediss://me:" SECRET "@127.0.0.1:%d?ca_file=%s", peer.port, certificates.ca);
    assert_int_equal(try_open(place, TEN_REDIS_LEASES, 150), TENURE_E_TIMEOUT);
    expect_said(place, "did not answer the TLS handshake in time");
    peer_stop(&peer);
    size_t heard = atomic_load(&peer.heard_size);
    assert_true(heard > 100);
    assert_int_equal((unsigned char)peer.heard[0], 0x16);
    assert_null(memmem(peer.heard, heard, SECRET, strlen(SECRET)));
    assert_null(memmem(peer.heard, heard, "AUTH", 4));
    /* A real one, which answers in its own way. */
    assert_int_equal(redis_server_start(&place->server, NULL), 0);
    use_url(place, "rediss://:" SECRET "@127.0.0.1:%d?ca_file=%s", place->server.port, certificates.ca);
    for (int i = 0; i < 4; i++) {
        assert_true(try_open(place, TEN_REDIS_LEASES, 150) < 0);
        expect_said(place, "redis://");
    }
}

TLS_CASE(somebody_who_answers_in_clear_is_told) {
    static const char *const answers[] = {"-ERR unknown command\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"};
    for (size_t i = 0; i < TEN_COUNT(answers); i++) {
        struct link_place *place = *state;
        struct peer peer = {.say = answers[i], .say_size = strlen(answers[i])};
        peer_start(&peer, peer_says);
        use_url(place, "rediss://:" SECRET "@127.0.0.1:%d?ca_file=%s", peer.port, certificates.ca);
        assert_int_equal(try_open(place, TEN_REDIS_LEASES, OPEN_MS), TENURE_E_UNREACHABLE);
        peer_stop(&peer);
        expect_said(place, "a server without TLS? that is redis://");
    }
}

TLS_CASE(a_server_with_tls_behind_a_plain_url_is_told) {
    struct link_place *place = *state;
    start_tls(place, "server", NULL, NULL);
    use_url(place, "redis://127.0.0.1:%d", place->server.port);
    for (int i = 0; i < 10; i++) {
        assert_true(try_open(place, TEN_REDIS_LEASES, OPEN_MS) < 0);
        expect_said(place, "rediss://");
    }
}

/* ---- conversations that are cut short */

TLS_CASE(a_handshake_that_stops_anywhere_has_an_end) {
    struct link_place *place = *state;
    struct peer peer = {.fd = -1};
    start_tls(place, "server", NULL, NULL);
    peer_start_relay(&peer, place->server.port);
    must_open(place, TLS, peer.port, certificates.ca);
    close_link(place);
    size_t whole = atomic_load(&peer.passed) - 64; /* some numbers, and with them records, become shorter */
    atomic_store(&peer.then, PEER_STALL);
    for (size_t pass = 1; pass < whole; pass += whole / 12) {
        atomic_store(&peer.pass, pass);
        assert_int_equal(try_open(place, TEN_REDIS_LEASES, 60), TENURE_E_TIMEOUT);
    }
    for (size_t pass = 1; pass < whole; pass += pass < 200 ? 3 : 41) {
        atomic_store(&peer.pass, pass);
        atomic_store(&peer.then, pass % 2 ? PEER_CLOSE : PEER_RESET);
        int r = try_open(place, TEN_REDIS_LEASES, OPEN_MS);
        if (r != TENURE_E_UNREACHABLE)
            fail_msg("after %zu of %zu bytes: %s: %s", pass, whole, tenure_error_name(r), place->error.message);
    }
    peer_stop(&peer);
}

TLS_CASE(a_session_is_fresh_until_its_server_ends_it) {
    struct link_place *place = *state;
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    for (size_t i = 0; i < TEN_COUNT(versions); i++) {
        start_tls(place, "server", "--tls-protocols", versions[i]);
        open_tls(place);
        assert_true(ten_redis_link_is_fresh(place->link));
        expect_works(place);
        assert_true(ten_redis_link_is_fresh(place->link));
        /* With a goodbye, which are bytes like any other... */
        tell_server(&place->server, "CLIENT KILL TYPE normal SKIPME yes");
        assert_false(ten_redis_link_is_fresh(place->link));
        must_reopen(place);
        /* ...and without. */
        redis_server_kill(&place->server);
        assert_false(ten_redis_link_is_fresh(place->link));
        close_link(place);
    }
}

TLS_CASE(large_pipelines_by_tls_do_not_wait_for_each_other) {
    struct link_place *place = *state;
    static char data[100000];
    start_tls(place, "server", NULL, NULL);
    open_tls(place);
    for (unsigned i = 0; i < 300; i++) {
        memset(data, (int)('a' + i % 26), sizeof data);
        assert_int_equal(ten_redis_link_send(place->link, 2, (const char *const[]){"ECHO", data},
                                             (const size_t[]){4, sizeof data - i}, &place->error),
                         TENURE_OK);
    }
    for (unsigned i = 0; i < 300; i++) {
        redisReply *reply = NULL;
        int r = ten_redis_link_receive(place->link, boot_ms() + 20000, &reply, &place->error);
        if (r < 0)
            fail_msg("reply %u: %s", i, place->error.message);
        assert_int_equal(reply->len, sizeof data - i);
        assert_int_equal(reply->str[reply->len - 1], 'a' + i % 26);
        freeReplyObject(reply);
    }
    assert_true(ten_redis_link_is_fresh(place->link));
}

TLS_CASE(writing_to_a_session_that_is_gone_raises_no_signal) {
    struct link_place *place = *state;
    for (int how = PEER_CLOSE; how <= PEER_RESET; how++) {
        struct peer peer = {.then = how};
        start_tls(place, "server", NULL, NULL);
        peer_start_relay(&peer, place->server.port);
        must_open(place, TLS, peer.port, certificates.ca);
        redis_server_kill(&place->server);
        pause_ms(5);
        int r = TENURE_OK;
        for (int i = 0; i < 10; i++) {
            (void)ten_redis_link_send(place->link, 1, (const char *const[]){"PING"}, (const size_t[]){4}, NULL);
            r = ten_redis_link_flush(place->link, boot_ms() + OPEN_MS, &place->error);
            pause_ms(1);
        }
        assert_int_equal(r, TENURE_E_UNREACHABLE);
        close_link(place);
        peer_stop(&peer);
    }
}

TLS_CASE(closing_in_a_child_says_no_goodbye_for_the_parent) {
    struct link_place *place = *state;
    struct peer peer = {.fd = -1};
    start_tls(place, "server", NULL, NULL);
    peer_start_relay(&peer, place->server.port);
    must_open(place, TLS, peer.port, certificates.ca);
    expect_works(place);
    size_t heard = atomic_load(&peer.heard_size);
    pid_t child = fork();
    if (child == 0) {
        ten_redis_link_close(place->link);
        ten_redis_settings_free(place->settings);
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

TLS_CASE(every_allocation_of_a_session_that_fails_is_told) {
    struct link_place *place = *state;
    start_tls(place, "server", NULL, NULL);
    use_url(place, TLS, place->server.port, certificates.ca);
    fail_allocations(place, 2);
    expect_works(place);
}
