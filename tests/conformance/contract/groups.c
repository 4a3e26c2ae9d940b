/*
 * The store contract: acquires of a group are granted all together, or none of them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "conformance/suite.h"

#define ROUNDS 60u

static ten_op acquire_in(const struct place *place, uint32_t group, const char *target, const char *holder) {
    return (ten_op){.kind = TEN_OP_ACQUIRE,
                    .namespace_name = place->ns,
                    .target = target,
                    .holder = holder,
                    .ttl_ms = LONG_MS,
                    .group = group};
}

static void must_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count) {
    if (ten_store_apply(store, ops, results, count, CALL_MS) < 0)
        fail_msg("%s", store->error.message);
}

/* The targets, as one group of the holder. */
static void acquire_group(const struct place *place, const char *holder, const char *const *targets, size_t count,
                          ten_result *results) {
    ten_op ops[TEN_GROUP_MAX];
    for (size_t i = 0; i < count; i++)
        ops[i] = acquire_in(place, 7, targets[i], holder);
    must_apply(place->store, ops, results, count);
}

static void expect_withheld(ten_result result) {
    expect_outcome(result, TEN_HELD);
    expect_holder(result, NULL);
    assert_true(ten_result_is_withheld(&result));
}

CASE(a_group_of_free_targets_is_granted) {
    const struct place *place = *state;
    static const char *const targets[] = {"b", "a", "c"};
    ten_result results[3];
    acquire_group(place, "h", targets, 3, results);
    for (size_t i = 0; i < 3; i++) {
        expect_outcome(results[i], TEN_OK);
        expect_outcome(renew(place, targets[i], "h", results[i].token, LONG_MS), TEN_OK);
    }
}

CASE(of_a_group_with_a_held_target_nothing_is_granted) {
    const struct place *place = *state;
    static const char *const targets[] = {"a", "held", "never-leased"};
    ten_result results[3];
    uint64_t before = use_once(place, "a");
    uint64_t token = must_acquire(place, "held", "other", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    acquire_group(place, "h", targets, 3, results);
    expect_withheld(results[0]);
    expect_outcome(results[1], TEN_HELD);
    expect_holder(results[1], "other");
    assert_int_equal(results[1].token, token);
    assert_in_range(results[1].remaining_ms, 1, LONG_MS + 1000);
    expect_withheld(results[2]);
    struct seen seen = {0};
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
    expect_holder(read_lease(place, "a"), NULL);
    expect_holder(read_lease(place, "never-leased"), NULL);
    assert_true(must_acquire(place, "a", "third", LONG_MS) > before);
    expect_outcome(acquire(place, "never-leased", "third", LONG_MS), TEN_OK);
}

CASE(an_answer_that_was_lost_is_had_by_the_same_group_again) {
    const struct place *place = *state;
    static const char *const targets[] = {"a", "b"};
    ten_result first[2], second[2];
    acquire_group(place, "h", targets, 2, first);
    acquire_group(place, "h", targets, 2, second);
    for (size_t i = 0; i < 2; i++) {
        expect_outcome(second[i], TEN_OK);
        assert_int_equal(second[i].token, first[i].token);
    }
}

CASE(what_the_holder_has_already_is_told_also_when_the_group_is_refused) {
    const struct place *place = *state;
    static const char *const targets[] = {"free", "own", "held"};
    ten_result results[3];
    uint64_t token = must_acquire(place, "own", "h", LONG_MS);
    must_acquire(place, "held", "other", LONG_MS);
    acquire_group(place, "h", targets, 3, results);
    expect_withheld(results[0]);
    expect_outcome(results[1], TEN_OK);
    assert_int_equal(results[1].token, token);
    expect_outcome(results[2], TEN_HELD);
}

CASE(a_group_with_a_required_target_that_is_unknown_is_not_granted) {
    const struct place *place = *state;
    use_once(place, "known");
    ten_op ops[] = {acquire_in(place, 1, "known", "h"), acquire_in(place, 1, "unknown", "h")};
    ten_result results[2];
    ops[0].flags = ops[1].flags = TEN_OP_REQUIRE_TARGET;
    must_apply(place->store, ops, results, 2);
    expect_withheld(results[0]);
    expect_outcome(results[1], TEN_UNKNOWN);
    put_target(place, "unknown");
    must_apply(place->store, ops, results, 2);
    expect_outcome(results[0], TEN_OK);
    expect_outcome(results[1], TEN_OK);
}

CASE(groups_and_other_operations_of_a_batch_stand_by_themselves) {
    const struct place *place = *state;
    must_acquire(place, "held", "other", LONG_MS);
    ten_op ops[] = {acquire_in(place, 0, "before", "h"), acquire_in(place, 1, "a", "h"),
                    acquire_in(place, 1, "held", "h"),   acquire_in(place, 2, "b", "h"),
                    acquire_in(place, 2, "c", "h"),      acquire_in(place, 0, "held", "h"),
                    acquire_in(place, 0, "after", "h")};
    ten_result results[TEN_COUNT(ops)];
    must_apply(place->store, ops, results, TEN_COUNT(ops));
    expect_outcome(results[0], TEN_OK);
    expect_withheld(results[1]);
    expect_outcome(results[2], TEN_HELD);
    expect_outcome(results[3], TEN_OK);
    expect_outcome(results[4], TEN_OK);
    expect_outcome(results[5], TEN_HELD);
    expect_outcome(results[6], TEN_OK);
}

/* Each of them had a holder, which is reported as lost: all that a grant can write. */
CASE(the_largest_group_is_granted_when_all_of_its_leases_have_ended) {
    const struct place *place = *state;
    uint64_t ttl_ms = kept_ttl(place->store);
    char names[TEN_GROUP_MAX][8];
    const char *targets[TEN_GROUP_MAX];
    ten_result results[TEN_GROUP_MAX];
    ten_op ops[TEN_GROUP_MAX];
    for (unsigned i = 0; i < TEN_GROUP_MAX; i++) {
        snprintf(names[i], sizeof names[i], "t%u", i);
        targets[i] = names[i];
        ops[i] = acquire_in(place, 0, names[i], "former");
        ops[i].ttl_ms = ttl_ms;
    }
    must_apply(place->other, ops, results, TEN_GROUP_MAX);
    for (uint64_t end_ms = now_ms() + HANG_MS; now_ms() < end_ms; sleep_ms(50)) {
        acquire_group(place, "h", targets, TEN_GROUP_MAX, results);
        if (results[0].outcome == TEN_OK)
            break;
        for (unsigned i = 0; i < TEN_GROUP_MAX; i++)
            expect_outcome(results[i], TEN_HELD);
    }
    for (unsigned i = 0; i < TEN_GROUP_MAX; i++)
        expect_outcome(results[i], TEN_OK);
}

CASE(what_is_no_group_is_refused) {
    const struct place *place = *state;
    ten_op ops[TEN_GROUP_MAX + 1];
    ten_result results[TEN_GROUP_MAX + 1];
    char names[TEN_GROUP_MAX + 1][8];
    for (unsigned i = 0; i <= TEN_GROUP_MAX; i++) {
        snprintf(names[i], sizeof names[i], "t%u", i);
        ops[i] = acquire_in(place, 1, names[i], "h");
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_GROUP_MAX + 1, CALL_MS), TENURE_E_INVALID);
    ops[1].target = names[0];
    assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_E_INVALID);
    ops[1] = acquire_in(place, 1, names[1], "i");
    assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_E_INVALID);
    ops[1] = (ten_op){.kind = TEN_OP_READ, .namespace_name = place->ns, .target = "t", .group = 1};
    assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_E_INVALID);
    expect_holder(read_lease(place, names[0]), NULL);
}

/* ---- two at the same time */

struct rival {
    const struct place *place;
    ten_store *store;
    const char *holder;
    const char *targets[3];
    atomic_uint *inside;
    unsigned granted, partial, overlaps, errors;
};

/* Nothing but all or none is ever seen, and what was refused leaves nothing behind. */
static void take_and_release(struct rival *rival) {
    ten_op ops[3];
    ten_result results[3];
    for (unsigned i = 0; i < 3; i++)
        ops[i] = acquire_in(rival->place, 1, rival->targets[i], rival->holder);
    if (ten_store_apply(rival->store, ops, results, 3, CALL_MS) < 0) {
        rival->errors++;
        return;
    }
    unsigned granted = 0;
    for (unsigned i = 0; i < 3; i++) {
        granted += results[i].outcome == TEN_OK;
        ops[i] = (ten_op){.kind = TEN_OP_RELEASE,
                          .namespace_name = rival->place->ns,
                          .target = rival->targets[i],
                          .holder = rival->holder,
                          .token = results[i].token};
    }
    rival->partial += granted != 0 && granted != 3;
    if (granted != 3)
        return;
    rival->granted++;
    rival->overlaps += atomic_fetch_add(rival->inside, 1) != 0;
    atomic_fetch_sub(rival->inside, 1);
    rival->errors += ten_store_apply(rival->store, ops, results, 3, CALL_MS) < 0;
}

static void *be_rival(void *arg) {
    struct rival *rival = arg;
    uint64_t end_ms = now_ms() + HANG_MS;
    while (rival->granted < ROUNDS && rival->errors == 0 && now_ms() < end_ms)
        take_and_release(rival);
    return NULL;
}

CASE(of_two_groups_that_overlap_one_is_granted_at_a_time) {
    const struct place *place = *state;
    atomic_uint inside = 0;
    struct rival rivals[2] = {
        {.place = place, .store = place->store, .holder = "h", .targets = {"a", "b", "c"}, .inside = &inside},
        {.place = place, .store = place->other, .holder = "i", .targets = {"c", "d", "a"}, .inside = &inside}};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, be_rival, &rivals[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rivals[i].errors, 0);
        assert_int_equal(rivals[i].partial, 0);
        assert_int_equal(rivals[i].overlaps, 0);
        assert_int_equal(rivals[i].granted, ROUNDS);
    }
}
