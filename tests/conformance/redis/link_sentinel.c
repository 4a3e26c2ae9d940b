/*
 * Masters that Sentinels name: real Sentinels and a real failover, and Sentinels that are dead, silent, behind the
 * times, or none.
 */
#include "conformance/redis/link_place.h"
#include "conformance/suite.h"
#include "lib/freeze.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL_MS      UINT64_C(3000)  /* a failover takes a second or so on a busy machine */
#define HANG_MS     UINT64_C(60000) /* ends a case that hangs */
#define FAILOVER_MS UINT64_C(10000) /* a failover that has not come by then was given up */

struct sentinel_place {
    struct link_place link; /* its server is the master */
    struct redis_server replicas[2];
    struct redis_server sentinel;
};

static int sentinel_setup(void **state) {
    struct sentinel_place *place = calloc(1, sizeof *place);
    void *link = NULL;
    if (!place || link_setup(&link) != 0)
        return -1;
    place->link = *(struct link_place *)link;
    free(link);
    *state = place;
    return 0;
}

static int sentinel_teardown(void **state) {
    struct sentinel_place *place = *state;
    struct link_place *link = malloc(sizeof *link);
    redis_server_remove(&place->replicas[0]);
    redis_server_remove(&place->replicas[1]);
    redis_server_remove(&place->sentinel);
    *link = place->link;
    free(place);
    *state = link;
    return link_teardown(state);
}

#define SENTINEL_CASE(name) TEST_WITH(name, sentinel_setup, sentinel_teardown)

/* Whether a server's answer to the command has the text. */
static bool says(const struct redis_server *server, const char *command, const char *text) {
    redisContext *context = redisConnectUnix(server->socket);
    redisReply *reply = context->err ? NULL : redisCommand(context, command);
    bool found = reply && reply->str && strstr(reply->str, text);
    if (reply)
        freeReplyObject(reply);
    redisFree(context);
    return found;
}

static void until_says(const struct redis_server *server, const char *command, const char *text) {
    for (uint64_t end_ms = boot_ms() + HANG_MS; !says(server, command, text); pause_ms(5))
        if (boot_ms() > end_ms)
            fail_msg("%s does not say %s", command, text);
}

static void start_replicas(struct sentinel_place *place, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(redis_server_start(&place->replicas[i], NULL), 0);
        tell_server(&place->replicas[i], "REPLICAOF 127.0.0.1 %d", place->link.server.port);
    }
    for (size_t i = 0; i < count; i++)
        until_says(&place->replicas[i], "INFO replication", "master_link_status:up");
    /* The master believes it a second later. */
    tell_server(&place->link.server, "SET begin 1");
    tell_server(&place->link.server, "WAIT %d 5000", (int)count);
}

static void start_sentinel(struct sentinel_place *place, const char *more) {
    char lines[600];
    snprintf(lines, sizeof lines,
             "sentinel monitor mymaster 127.0.0.1 %d 1\nsentinel down-after-milliseconds mymaster 200\n"
             "sentinel failover-timeout mymaster 2000\nsentinel parallel-syncs mymaster 2\n%s",
             place->link.server.port, more);
    assert_int_equal(redis_sentinel_start(&place->sentinel, lines), 0);
}

/* The Sentinel knows the replicas; it looks often, so that tests need not wait. */
static void hurry_sentinel(struct sentinel_place *place, size_t replicas) {
    char text[40];
    tell_server(&place->sentinel, "SENTINEL DEBUG INFO-PERIOD 100 ASK-PERIOD 50 PUBLISH-PERIOD 100");
    snprintf(text, sizeof text, "slaves=%zu,", replicas);
    until_says(&place->sentinel, "INFO sentinel", text);
}

static void expect_master(struct sentinel_place *place, const struct redis_server *server) {
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", server->port);
    assert_string_equal(ten_redis_link_server(place->link.link)->address, address);
}

/* ---- who is asked */

SENTINEL_CASE(a_sentinel_names_the_master) {
    struct sentinel_place *place = *state;
    start_sentinel(place, "");
    must_open(&place->link, "redis+sentinel://127.0.0.1:%d/mymaster/2", place->sentinel.port);
    expect_master(place, &place->link.server);
    assert_string_equal(ask(&place->link, "SET", "here", "2", NULL), "OK");
    must_open(&place->link, "redis://127.0.0.1:%d/2", place->link.server.port);
    assert_string_equal(ask(&place->link, "GET", "here", NULL), "2");
    use_url(&place->link, "redis+sentinel://127.0.0.1:%d/mymaster", place->sentinel.port);
    fail_allocations(&place->link, 3);
    expect_works(&place->link);
    expect_refused(&place->link, TENURE_E_UNREACHABLE, "has no master named 'other'",
                   "redis+sentinel://127.0.0.1:%d/other", place->sentinel.port);
}

SENTINEL_CASE(a_dead_or_silent_sentinel_is_passed_over) {
    struct sentinel_place *place = *state;
    struct peer silent = {.fd = -1};
    struct peer garbage = {.say = "*2\r\n$1\r\nx\r\n:7\r\n", .say_size = 16};
    start_sentinel(place, "");
    peer_start(&silent, peer_is_silent);
    peer_start(&garbage, peer_says);
    use_url(&place->link, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d,no.test,127.0.0.1:%d,127.0.0.1:%d/mymaster",
            silent.port, garbage.port, place->sentinel.port);
    assert_int_equal(try_open(&place->link, TEN_REDIS_LEASES, 1500), TENURE_OK);
    expect_master(place, &place->link.server);
    /* The one that answered is asked first the next time. */
    uint64_t start_ms = boot_ms();
    must_reopen(&place->link);
    assert_in_range(boot_ms() - start_ms, 0, 400 + late_ms());
    peer_stop(&silent);
    peer_stop(&garbage);
}

SENTINEL_CASE(without_a_sentinel_the_one_that_is_to_be_mended_is_told) {
    struct sentinel_place *place = *state;
    expect_refused(&place->link, TENURE_E_UNREACHABLE, "cannot reach the Sentinel 127.0.0.1:2: Connection refused",
                   "redis+sentinel://:" SECRET "@127.0.0.1:1,127.0.0.1:2/mymaster");
    /* A plain Redis in its place. */
    expect_refused(&place->link, TENURE_E_STORE,
                   "the Sentinel 127.0.0.1:", "redis+sentinel://:" SECRET "@127.0.0.1:%d,127.0.0.1:1/mymaster",
                   place->link.server.port);
    expect_said(&place->link, "unknown command");
}

SENTINEL_CASE(a_sentinel_that_wants_a_password_is_given_ours) {
    struct sentinel_place *place = *state;
    start_sentinel(place, "requirepass " SECRET "\n");
    expect_refused(&place->link, TENURE_E_DENIED, "the Sentinel 127.0.0.1:", "redis+sentinel://127.0.0.1:%d/mymaster",
                   place->sentinel.port);
    expect_refused(&place->link, TENURE_E_DENIED, "refused AUTH", "redis+sentinel://:x" SECRET "@127.0.0.1:%d/mymaster",
                   place->sentinel.port);
    tell_server(&place->link.server, "CONFIG SET requirepass " SECRET);
    must_open(&place->link, "redis+sentinel://:" SECRET "@127.0.0.1:%d/mymaster", place->sentinel.port);
    expect_works(&place->link);
}

SENTINEL_CASE(a_sentinel_that_does_not_ask_is_not_told_the_password) {
    struct sentinel_place *place = *state;
    char answer[100];
    char port[16];
    struct peer peer = {.say = answer};
    snprintf(port, sizeof port, "%d", place->link.server.port);
    peer.say_size =
        (size_t)snprintf(answer, sizeof answer, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    peer_start(&peer, peer_says);
    tell_server(&place->link.server, "CONFIG SET requirepass " SECRET);
    must_open(&place->link, "redis+sentinel://:" SECRET "@127.0.0.1:%d/mymaster", peer.port);
    peer_stop(&peer);
    assert_null(memmem(peer.heard, atomic_load(&peer.heard_size), SECRET, strlen(SECRET)));
}

/* ---- Sentinels that are behind the times */

static void start_naming(struct peer *peer, char answer[100], int port) {
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    *peer = (struct peer){.say = answer};
    peer->say_size = (size_t)snprintf(answer, 100, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(text), text);
    peer_start(peer, peer_says);
}

SENTINEL_CASE(a_sentinel_that_names_a_replica_or_a_dead_master_is_passed_over) {
    struct sentinel_place *place = *state;
    static struct peer peers[4];
    char answers[4][100];
    struct redis_server stopped;
    assert_int_equal(redis_server_start(&stopped, NULL), 0);
    start_replicas(place, 1);
    start_naming(&peers[0], answers[0], place->replicas[0].port);
    start_naming(&peers[1], answers[1], 1);
    start_naming(&peers[2], answers[2], stopped.port);
    start_naming(&peers[3], answers[3], place->link.server.port);
    assert_int_equal(freeze_process(stopped.pid), 0);
    expect_refused(&place->link, TENURE_E_UNREACHABLE, "but it is a replica: a failover is under way",
                   "redis+sentinel://127.0.0.1:%d/mymaster", peers[0].port);
    use_url(&place->link, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/mymaster",
            peers[0].port, peers[1].port, peers[2].port, peers[3].port);
    int r = try_open(&place->link, TEN_REDIS_LEASES, 1000);
    redis_server_remove(&stopped);
    for (size_t i = 0; i < TEN_COUNT(peers); i++)
        peer_stop(&peers[i]);
    if (r < 0)
        fail_msg("%s", place->link.error.message);
    expect_master(place, &place->link.server);
}

/* ---- failovers */

SENTINEL_CASE(after_a_failover_the_new_master_is_found) {
    struct sentinel_place *place = *state;
    start_replicas(place, 1);
    start_sentinel(place, "");
    hurry_sentinel(place, 1);
    must_open(&place->link, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d/mymaster", place->sentinel.port);
    expect_master(place, &place->link.server);
    redis_server_kill(&place->link.server);
    assert_false(ten_redis_link_is_fresh(place->link.link));
    int r = TENURE_E_UNREACHABLE;
    for (uint64_t end_ms = boot_ms() + HANG_MS; r < 0 && boot_ms() < end_ms; pause_ms(10)) {
        r = try_open(&place->link, TEN_REDIS_LEASES, 500);
        assert_true(r == TENURE_OK || r == TENURE_E_UNREACHABLE || r == TENURE_E_TIMEOUT);
    }
    assert_int_equal(r, TENURE_OK);
    expect_master(place, &place->replicas[0]);
    assert_string_equal(ask(&place->link, "SET", "key", "value", NULL), "OK");
}

static ten_store *open_by_sentinel(const struct sentinel_place *place, const char *options, const char *more) {
    char url[300];
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/mymaster?timeout=2s%s%s", place->sentinel.port, options,
             more);
    return open_store(url);
}

static ten_op renewal(const char *ns, uint64_t token) {
    return (ten_op){
        .kind = TEN_OP_RENEW, .namespace_name = ns, .target = "t", .holder = "a", .token = token, .ttl_ms = TTL_MS};
}

static void lose_master(struct sentinel_place *place, struct place *store, uint64_t token) {
    (void)store;
    (void)token;
    redis_server_kill(&place->link.server);
}

/* The old master lives on as a replica; the holder renews all the time. */
static void move_master(struct sentinel_place *place, struct place *store, uint64_t token) {
    ten_op op = renewal(store->ns, token);
    ten_result result;
    uint64_t ask_ms = 0;
    for (uint64_t end_ms = boot_ms() + HANG_MS; !says(&place->link.server, "INFO replication", "role:slave");) {
        (void)ten_store_apply(store->store, &op, &result, 1, 500);
        /* It says no until it has looked at the replica, and may give a failover up that takes long. */
        if (boot_ms() >= ask_ms && says(&place->sentinel, "SENTINEL FAILOVER mymaster", "OK"))
            ask_ms = boot_ms() + FAILOVER_MS;
        assert_true(boot_ms() < end_ms);
        pause_ms(20);
    }
}

/* A sentinel closes connections while it arranges the servers anew, at any time after the failover: what fails is asked
 * again, as a caller would. */
static ten_result apply_again(const struct place *place, ten_op op) {
    ten_result result = {.outcome = TEN_ERROR};
    for (uint64_t end_ms = boot_ms() + HANG_MS; result.outcome == TEN_ERROR && boot_ms() < end_ms; pause_ms(10))
        (void)ten_store_apply(place->store, &op, &result, 1, 500);
    if (result.outcome == TEN_ERROR)
        fail_msg("%s", place->store->error.message);
    return result;
}

static ten_op acquisition(const char *ns, const char *target) {
    return (ten_op){
        .kind = TEN_OP_ACQUIRE, .namespace_name = ns, .target = target, .holder = "newcomer", .ttl_ms = TTL_MS};
}

/* The holder of "t", who renews beside whatever newcomers do: while the servers are arranged anew, their question may
 * remain without an answer for longer than its TTL. */
struct holder {
    const struct place *place;
    uint64_t token;
    uint64_t sent_ms; /* its last renewal that counts; 0: none */
    bool late;        /* there was none for a TTL, which is not the store's fault */
};

static void holder_renews(struct holder *holder) {
    ten_op op = renewal(holder->place->ns, holder->token);
    ten_result result = {.outcome = TEN_ERROR};
    uint64_t sent_ms = boot_ms();
    (void)ten_store_apply(holder->place->store, &op, &result, 1, 500);
    if (result.outcome == TEN_ERROR)
        return;
    holder->late |= result.outcome == TEN_LOST && holder->sent_ms > 0 && boot_ms() - holder->sent_ms >= TTL_MS;
    if (holder->late)
        return;
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, holder->token);
    holder->sent_ms = sent_ms;
}

static ten_result ask_beside(struct holder *holder, ten_op op) {
    ten_result result = {.outcome = TEN_ERROR};
    for (uint64_t end_ms = boot_ms() + HANG_MS; result.outcome == TEN_ERROR && boot_ms() < end_ms; pause_ms(10)) {
        holder_renews(holder);
        (void)ten_store_apply(holder->place->store, &op, &result, 1, 500);
    }
    if (result.outcome == TEN_ERROR)
        fail_msg("%s", holder->place->store->error.message);
    return result;
}

/* The holder goes on as soon as there is a master, newcomers wait for one TTL, and the next token is higher. */
static void expect_survival_of_a_failover(struct sentinel_place *place, size_t replicas, const char *options,
                                          void (*fail_over)(struct sentinel_place *, struct place *, uint64_t)) {
    struct place store = {.other = NULL};
    start_replicas(place, replicas);
    start_sentinel(place, "");
    hurry_sentinel(place, replicas);
    make_namespace(store.ns);
    /* `fresh` is for the first start: a failover could bring a server that has not heard of us yet. */
    store.store = open_by_sentinel(place, options, "&fresh=1");
    uint64_t token = must_acquire(&store, "t", "a", TTL_MS);
    ten_store_close(store.store);
    store.store = open_by_sentinel(place, options, "");
    expect_outcome(renew(&store, "t", "a", token, TTL_MS), TEN_OK);
    fail_over(place, &store, token);
    struct holder holder = {.place = &store, .token = token};
    for (uint64_t end_ms = boot_ms() + HANG_MS; holder.sent_ms == 0; pause_ms(10)) {
        holder_renews(&holder);
        assert_true(boot_ms() < end_ms);
    }
    ten_result refused = ask_beside(&holder, acquisition(store.ns, "t"));
    if (!holder.late)
        expect_holder(refused, "a");
    ten_result newcomer = {.outcome = TEN_HELD};
    for (uint64_t start_ms = boot_ms(); newcomer.outcome == TEN_HELD && boot_ms() - start_ms < 3 * TTL_MS + late_ms();
         pause_ms(50)) {
        newcomer = ask_beside(&holder, acquisition(store.ns, "u"));
        assert_true(newcomer.outcome == TEN_OK || newcomer.recovering);
    }
    expect_outcome(newcomer, TEN_OK);
    ten_op op = renewal(store.ns, token);
    op.kind = TEN_OP_RELEASE;
    enum ten_outcome released = apply_again(&store, op).outcome;
    assert_true(released == TEN_OK || released == TEN_LOST); /* lost: an answer got lost, and it was asked again */
    assert_true(apply_again(&store, acquisition(store.ns, "t")).token > token);
    ten_store_close(store.store);
}

SENTINEL_CASE(a_store_survives_a_failover) {
    expect_survival_of_a_failover(*state, 1, "", lose_master);
}

SENTINEL_CASE(a_store_survives_a_failover_of_a_living_master) {
    expect_survival_of_a_failover(*state, 1, "", move_master);
}

SENTINEL_CASE(a_store_that_waits_for_replicas_survives_a_failover) {
    expect_survival_of_a_failover(*state, 2, "&wait_replicas=1", lose_master);
}
