/*
 * The store contract: a renewal with a token that the store never granted proves a loss of data, and begins an epoch.
 * An epoch may concern a whole store, so each case has one of its own.
 */
#include "conformance/suite.h"

static struct fixture own_fixture;
static struct place own_place;

/* False: does not apply. */
static bool own_store(struct place **ret_place) {
    if (!suite_fixture.kind)
        return false;
    if (fixture_create(&own_fixture, suite_fixture.kind->scheme) != 0)
        fail_msg("cannot make a store of the kind %s", suite_fixture.kind->scheme);
    own_place.store = open_store(own_fixture.url);
    own_place.other = open_store(own_fixture.url);
    make_namespace(own_place.ns);
    *ret_place = &own_place;
    return true;
}

static int close_own_store(void **state) {
    (void)state;
    if (own_place.store) {
        ten_store_close(own_place.store);
        ten_store_close(own_place.other);
        fixture_destroy(&own_fixture);
    }
    own_place = (struct place){0};
    return 0;
}

#define OWN(name) TEST_WITH(name, NULL, close_own_store)

static bool has_epoch(ten_store *store, const char *ns, uint64_t cursor) {
    struct seen seen = {0};
    int r = store->ops->changes(store, ns, &cursor, SEEN_MAX, see_change, &seen, CALL_MS);
    assert_true(r == TENURE_OK || r == TENURE_E_RESYNC);
    for (size_t i = 0; i < seen.count; i++)
        if (seen.at[i].change.kind == TENURE_EVENT_RECOVERING)
            return true;
    return false;
}

/* More than a year ahead of every clock and counter. */
static uint64_t far_token(uint64_t token) {
    return ten_max_u64(ten_wall_ms(&ten_system_clock), token) + UINT64_C(367) * 24 * 60 * 60 * 1000;
}

/* A store that came back older than it was, and cannot tell: its holders know more. */
OWN(a_renewal_from_the_future_begins_an_epoch_and_is_put_back) {
    struct place *place;
    (void)state;
    if (!own_store(&place))
        return;
    uint64_t older = must_acquire(place, "t", "a", LONG_MS);
    uint64_t other = must_acquire(place, "u", "b", LONG_MS);
    expect_outcome(release(place, "t", "a", older), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);

    ten_result result = renew(place, "t", "c", older + 5, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, older + 5);
    assert_int_equal(result.ttl_ms, LONG_MS);
    assert_true(has_epoch(place->other, place->ns, cursor));
    result = read_lease(place, "t");
    expect_holder(result, "c");
    assert_int_equal(result.token, older + 5);

    /* Nobody new is let in; whoever holds something goes on; one that was never granted here may come back, too. */
    result = acquire(place, "v", "d", LONG_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    expect_outcome(renew(place, "u", "b", other, LONG_MS), TEN_OK);
    expect_outcome(renew(place, "w", "d", other + 100, LONG_MS), TEN_OK);
    /* The older holder has lost, and later tokens are above the one that was shown. */
    expect_outcome(renew(place, "t", "a", older, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "t", "c", older + 5, LONG_MS), TEN_OK);
    /* A mistaken token uses nothing up, in a quarantine neither. */
    expect_outcome(renew(place, "x", "b", far_token(other), LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "x", "b", TENURE_TOKEN_MAX, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "x", "b", other + 2, LONG_MS), TEN_OK);
}

CASE(what_proves_nothing_is_lost_and_begins_no_epoch) {
    struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);            /* its own, which is over */
    expect_outcome(renew(place, "t", "a", far_token(token), LONG_MS), TEN_LOST); /* no token can be so large by now */
    expect_outcome(renew(place, "t", "a", TENURE_TOKEN_MAX, LONG_MS), TEN_LOST); /* nor this one */
    expect_outcome(renew(place, "t", NULL, token + 1, LONG_MS), TEN_LOST);       /* whose lease? */
    expect_outcome(renew(place, "t", "a", token + 1, 0), TEN_LOST);              /* for how long? */
    expect_outcome(release(place, "t", "a", token + 1), TEN_LOST);
    assert_false(has_epoch(place->store, place->ns, cursor));
    assert_true(must_acquire(place, "t", "b", LONG_MS) > token);
}

/* Each operation of a batch has its own outcome, and those before and after the proof are carried out. A living holder
 * loses to a higher token, as in any quarantine: two never renew. */
OWN(a_proof_in_a_batch_leaves_the_other_operations_alone) {
    struct place *place;
    (void)state;
    if (!own_store(&place))
        return;
    uint64_t first = must_acquire(place, "a", "h", LONG_MS);
    uint64_t taken = must_acquire(place, "b", "living", LONG_MS);
    uint64_t last = must_acquire(place, "c", "h", LONG_MS);
    ten_op op = {.kind = TEN_OP_RENEW, .namespace_name = place->ns, .holder = "h", .ttl_ms = LONG_MS};
    ten_op ops[4] = {op, op, op, op};
    ten_result results[4];
    static const char *const targets[] = {"a", "b", "c", "d"};
    const uint64_t tokens[] = {first, taken + 1, last, TENURE_TOKEN_MAX};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].target = targets[i];
        ops[i].token = tokens[i];
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    for (size_t i = 0; i < 3; i++) {
        expect_outcome(results[i], TEN_OK);
        assert_int_equal(results[i].token, tokens[i]);
        expect_holder(results[i], "h");
    }
    expect_outcome(results[3], TEN_LOST);
    ten_result result = renew(place, "b", "living", taken, LONG_MS);
    expect_outcome(result, TEN_LOST);
    expect_holder(result, "h");
    assert_int_equal(result.token, taken + 1);
}

/* A namespace of somebody else, on the same store. */
OWN(whoever_may_not_speak_for_the_whole_store_keeps_nobody_out_elsewhere) {
    struct place *place;
    struct place elsewhere;
    (void)state;
    if (!own_store(&place) || strncmp(own_fixture.url, "http", 4) == 0) /* there the server says whose it is */
        return;
    elsewhere = *place;
    make_namespace(elsewhere.ns);
    (void)must_acquire(&elsewhere, "t", "a", LONG_MS);
    uint64_t token = must_acquire(place, "t", "h", LONG_MS);
    uint64_t cursor = cursor_now(place->store, elsewhere.ns);
    ten_op op = {.kind = TEN_OP_RENEW,
                 .flags = TEN_OP_NO_PROOF,
                 .namespace_name = place->ns,
                 .target = "u",
                 .holder = "h",
                 .token = token + 5,
                 .ttl_ms = LONG_MS};
    ten_result result;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_OK);
    assert_false(has_epoch(place->store, elsewhere.ns, cursor));
    (void)must_acquire(&elsewhere, "u", "b", LONG_MS);
    /* Its own leases are renewed as ever. */
    op.target = "t";
    op.token = token;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_OK);
    expect_outcome(result, TEN_OK);
}
