/*
 * What grows in etcd, and what many instances cost it: etcd leases that nothing hangs on, the feed, and listings of a
 * large fleet.
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what is left behind */

static struct place opened(const struct place *place) {
    char url[FIXTURE_URL_SIZE];
    etcd_url(url, "");
    struct place copy = {.store = open_store(url)};
    memcpy(copy.ns, place->ns, sizeof copy.ns);
    return copy;
}

static size_t etcd_lease_count(void) {
    return strtoull(etcdctl("lease list") + strlen("found "), NULL, 10);
}

ETCD_CASE(what_a_handle_has_released_leaves_no_etcd_lease_when_it_closes) {
    const struct place *place = *state;
    size_t before = etcd_lease_count();
    struct place own = opened(place);
    must_acquire(&own, "kept", "a", LONG_MS);
    uint64_t token = must_acquire(&own, "t", "a", 2 * LONG_MS);
    expect_outcome(release(&own, "t", "a", token), TEN_OK);
    ten_store_close(own.store);
    assert_int_equal(etcd_lease_count(), before + 1);
    assert_true(etcd_key_fact(place, "kept", "lease") > 0);
}

/* It has looked, and does not know any more what is attached to what. */
ETCD_CASE(what_a_handle_is_not_sure_of_is_not_ended_with_it) {
    const struct place *place = *state;
    struct place own = opened(place);
    ten_op ask = {.kind = TEN_OP_ASK, .namespace_name = place->ns, .target = "t", .ask = TEN_ASK_RESIGN};
    must_acquire(&own, "t", "a", LONG_MS);
    expect_outcome(apply_one(place->store, ask), TEN_OK);
    expect_holder(read_lease(&own, "t"), "a");
    ten_store_close(own.store);
    assert_true(etcd_key_fact(place, "t", "lease") > 0);
    own = opened(place);
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "u", .holder = "a", .ttl_ms = LONG_MS};
    ten_result result;
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = "requestPut";
    (void)ten_store_apply(own.store, &op, &result, 1, CALL_MS);
    assert_int_equal(etcd_wire.lost, 1);
    must_acquire(&own, "v", "b", LONG_MS); /* it is answered again */
    ten_store_close(own.store);
    assert_true(etcd_key_fact(place, "u", "lease") > 0);
}

/* ---- instances */

enum { FLEET = 40 };

/* By the first handle, a batch; instance `left_out` (from 0 on) is silent. */
static void fleet_beats(const struct place *place, size_t left_out) {
    static char names[FLEET][16];
    ten_op ops[FLEET];
    ten_result results[FLEET];
    size_t count = 0;
    for (size_t i = 0; i < FLEET; i++) {
        snprintf(names[i], sizeof names[i], "i-%zu", i);
        if (i != left_out)
            ops[count++] = (ten_op){.kind = TEN_OP_ANNOUNCE,
                                    .namespace_name = place->ns,
                                    .holder = names[i],
                                    .ttl_ms = LONG_MS,
                                    .weight = 1};
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, count, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < count; i++)
        expect_outcome(results[i], TEN_OK);
}

struct listing {
    size_t count;
    uint64_t least_ms;
    uint64_t most_ms;
};

static int note_listed(const ten_instance *instance, void *userdata) {
    struct listing *listing = userdata;
    listing->least_ms =
        listing->count++ ? ten_min_u64(listing->least_ms, instance->remaining_ms) : instance->remaining_ms;
    listing->most_ms = ten_max_u64(listing->most_ms, instance->remaining_ms);
    return 0;
}

static struct listing list_fleet(ten_store *store, const char *namespace_name) {
    struct listing listing = {0};
    assert_int_equal(store->ops->list_instances(store, namespace_name, note_listed, &listing, CALL_MS), TENURE_OK);
    return listing;
}

/* Each instance lists all the others with each renewal. */
ETCD_CASE(listing_a_large_fleet_is_one_request) {
    const struct place *place = *state;
    fleet_beats(place, FLEET);
    assert_int_equal(list_fleet(place->other, place->ns).count, FLEET);
    uint64_t before = etcd_calls_served();
    for (int i = 0; i < 5; i++) {
        struct listing listing = list_fleet(place->other, place->ns);
        assert_int_equal(listing.count, FLEET);
        assert_in_range(listing.least_ms, LONG_MS / 2, LONG_MS);
    }
    uint64_t calls = etcd_calls_served() - before;
    if (calls > 5)
        fail_msg("5 listings of %d instances were %llu requests", FLEET, (unsigned long long)calls);
}

/* Whoever joins looks at the others. */
ETCD_CASE(an_expired_instance_of_a_large_fleet_is_reported_in_the_feed) {
    const struct place *place = *state;
    fleet_beats(place, FLEET);
    assert_int_equal(list_fleet(place->store, place->ns).count, FLEET);
    uint64_t cursor = cursor_now(place->other, place->ns);
    etcd_revoke(etcd_fact(place, "node/i-7", "lease"));
    fleet_beats(place, 7);
    assert_int_equal(list_fleet(place->store, place->ns).count, FLEET - 1);
    ten_op joins = {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "new", .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->store, joins), TEN_OK);
    struct seen seen;
    read_changes(place->other, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_LEFT);
    assert_int_equal(seen.at[0].change.reason, TEN_REASON_EXPIRED);
    assert_string_equal(seen.at[0].instance, "i-7");
    (void)list_fleet(place->store, place->ns);
    read_changes(place->other, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
}

/* ---- the length of the feed */

static ten_etcd_key key_of(const struct place *place, enum ten_etcd_place what, const char *name) {
    return ten_etcd_place(&(ten_etcd_dir){"tenure", place->ns}, what, name);
}

/* So many entries of one change each, of writers that had read this revision: it decides where they stand. */
static void fill_feed_at(const struct place *place, size_t revision, size_t count, uint64_t at_ms) {
    ten_etcd_store *store = etcd_backend(place->other);
    char name[40];
    char value[80];
    snprintf(value, sizeof value, "0 0 %llu  1", (unsigned long long)at_ms);
    for (size_t at = 0; at < count;) {
        ten_etcd_txn_clear(&store->txn);
        for (size_t i = 0; i < 120 && at < count; i++, at++) {
            snprintf(name, sizeof name, "%016zx-%016zx", revision, at);
            ten_etcd_txn_put(&store->txn, key_of(place, TEN_ETCD_FEED, name).text, value, 0);
        }
        store->deadline_ms = now_ms() + CALL_MS;
        assert_int_equal(ten_etcd_send_only(store, true), TENURE_OK);
    }
}

/* By a clock that is far ahead: that is not young. */
static void fill_feed(const struct place *place, size_t revision, size_t count) {
    fill_feed_at(place, revision, count, UINT64_C(4000000000000));
}

static size_t feed_length(const struct place *place) {
    ten_etcd_store *store = etcd_backend(place->other);
    json_t *answer;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_get_all(&store->txn.operations, key_of(place, TEN_ETCD_FEED, NULL).text,
                     &(struct ten_etcd_range){.limit = 1});
    store->deadline_ms = now_ms() + CALL_MS;
    assert_int_equal(ten_etcd_send(store, false, &answer), TENURE_OK);
    size_t length = ten_etcd_count(answer, 0);
    json_decref(answer);
    return length;
}

/* Commands and jobs write a change or two and end: none of them would ever count to many. Nobody reads it whole. */
ETCD_CASE(the_feed_is_trimmed_in_steps_also_by_handles_that_write_once) {
    const struct place *place = *state;
    ten_etcd_store *store = etcd_backend(place->store);
    fill_feed(place, 0, TEN_FEED_MAX + 4000);
    etcd_wire.most_keys = 0;
    size_t length = SIZE_MAX;
    for (size_t i = 0; i < 3000 && length > TEN_FEED_MAX + 2000; i++) {
        store->fed = 0; /* as in a handle that is new */
        struct many *many = many_acquire(place, 40, "a", LONG_MS);
        for (size_t j = 0; j < many->count; j++)
            many->ops[j].kind = TEN_OP_RELEASE;
        assert_int_equal(many_renew(place, many), 0);
        length = feed_length(place);
    }
    assert_in_range(length, TEN_FEED_MAX, TEN_FEED_MAX + 2000);
    assert_in_range(etcd_wire.most_keys, 1, TEN_FEED_MAX + 2000);
}

/* What the feed has of the last minute stays, up to a bound, however much that is: at the start of a large fleet. */
ETCD_CASE(what_is_young_stays_in_the_feed) {
    const struct place *place = *state;
    fill_feed_at(place, 0, TEN_FEED_MAX + 3000, ten_wall_ms(place->store->clock));
    for (size_t i = 0; i < 5; i++) {
        etcd_backend(place->store)->fed = 1000; /* the feed is looked at */
        expect_outcome(release(place, "u", "a", must_acquire(place, "u", "a", LONG_MS)), TEN_OK);
    }
    assert_in_range(feed_length(place), TEN_FEED_MAX + 3000, TEN_FEED_MAX + 3010);
}

/* etcd walks over what was removed, too, until it is compacted. */
ETCD_CASE(a_feed_that_was_trimmed_is_read_from_where_it_was_cut) {
    const struct place *place = *state;
    ten_etcd_store *store = etcd_backend(place->store);
    unsigned whole = 0;
    for (size_t i = 0; i < 20; i++) {
        char mark[48];
        expect_outcome(release(place, "u", "a", must_acquire(place, "u", "a", LONG_MS)), TEN_OK);
        snprintf(mark, sizeof mark, "1 %llu", (unsigned long long)store->head.revision + 9999);
        ten_etcd_txn_clear(&store->txn);
        ten_etcd_txn_put(&store->txn, key_of(place, TEN_ETCD_TRIMMED, NULL).text, mark, 0);
        store->deadline_ms = now_ms() + CALL_MS;
        assert_int_equal(ten_etcd_send_only(store, true), TENURE_OK);
        store->fed = 1000;
        etcd_wire.most_keys = 0;
        must_acquire(place, "u", "a", LONG_MS);
        whole += etcd_wire.most_keys > 4; /* of the feed; else the state of the namespace */
        expect_outcome(release(place, "u", "a", 0), TEN_OK);
    }
    assert_in_range(whole, 0, 10); /* one of 64 looks begins at the very first key */
}

TEST_GROUP(etcd_group_setup, etcd_group_teardown)
