/*
 * The store contract: counters and history of targets that are gone are forgotten, and tokens do not go down because of
 * it.
 */
#include "conformance/suite.h"

static enum ten_forget_outcome forget(const struct place *place, const char *id) {
    ten_forget item = {.id = id, .outcome = TEN_FORGET_OUTCOMES};
    int r = ten_store_forget(place->store, place->ns, &item, 1, CALL_MS);
    if (r != TENURE_OK)
        fail_msg("the store failed: %s (%s)", place->store->error.message, tenure_error_name(r));
    return item.outcome;
}

static int count_row(const ten_row *row, void *userdata) {
    (void)row;
    ++*(size_t *)userdata;
    return 0;
}

static size_t count_rows(const struct place *place) {
    size_t count = 0;
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_ALL, .limit = 10000};
    assert_int_equal(place->other->ops->list(place->other, &query, count_row, &count, CALL_MS), TENURE_OK);
    return count;
}

CASE(a_forgotten_target_is_not_known_and_gets_a_higher_token) {
    const struct place *place = *state;
    uint64_t last = 0;
    for (int i = 0; i < 5; i++)
        last = use_once(place, "t");
    assert_int_equal(forget(place, "t"), TEN_FORGET_DONE);
    assert_int_equal(count_rows(place), 0);
    ten_op op = {.kind = TEN_OP_READ, .flags = TEN_OP_REQUIRE_TARGET, .namespace_name = place->ns, .target = "t"};
    expect_outcome(apply_one(place->store, op), TEN_UNKNOWN);
    assert_int_equal(forget(place, "t"), TEN_FORGET_UNKNOWN);
    uint64_t token = must_acquire(place, "t", "b", LONG_MS);
    assert_true(token > last);
    expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_OK);
}

CASE(what_is_held_registered_or_unknown_is_not_forgotten) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "held", "a", LONG_MS);
    uint64_t registered = use_once(place, "registered");
    put_target(place, "registered");
    put_target(place, "never-leased");
    assert_int_equal(forget(place, "held"), TEN_FORGET_HELD);
    assert_int_equal(forget(place, "registered"), TEN_FORGET_REGISTERED);
    assert_int_equal(forget(place, "never-leased"), TEN_FORGET_REGISTERED);
    assert_int_equal(forget(place, "unknown"), TEN_FORGET_UNKNOWN);
    expect_outcome(renew(place, "held", "a", token, LONG_MS), TEN_OK);
    assert_int_equal(read_lease(place, "registered").token, registered);
    assert_int_equal(count_rows(place), 3);
    /* A lease that has expired is free. */
    uint64_t expired = must_acquire(place, "expired", "a", short_ttl(place->store));
    uint64_t end_ms = now_ms() + HANG_MS;
    while (forget(place, "expired") == TEN_FORGET_HELD && now_ms() < end_ms)
        sleep_ms(20);
    assert_true(must_acquire(place, "expired", "b", LONG_MS) > expired);
}

/* The floor is the namespace's: it concerns whoever has no counter, and nobody else. */
CASE(a_floor_is_above_every_token_that_was_forgotten) {
    const struct place *place = *state;
    uint64_t known = use_once(place, "known");
    uint64_t low = use_once(place, "low");
    uint64_t high = 0;
    for (int i = 0; i < 7; i++)
        high = use_once(place, "high");
    assert_int_equal(forget(place, "high"), TEN_FORGET_DONE);
    assert_int_equal(forget(place, "low"), TEN_FORGET_DONE); /* a lower one does not lower it */
    assert_true(must_acquire(place, "low", "b", LONG_MS) > low);
    assert_true(must_acquire(place, "high", "b", LONG_MS) > high);
    assert_true(must_acquire(place, "known", "b", LONG_MS) > known);
}

/* A guard that reads the store must not take a forgotten token for the newest. */
CASE(a_read_of_a_forgotten_target_names_a_bound_and_no_token) {
    const struct place *place = *state;
    uint64_t token = use_once(place, "t");
    assert_int_equal(forget(place, "t"), TEN_FORGET_DONE);
    ten_result result = read_lease(place, "t");
    expect_outcome(result, TEN_OK);
    expect_holder(result, NULL);
    assert_true(result.recovering);
    assert_true(result.token >= token);
    assert_true(must_acquire(place, "t", "b", LONG_MS) > result.token);
}

/* Not a proof of loss: the store knows that it forgot. */
CASE(a_late_renewal_of_a_forgotten_lease_is_lost) {
    const struct place *place = *state;
    uint64_t token = use_once(place, "t");
    assert_int_equal(forget(place, "t"), TEN_FORGET_DONE);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    assert_true(must_acquire(place, "t", "b", LONG_MS) > token); /* no epoch has begun */
}

CASE(all_that_is_unregistered_is_forgotten_in_steps) {
    enum { MANY = 600 };
    const struct place *place = *state;
    static ten_op ops[MANY];
    static ten_result results[MANY];
    static char ids[MANY][16];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof ids[i], "t%04zu", i);
        ops[i] = (ten_op){
            .kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = ids[i], .holder = "a", .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, MANY, CALL_MS), TENURE_OK);
    uint64_t highest = 0;
    for (size_t i = 0; i < MANY; i++) {
        ops[i].kind = TEN_OP_RELEASE;
        ops[i].token = results[i].token;
        highest = ten_max_u64(highest, results[i].token);
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, MANY - 1, CALL_MS), TENURE_OK); /* the last is held */
    put_target(place, "t0300");
    char after[TENURE_TARGET_MAX + 1] = "";
    size_t forgotten = 0;
    do {
        size_t some = 0;
        assert_int_equal(ten_store_forget_unregistered(place->store, place->ns, after, &some, CALL_MS), TENURE_OK);
        assert_true(some <= TEN_FORGET_STEP || place->store->ops->forget_unregistered);
        forgotten += some;
    } while (after[0]);
    assert_int_equal(forgotten, MANY - 2);
    assert_int_equal(count_rows(place), 2);
    assert_int_equal(count_changes(place, "t0000"), 0);
    assert_int_equal(count_changes(place, "t0598"), 0);
    assert_int_equal(count_changes(place, "t0300"), 3); /* and that it was registered */
    assert_int_equal(count_changes(place, "t0599"), 1);
    assert_true(must_acquire(place, "new", "b", LONG_MS) > highest);
}

/* All at once, so that some of them share an entry of the feed, where a store keeps a batch in one. */
static void apply_to(const struct place *place, const char *const *ids, size_t count, enum ten_op_kind kind,
                     uint64_t *tokens) {
    ten_op ops[8];
    ten_result results[8];
    assert_true(count <= TEN_COUNT(ops));
    for (size_t i = 0; i < count; i++)
        ops[i] = (ten_op){.kind = kind,
                          .namespace_name = place->ns,
                          .target = ids[i],
                          .holder = "a",
                          .token = kind == TEN_OP_RELEASE ? tokens[i] : 0,
                          .ttl_ms = kind == TEN_OP_ACQUIRE ? LONG_MS : 0};
    assert_int_equal(ten_store_apply(place->store, ops, results, count, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < count; i++) {
        expect_outcome(results[i], TEN_OK);
        tokens[i] = results[i].token;
    }
}

CASE(a_forgotten_target_has_no_history_and_the_others_keep_theirs) {
    const struct place *place = *state;
    static const char *const ids[] = {"first", "t", "t-2", "held"};
    uint64_t tokens[TEN_COUNT(ids)];
    apply_to(place, ids, TEN_COUNT(ids), TEN_OP_ACQUIRE, tokens);
    apply_to(place, ids, 3, TEN_OP_RELEASE, tokens);
    apply_to(place, &ids[1], 1, TEN_OP_ACQUIRE, &tokens[1]);
    apply_to(place, &ids[1], 1, TEN_OP_RELEASE, &tokens[1]);
    assert_int_equal(count_changes(place, "t"), 4);
    size_t all = count_changes(place, NULL);
    assert_int_equal(forget(place, "held"), TEN_FORGET_HELD);
    assert_int_equal(forget(place, "t"), TEN_FORGET_DONE);
    assert_int_equal(count_changes(place, "t"), 0);
    assert_int_equal(count_changes(place, NULL), all - 4);
    assert_int_equal(count_changes(place, "first"), 2);
    assert_int_equal(count_changes(place, "t-2"), 2);
    assert_int_equal(count_changes(place, "held"), 1);
    expect_outcome(release(place, "t", "b", must_acquire(place, "t", "b", LONG_MS)), TEN_OK);
    assert_int_equal(count_changes(place, "t"), 2); /* it begins anew */
    uint64_t cursor = cursor_now(place->store, place->ns);
    must_acquire(place, "t", "c", LONG_MS);
    assert_int_equal(forget(place, "first"), TEN_FORGET_DONE); /* and stays when others are forgotten */
    assert_int_equal(count_changes(place, "t"), 3);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.at[0].target, "t");
}

/* It is not told again: a fleet member that has not read it yet would go on with the target. */
CASE(that_a_target_was_removed_is_told_although_it_is_forgotten) {
    const struct place *place = *state;
    ten_target_edit edit = {.action = TEN_TARGET_PUT, .target = {.id = "t"}};
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, &edit, 1, CALL_MS), TENURE_OK);
    use_once(place, "t");
    struct seen seen;
    uint64_t cursor = TEN_CURSOR_NOW;
    read_changes(place->other, place->ns, &cursor, &seen);
    edit.action = TEN_TARGET_REMOVE;
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, &edit, 1, CALL_MS), TENURE_OK);
    assert_int_equal(forget(place, "t"), TEN_FORGET_DONE);
    read_changes(place->other, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_TARGET_REMOVED);
    assert_string_equal(seen.at[0].target, "t");
}

/* Whatever is taken out of the feed, nobody who follows it has missed anything, and what they know stays in order. */
CASE(followers_of_the_feed_go_on_when_targets_are_forgotten) {
    const struct place *place = *state;
    struct seen seen;
    uint64_t start = TEN_CURSOR_NOW;
    read_changes(place->other, place->ns, &start, &seen);
    use_once(place, "oldest");
    use_once(place, "kept");
    uint64_t middle = TEN_CURSOR_NOW;
    read_changes(place->other, place->ns, &middle, &seen);
    use_once(place, "newest");
    uint64_t newest = TEN_CURSOR_NOW;
    read_changes(place->other, place->ns, &newest, &seen);
    assert_int_equal(forget(place, "oldest"), TEN_FORGET_DONE);
    assert_int_equal(forget(place, "newest"), TEN_FORGET_DONE);
    read_changes(place->other, place->ns, &newest, &seen);
    assert_int_equal(seen.count, 0);
    read_changes(place->other, place->ns, &middle, &seen);
    assert_int_equal(seen.count, 0);
    read_changes(place->other, place->ns, &start, &seen);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.at[0].target, "kept");
    assert_string_equal(seen.at[1].target, "kept");
    uint64_t token = must_acquire(place, "kept", "b", LONG_MS);
    for (size_t i = 0; i < 3; i++) {
        uint64_t cursor = i == 0 ? newest : i == 1 ? middle : start;
        read_changes(place->other, place->ns, &cursor, &seen);
        assert_int_equal(seen.count, 1);
        assert_string_equal(seen.at[0].target, "kept");
        assert_int_equal(seen.at[0].change.token, token);
    }
}
