/*
 * What is etcd's own: etcd leases that are shared, what is done to keys by hand, lost
 * replies, and garbage of others. A change of leader is test_etcd_term.c; the contract itself is the conformance
 * suite's.
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL_MS  UINT64_C(2000)
#define LATE_MS UINT64_C(1500) /* by how much etcd may be late */
#define BUSY_MS UINT64_C(1000) /* and a busy machine */

/* From `since_ms` on nobody renewed the target: it ends, not before its TTL and not long after. */
static void expect_end(const struct place *place, const char *target, uint64_t since_ms) {
    struct place rival = elsewhere_of(place);
    ten_result result = acquire_within(&rival, target, "rival", TTL_MS, TTL_MS + LATE_MS + BUSY_MS);
    expect_outcome(result, TEN_OK);
    if (now_ms() - since_ms < TTL_MS)
        fail_msg("%s was taken after %llu ms", target, (unsigned long long)(now_ms() - since_ms));
}

/* ---- pins */

static uint64_t two_hours_ahead(void *arg) {
    (void)arg;
    return ten_wall_ms(&ten_system_clock) + UINT64_C(7200000);
}

static int take_pin(const ten_row *row, void *userdata) {
    *(ten_pin *)userdata = row->pin;
    return 0;
}

static ten_pin pin_of(const struct place *place, ten_store *store) {
    const char *id = "t";
    ten_pin found = {0};
    assert_int_equal(store->ops->read_targets(store, place->ns, &id, 1, take_pin, &found, CALL_MS), TENURE_OK);
    return found;
}

/* Hosts whose clocks differ would plan differently, and hand a pinned target to and fro. */
ETCD_CASE(a_pin_lasts_as_long_for_a_host_whose_clock_is_two_hours_ahead) {
    const struct place *place = *state;
    ten_clock ahead = ten_system_clock;
    ahead.wall_ms = two_hours_ahead;
    const ten_clock *own = place->other->clock;
    place->other->clock = &ahead;
    for (unsigned i = 0; i < 2; i++) { /* who pins, and who reads */
        ten_store *writer = i ? place->other : place->store;
        ten_store *reader = i ? place->store : place->other;
        ten_target_edit edits[] = {
            {.action = TEN_TARGET_PUT, .target = {.id = "t", .exec = "true"}},
            {.action = TEN_TARGET_PIN, .target = {.id = "t"}, .pin = {.instance = "b", .left_ms = 3600000}},
        };
        assert_int_equal(writer->ops->edit_targets(writer, place->ns, edits, 2, CALL_MS), TENURE_OK);
        assert_in_range(pin_of(place, writer).left_ms, 3000000, 3600000);
        assert_in_range(pin_of(place, reader).left_ms, 3000000, 3600000);
    }
    place->other->clock = own;
}

/* ---- groups */

ETCD_CASE(the_holder_releases_with_one_request) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t before = etcd_calls_served();
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    assert_int_equal(etcd_calls_served() - before, 1);
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
    before = etcd_calls_served();
    assert_true(must_acquire(place, "t", "a", LONG_MS) > token);
    assert_int_equal(etcd_calls_served() - before, 2); /* the etcd lease, and the commit */
}

ETCD_CASE(renewing_a_thousand_leases_of_one_holder_is_two_requests) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 1000, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0); /* all of them are in one group now */
    uint64_t created = etcd_key_fact(place, "t-999", "mod_revision");
    uint64_t mark = etcd_fact(place, "mark/a", "mod_revision");
    assert_true(mark > 0);
    etcd_wire.sent = 0;
    uint64_t before = etcd_calls_served();
    for (int i = 0; i < 10; i++)
        assert_int_equal(many_renew(place, many), 0);
    uint64_t calls = etcd_calls_served() - before;
    if (calls > 20 || calls < 10)
        fail_msg("10 renewals of 1,000 leases were %llu requests", (unsigned long long)calls);
    assert_true(etcd_wire.sent < UINT64_C(10) * 20000);                       /* they are not named one by one */
    assert_int_equal(etcd_key_fact(place, "t-999", "mod_revision"), created); /* and nothing was written */
    assert_int_equal(etcd_fact(place, "mark/a", "mod_revision"), mark);
    assert_int_equal(etcd_key_fact(place, "t-0", "lease"), etcd_key_fact(place, "t-999", "lease"));
}

/* A member that is cut off from the others answers what only compares, from what it knows. */
ETCD_CASE(every_comparison_needs_a_quorum) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    etcd_wire.compared = 0;
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK); /* left out the heartbeat: it moves */
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    must_acquire(place, "t", "a", LONG_MS); /* its own */
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    assert_true(etcd_wire.compared >= 3); /* else nothing is tested */
    assert_int_equal(etcd_wire.local, 0);
}

ETCD_CASE(a_lease_that_is_left_out_ends_although_its_neighbours_are_renewed) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 3, "a", TTL_MS);
    assert_int_equal(many_renew(place, many), 0);
    uint64_t since_ms = now_ms();
    assert_int_equal(many_renew(place, many), 0);
    many->count = 2;
    struct place rival = elsewhere_of(place);
    bool taken = false;
    while (!taken && now_ms() - since_ms < TTL_MS + LATE_MS + BUSY_MS) {
        assert_int_equal(many_renew(place, many), 0);
        taken = acquire(&rival, "t-2", "rival", TTL_MS).outcome == TEN_OK;
        assert_true(!taken || now_ms() - since_ms >= TTL_MS);
        sleep_ms(200);
    }
    assert_true(taken);
    assert_int_equal(many_renew(place, many), 0);
    /* And what was left out is lost for its former holder. */
    many->count = 3;
    assert_int_equal(many_renew(place, many), 1);
    expect_outcome(many->results[2], TEN_LOST);
}

ETCD_CASE(a_renewal_by_another_handle_moves_the_lease_there_and_keeps_it) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    struct many *many = many_acquire(place, 2, "a", TTL_MS);
    uint64_t token = many->ops[1].token;
    uint64_t home = etcd_key_fact(place, "t-1", "lease");
    many->count = 1;
    uint64_t until_ms = now_ms() + TTL_MS + LATE_MS + BUSY_MS;
    for (bool first = true; now_ms() < until_ms; first = false) {
        ten_result result = renew(&elsewhere, "t-1", NULL, token, 0); /* by its token alone */
        expect_outcome(result, TEN_OK);
        expect_holder(result, "a");
        if (first)
            assert_true(etcd_key_fact(place, "t-1", "lease") != home);
        assert_int_equal(many_renew(place, many), 0);
        sleep_ms(300);
    }
    /* It comes back to the first handle, and lives by that one's renewals again. */
    many->count = 2;
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many->results[1].token, token);
    uint64_t since_ms = now_ms();
    assert_int_equal(many_renew(place, many), 0);
    expect_end(place, "t-1", since_ms);
}

/* Each of them has a mark. */
ETCD_CASE(a_group_of_targets_that_as_many_others_held_is_one_step) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    static char names[TEN_GROUP_MAX][8];
    ten_op ops[TEN_GROUP_MAX];
    ten_result results[TEN_GROUP_MAX];
    for (size_t i = 0; i < TEN_GROUP_MAX; i++) {
        snprintf(names[i], sizeof names[i], "n-%zu", i);
        must_acquire(place, names[i], names[i], LONG_MS);
        etcd_delete_key(place, names[i]);
        ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                          .namespace_name = place->ns,
                          .target = names[i],
                          .holder = "b",
                          .ttl_ms = LONG_MS,
                          .group = 1};
    }
    assert_int_equal(ten_store_apply(elsewhere.store, ops, results, TEN_GROUP_MAX, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < TEN_GROUP_MAX; i++)
        expect_outcome(results[i], TEN_OK);
}

/* ---- by hand */

static void delete_and_take(const struct place *place, const char *target) {
    struct place rival = elsewhere_of(place);
    etcd_delete_key(place, target);
    must_acquire(&rival, target, "rival", LONG_MS);
}

ETCD_CASE(a_lease_whose_key_was_deleted_and_taken_is_lost) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    delete_and_take(place, "t");
    ten_result result = renew(place, "t", "a", token, LONG_MS);
    expect_outcome(result, TEN_LOST);
    expect_holder(result, "rival");
}

/* Not all of them are compared by each renewal, but each in its turn. */
ETCD_CASE(a_deleted_key_among_three_hundred_is_noticed_within_four_renewals) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    etcd_delete_key(place, "t-217");
    size_t bad = 0;
    for (int i = 0; i < 4 && bad == 0; i++)
        bad = many_renew(place, many);
    assert_int_equal(bad, 1);
    expect_outcome(many->results[217], TEN_LOST);
    assert_int_equal(many_renew(place, many), 1);
}

ETCD_CASE(a_lease_among_three_hundred_that_was_deleted_and_taken_is_lost_at_once) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    static const size_t chosen[] = {0, 150, 299};
    assert_int_equal(many_renew(place, many), 0);
    for (size_t i = 0; i < TEN_COUNT(chosen); i++) {
        delete_and_take(place, many->targets[chosen[i]]);
        assert_int_equal(many_renew(place, many), i + 1);
        for (size_t j = 0; j <= i; j++) {
            expect_outcome(many->results[chosen[j]], TEN_LOST);
            expect_holder(many->results[chosen[j]], "rival");
        }
    }
}

static void delete_and_take_the_first(const struct place *place) {
    delete_and_take(place, "t-0");
}

/* The keep-alive has succeeded, and what it kept alive is another's when it is compared. */
ETCD_CASE(what_is_taken_between_keep_alive_and_comparison_is_lost) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    etcd_wire.place = place;
    etcd_wire.before = delete_and_take_the_first;
    etcd_wire.hook_path = "/v3/kv/txn";
    assert_int_equal(many_renew(place, many), 1);
    assert_int_equal(etcd_wire.hooked, 1);
    expect_outcome(many->results[0], TEN_LOST);
}

static void declare_gone(const struct place *place) {
    ten_op leave = {.kind = TEN_OP_LEAVE, .namespace_name = place->ns, .holder = "dying", .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->other, leave), TEN_LOST);
}

ETCD_CASE(whoever_is_declared_gone_in_between_gets_nothing) {
    const struct place *place = *state;
    etcd_wire.place = place;
    etcd_wire.hook_path = "/v3/lease/grant"; /* after its reading, before its writing */
    etcd_wire.before = declare_gone;
    ten_result result = acquire(place, "t", "dying", LONG_MS);
    assert_int_equal(etcd_wire.hooked, 1);
    expect_outcome(result, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_GONE);
    expect_holder(read_lease(place, "t"), NULL);
}

static void revoke_it(const struct place *place) {
    (void)place;
    (void)etcdctl("lease list | grep -v found | xargs -n1 etcdctl --endpoints=127.0.0.1:%d lease revoke",
                  etcd_member.port);
}

ETCD_CASE(an_etcd_lease_that_is_revoked_by_hand_before_it_is_used_is_replaced) {
    const struct place *place = *state;
    must_acquire(place, "warm", "a", LONG_MS);
    etcd_wire.place = place;
    etcd_wire.before = revoke_it;
    etcd_wire.hook_path = "/v3/kv/txn";
    etcd_wire.hook_body = "requestPut";
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(etcd_wire.hooked, 1);
    assert_true(etcd_key_fact(place, "t", "lease") > 0);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

/* The first term of a successor does not go on with its heartbeat. */
ETCD_CASE(what_a_successor_does_not_confirm_ends_although_it_keeps_its_heartbeat) {
    const struct place *place = *state;
    ten_op beat = {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "b", .ttl_ms = LONG_MS, .weight = 1};
    expect_outcome(apply_one(place->other, beat), TEN_OK);
    ten_op hand = {.kind = TEN_OP_HAND,
                   .namespace_name = place->ns,
                   .target = "t",
                   .holder = "a",
                   .token = must_acquire(place, "t", "a", LONG_MS),
                   .successor = "b",
                   .ttl_ms = TTL_MS};
    uint64_t since_ms = now_ms();
    expect_outcome(apply_one(place->store, hand), TEN_OK);
    expect_outcome(apply_one(place->other, beat), TEN_OK);
    expect_end(place, "t", since_ms);
}

ETCD_CASE(handing_a_thousand_leases_over_to_ten_is_few_requests) {
    const struct place *place = *state;
    static char successors[10][8];
    struct many *many = many_acquire(place, 1000, "a", LONG_MS);
    ten_op beat = {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .ttl_ms = LONG_MS, .weight = 1};
    for (size_t i = 0; i < TEN_COUNT(successors); i++) {
        snprintf(successors[i], sizeof successors[i], "b-%zu", i);
        beat.holder = successors[i];
        expect_outcome(apply_one(place->other, beat), TEN_OK);
    }
    for (size_t i = 0; i < many->count; i++) {
        many->ops[i].kind = TEN_OP_HAND;
        many->ops[i].successor = successors[i % TEN_COUNT(successors)];
    }
    uint64_t before = etcd_calls_served();
    assert_int_equal(ten_store_apply(place->store, many->ops, many->results, many->count, 4 * CALL_MS), TENURE_OK);
    uint64_t calls = etcd_calls_served() - before;
    for (size_t i = 0; i < many->count; i++) {
        expect_outcome(many->results[i], TEN_OK);
        expect_holder(many->results[i], many->ops[i].successor);
        assert_true(many->results[i].token > many->ops[i].token);
    }
    /* One for each hundred leases or so, one or two for each successor, and the feed's. */
    if (calls > 60)
        fail_msg("handing 1,000 leases over was %llu requests", (unsigned long long)calls);
}

ETCD_CASE(a_forced_lease_ends_although_its_holder_renews_the_others) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 3, "a", TTL_MS);
    assert_int_equal(many_renew(place, many), 0);
    struct place elsewhere = elsewhere_of(place);
    uint64_t since_ms = now_ms();
    expect_outcome(force(&elsewhere, "t-1", TEN_OP_FORCE, "me"), TEN_OK);
    bool taken = false;
    while (!taken && now_ms() - since_ms < TTL_MS + 1000 + LATE_MS + BUSY_MS) {
        assert_int_equal(many_renew(place, many), 1);
        expect_outcome(many->results[1], TEN_LOST);
        taken = acquire(&elsewhere, "t-1", "rival", TTL_MS).outcome == TEN_OK;
        sleep_ms(200);
    }
    assert_true(taken);
    assert_int_equal(many_renew(place, many), 1);
}

/* ---- batches */

ETCD_CASE(many_namespaces_are_renewed_in_one_batch) {
    const struct place *place = *state;
    enum { COUNT = 150 };
    static char namespaces[COUNT][TENURE_NAMESPACE_MAX + 1];
    static ten_op ops[COUNT];
    static ten_result results[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(namespaces[i], sizeof namespaces[i], "%.50s-%zu", place->ns, i);
        ops[i] = (ten_op){
            .kind = TEN_OP_ACQUIRE, .namespace_name = namespaces[i], .target = "t", .holder = "a", .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, COUNT, 4 * CALL_MS), TENURE_OK);
    for (size_t i = 0; i < COUNT; i++) {
        expect_outcome(results[i], TEN_OK);
        ops[i].kind = TEN_OP_RENEW;
        ops[i].token = results[i].token;
    }
    (void)etcdctl("del tenure/%s/lease/t", namespaces[COUNT - 1]);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(ten_store_apply(place->store, ops, results, COUNT, 4 * CALL_MS), TENURE_OK);
        for (size_t i = 0; i + 1 < COUNT; i++)
            expect_outcome(results[i], TEN_OK);
    }
    expect_outcome(results[COUNT - 1], TEN_LOST);
}

ETCD_CASE(two_prefixes_do_not_see_each_other) {
    const struct place *place = *state;
    char url[FIXTURE_URL_SIZE];
    etcd_url(url, "/elsewhere");
    struct place apart = {.store = open_store(url)};
    memcpy(apart.ns, place->ns, sizeof apart.ns);
    etcd_url(url, "/tenure/"); /* that is the usual one */
    struct place same = {.store = open_store(url)};
    memcpy(same.ns, place->ns, sizeof same.ns);
    uint64_t cursor = cursor_now(apart.store, apart.ns);
    must_acquire(place, "t", "a", LONG_MS);
    must_acquire(&apart, "t", "b", LONG_MS);
    expect_holder(acquire(&same, "t", "c", LONG_MS), "a");
    struct seen seen;
    read_changes(apart.store, apart.ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.at[0].instance, "b");
    ten_store_close(apart.store);
    ten_store_close(same.store);
}

/* ---- hearing of changes */

static bool is_woken(const struct place *place, int fd, uint64_t within_ms) {
    bool woken = ten_wait_readable(fd, -1, within_ms) > 0;
    place->other->ops->watch_clear(place->other);
    return woken;
}

/* What came since, and only that. */
static void expect_acquired(const struct place *place, uint64_t *cursor, const char *target) {
    struct seen seen;
    read_changes(place->other, place->ns, cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_ACQUIRED);
    assert_string_equal(seen.at[0].target, target);
}

static void compact(void) {
    const char *status = etcdctl("endpoint status -w json");
    const char *revision = strstr(status, "\"revision\":");
    assert_non_null(revision);
    (void)etcdctl("compaction --physical %llu", strtoull(revision + 11, NULL, 10));
}

ETCD_CASE(compaction_under_a_watch_hides_no_change) {
    const struct place *place = *state;
    char target[16];
    int fd;
    uint64_t cursor = cursor_now(place->other, place->ns);
    assert_int_equal(place->other->ops->watch(place->other, place->ns, &fd), TENURE_OK);
    sleep_ms(300);
    for (int i = 0; i < 3; i++) {
        (void)is_woken(place, fd, 0);
        snprintf(target, sizeof target, "t-%d", i);
        must_acquire(place, target, "a", LONG_MS);
        compact();
        assert_true(is_woken(place, fd, 2000));
        expect_acquired(place, &cursor, target);
    }
}

/* The member goes away and comes back, and forgets what it had before: the stream has ended, what came meanwhile is in
 * the feed, and what comes later is heard of. */
ETCD_CASE(a_watch_that_was_ended_goes_on_and_misses_nothing) {
    const struct place *place = *state;
    int fd;
    uint64_t cursor = cursor_now(place->other, place->ns);
    assert_int_equal(place->other->ops->watch(place->other, place->ns, &fd), TENURE_OK);
    sleep_ms(300);
    (void)is_woken(place, fd, 0);
    etcd_restart();
    must_acquire(place, "t-0", "a", LONG_MS);
    compact();
    assert_true(is_woken(place, fd, 3000));
    expect_acquired(place, &cursor, "t-0");
    sleep_ms(1500); /* by now it listens again */
    (void)is_woken(place, fd, 0);
    must_acquire(place, "t-1", "a", LONG_MS);
    assert_true(is_woken(place, fd, 1000));
    expect_acquired(place, &cursor, "t-1");
}

/* ---- garbage of others */

ETCD_CASE(whatever_somebody_put_under_a_lease_key_is_held_by_nobody_else) {
    const struct place *place = *state;
    static const char *const garbage[] = {"''",      "garbage",          "'[1,2]'", "42",
                                          "'\"a\"'", "'{\"holder\":7}'", "'{}'",    "'{\"holder\":\"\"}'"};
    for (size_t i = 0; i < TEN_COUNT(garbage); i++) {
        char target[16];
        snprintf(target, sizeof target, "t-%zu", i);
        (void)etcdctl("put tenure/%s/lease/%s %s", place->ns, target, garbage[i]);
        for (int round = 0; round < 2; round++) {
            ten_result result = acquire(place, target, "a", LONG_MS);
            expect_outcome(result, TEN_HELD);
            assert_non_null(result.holder);
            assert_true(result.remaining_ms >= 1);
        }
        assert_non_null(read_lease(place, target).holder);
        expect_outcome(renew(place, target, "a", read_lease(place, target).token, LONG_MS), TEN_LOST);
        expect_outcome(release(place, target, "a", read_lease(place, target).token), TEN_LOST);
        expect_outcome(force(place, target, TEN_OP_FORCE_NOW, "root"), TEN_OK);
        must_acquire(place, target, "a", LONG_MS);
        etcd_delete_key(place, target);
        must_acquire(place, target, "a", LONG_MS);
    }
}

ETCD_CASE(garbage_in_the_feed_stops_nothing) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    (void)etcdctl("put tenure/%s/feed/garbage garbage", place->ns);
    (void)etcdctl("put tenure/%s/feed/0000000000000001-x '0 0 1 t 1 event=no'", place->ns);
    (void)etcdctl("put tenure/%s/feed/0000000000000001-y '0 0 1 t'", place->ns);
    must_acquire(place, "t", "a", LONG_MS);
    struct place elsewhere = elsewhere_of(place); /* so that this handle reads */
    expect_acquired(&elsewhere, &cursor, "t");
}

/* ---- another version's */

static int ignore_row(const ten_row *row, void *userdata) {
    (void)row, (void)userdata;
    return 0;
}

static int ignore_instance(const ten_instance *instance, void *userdata) {
    (void)instance, (void)userdata;
    return 0;
}

static int ignore_change(const ten_change *change, void *userdata) {
    (void)change, (void)userdata;
    return 0;
}

static void expect_refused(ten_store *store, int r) {
    assert_int_equal(r, TENURE_E_SCHEMA);
    assert_non_null(strstr(store->error.message, "use another namespace, or another prefix"));
}

ETCD_CASE(a_namespace_of_an_earlier_version_is_refused_and_left_as_it_is) {
    const struct place *place = *state;
    ten_store *store = place->other;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    (void)etcdctl("put tenure/%s/epoch '{\"cluster\":\"1\",\"index\":1}'", place->ns);
    char *before =
        strdup(etcdctl("get --prefix tenure/%s/ -w json", place->ns)); /* and the revision of the whole etcd */
    assert_non_null(before);
    ten_op ops[] = {{.kind = TEN_OP_ACQUIRE, .target = "u", .holder = "a", .ttl_ms = LONG_MS},
                    {.kind = TEN_OP_RENEW, .target = "t", .holder = "a", .token = token, .ttl_ms = LONG_MS},
                    {.kind = TEN_OP_RELEASE, .target = "t", .holder = "a", .token = token},
                    {.kind = TEN_OP_ANNOUNCE, .holder = "a", .ttl_ms = LONG_MS, .weight = 1}};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ten_result result;
        ops[i].namespace_name = place->ns;
        expect_refused(store, ten_store_apply(store, &ops[i], &result, 1, CALL_MS));
    }
    uint64_t cursor = TEN_CURSOR_OLDEST;
    ten_query query = {.namespace_name = place->ns, .limit = 10};
    ten_target_edit edit = {.action = TEN_TARGET_PUT, .target = {.id = "t"}};
    ten_forget item = {.id = "u"};
    const char *id = "t";
    expect_refused(store, store->ops->list(store, &query, ignore_row, NULL, CALL_MS));
    expect_refused(store, store->ops->read_targets(store, place->ns, &id, 1, ignore_row, NULL, CALL_MS));
    expect_refused(store, store->ops->list_instances(store, place->ns, ignore_instance, NULL, CALL_MS));
    expect_refused(store, store->ops->changes(store, place->ns, &cursor, 10, ignore_change, NULL, CALL_MS));
    expect_refused(store, store->ops->edit_targets(store, place->ns, &edit, 1, CALL_MS));
    expect_refused(store, store->ops->forget(store, place->ns, &item, 1, CALL_MS));
    assert_string_equal(etcdctl("get --prefix tenure/%s/ -w json", place->ns), before);
    free(before);
}

/* ---- lost replies */

static void expect_lost_reply(const struct place *place, ten_op op) {
    ten_result result;
    unsigned before = etcd_wire.lost;
    int r = ten_store_apply(place->store, &op, &result, 1, CALL_MS);
    assert_int_equal(r, TENURE_E_TIMEOUT);
    assert_int_equal(etcd_wire.lost, before + 1);
    expect_outcome(result, TEN_ERROR);
}

/* Fault 7. */
ETCD_CASE(an_acquire_whose_reply_was_lost_recognises_itself) {
    const struct place *place = *state;
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = LONG_MS};
    must_acquire(place, "warm", "a", LONG_MS);
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = "requestPut";
    expect_lost_reply(place, op);
    uint64_t written = etcd_fact(place, "record/lease/t", "mod_revision");
    assert_true(written > 0); /* else nothing is tested */
    expect_holder(acquire(place, "t", "b", LONG_MS), "a");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(etcd_fact(place, "record/lease/t", "mod_revision"), written);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

/* Fault 6. */
ETCD_CASE(a_renewal_whose_reply_was_lost_can_be_repeated) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = place->ns,
                 .target = "t",
                 .holder = "a",
                 .token = token,
                 .ttl_ms = LONG_MS};
    etcd_wire.lose_path = "/v3/lease/keepalive";
    expect_lost_reply(place, op);
    expect_outcome(apply_one(place->store, op), TEN_OK);
    etcd_wire.lose_path = "/v3/kv/txn";
    expect_lost_reply(place, op);
    expect_outcome(apply_one(place->store, op), TEN_OK);
    op.ttl_ms = LONG_MS / 2; /* this one moves the key */
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = "requestPut";
    expect_lost_reply(place, op);
    ten_result result = apply_one(place->store, op);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, token);
}

/* What was to be read anew has not been: the next renewal must not believe in it. */
ETCD_CASE(a_lease_that_was_taken_is_lost_also_when_the_reply_that_told_it_was_lost) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    delete_and_take(place, "t-50"); /* its turn to be compared is not soon */
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = "{\"compare\":[],\"success\":[{\"requestRange\"";
    assert_int_equal(ten_store_apply(place->store, many->ops, many->results, many->count, CALL_MS), TENURE_E_TIMEOUT);
    assert_int_equal(etcd_wire.lost, 1);
    assert_int_equal(many_renew(place, many), 1);
    expect_outcome(many->results[50], TEN_LOST);
    expect_holder(many->results[50], "rival");
}

TEST_GROUP(etcd_group_setup, etcd_group_teardown)
