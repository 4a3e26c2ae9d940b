/*
 * Hosts by their names, and a resolver that fails or hangs: it is given a part of the time, the last good answer serves
 * instead, and a store whose connection is alive does not notice.
 */
#include "conformance/redis/link_place.h"
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

LINK_CASE(a_host_is_reached_by_its_name_and_by_any_of_its_addresses) {
    struct link_place *place = *state;
    must_open(place, "redis://redis.test:%d", place->server.port);
    expect_works(place);
    must_open(place, "redis://two.test:%d", place->server.port);
    expect_works(place);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", place->server.port);
    assert_string_equal(ten_redis_link_server(place->link)->address, address);
}

LINK_CASE_ALONE(a_resolver_that_fails_or_hangs_is_told_in_time) {
    struct link_place *place = *state;
    expect_refused(place, TENURE_E_UNREACHABLE, "cannot find the host no.test", "redis://:" SECRET "@no.test:1");
    atomic_store(&names_hang, true);
    use_url(place, "redis://:" SECRET "@redis.test:1");
    assert_int_equal(try_open(place, TEN_REDIS_LEASES, 100), TENURE_E_TIMEOUT);
    expect_said(place, "redis.test");
}

LINK_CASE(the_last_good_answer_serves_while_the_resolver_does_not) {
    struct link_place *place = *state;
    must_open(place, "redis://redis.test:%d", place->server.port);
    atomic_store(&names_fail, true);
    must_reopen(place);
    atomic_store(&names_hang, true);
    atomic_store(&names_asked, 0);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t start_ms = boot_ms();
        assert_int_equal(try_open(place, TEN_REDIS_LEASES, 1600), TENURE_OK);
        /* A quarter of the time for the resolver; it is not asked any more once it is known to hang. */
        assert_true(i >= 4 || boot_ms() - start_ms >= 399);
        unsigned expected = i < 4 ? i + 1 : 4; /* each asks in a thread of its own, which may begin late */
        for (start_ms = boot_ms(); atomic_load(&names_asked) < expected && boot_ms() - start_ms < SLACK_MS;)
            usleep(1000);
        assert_int_equal(atomic_load(&names_asked), expected);
    }
    expect_works(place);
}

LINK_CASE(a_second_connection_asks_nobody) {
    struct link_place *place = *state;
    must_open(place, "redis://redis.test:%d", place->server.port);
    atomic_store(&names_hang, true);
    atomic_store(&names_asked, 0);
    ten_redis_link *beside = NULL;
    assert_int_equal(
        ten_redis_link_open_beside(place->link, place->settings, boot_ms() + SLACK_MS, &beside, &place->error),
        TENURE_OK);
    ten_redis_link_close(beside);
    assert_int_equal(atomic_load(&names_asked), 0);
}

/* ---- a store */

static size_t subscribers(const struct redis_server *server, const char *ns) {
    redisContext *context = redisConnectUnix(server->socket);
    redisReply *reply = redisCommand(context, "PUBSUB CHANNELS *%s*", ns);
    assert_non_null(reply);
    size_t count = reply->elements;
    freeReplyObject(reply);
    redisFree(context);
    return count;
}

static void see_changes(const struct place *place, uint64_t *cursor) {
    struct seen seen;
    place->store->ops->watch_clear(place->store);
    read_changes(place->store, place->ns, cursor, &seen);
}

LINK_CASE(a_store_with_a_live_connection_does_not_notice_a_resolver_that_hangs) {
    struct link_place *link = *state;
    struct place place = {.other = NULL};
    char url[200];
    int fd;
    snprintf(url, sizeof url, "redis://redis.test:%d/0?fresh=1", link->server.port);
    place.store = open_store(url);
    make_namespace(place.ns);
    uint64_t token = must_acquire(&place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place.store, place.ns);
    assert_int_equal(place.store->ops->watch(place.store, place.ns, &fd), TENURE_OK);
    assert_int_equal(subscribers(&link->server, place.ns), 1);
    atomic_store(&names_hang, true);
    atomic_store(&names_asked, 0);
    tell_server(&link->server, "CLIENT KILL TYPE pubsub");
    assert_int_equal(subscribers(&link->server, place.ns), 0);
    uint64_t longest_ms = 0;
    for (uint64_t end_ms = boot_ms() + OPEN_MS; subscribers(&link->server, place.ns) == 0 && boot_ms() < end_ms;) {
        uint64_t start_ms = boot_ms();
        expect_outcome(renew(&place, "t", "a", token, LONG_MS), TEN_OK);
        see_changes(&place, &cursor);
        longest_ms = ten_max_u64(longest_ms, boot_ms() - start_ms);
        sleep_ms(5);
    }
    assert_int_equal(subscribers(&link->server, place.ns), 1);
    assert_in_range(longest_ms, 0, SLACK_MS);
    assert_int_equal(atomic_load(&names_asked), 0);
    /* With the connection cut, the address that is known serves. */
    tell_server(&link->server, "CLIENT KILL TYPE normal SKIPME yes");
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = place.ns,
                 .target = "t",
                 .holder = "a",
                 .token = token,
                 .ttl_ms = LONG_MS};
    ten_result result;
    uint64_t start_ms = boot_ms();
    assert_int_equal(ten_store_apply(place.store, &op, &result, 1, 800), TENURE_OK);
    assert_in_range(boot_ms() - start_ms, 200 - ROUNDING_MS, 800 + SLACK_MS);
    expect_outcome(result, TEN_OK);
    ten_store_close(place.store);
}
