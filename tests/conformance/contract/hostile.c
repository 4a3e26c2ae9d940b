/*
 * The store contract: names are data, never part of a statement, a pattern or a path; numbers out of range are refused.
 * A store that checks names itself may refuse those that base/id.h does; what it accepts it keeps apart and intact.
 */
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"

static const char *const hostile_names[] = {
    "a",
    "A",
    "a ",
    "a'",
    "a''",
    "a\"",
    "a' OR '1'='1",
    "'; DROP TABLE lease; --",
    "a); DELETE FROM lease; --",
    "%",
    "%%",
    "_",
    "*",
    "?",
    "?1",
    ":a",
    "$1",
    "[a-z]",
    "a*",
    "a%",
    "a\\",
    "a\\*",
    "\\x41",
    "a/b",
    "a%2Fb",
    "a//b",
    "..",
    "../a",
    "%2e%2e",
    "a.b",
    "a:b",
    "a{b}",
    "{ns}:lease:{id}",
    "a\nb",
    "a\r\nSET x 1",
    "a\tb",
    "0",
    "00",
    "0.0",
    "1e0",
    "1",
    "-1",
    "NULL",
    "null",
    "true",
    "",
    "\xc3\xa9",         /* e with an acute accent, one code point */
    "e\xcc\x81",        /* the same as two */
    "\xf0\x9f\x94\x91", /* beyond the basic plane */
    "\xe2\x80\xaez",    /* written from right to left */
    "a\xc2\xa0",
};
#define HOSTILE TEN_COUNT(hostile_names)

/* Whether the store took the operation; it may refuse only what the rules for names refuse. */
static bool accepted(const struct place *place, ten_op op, ten_result *result) {
    ten_error error;
    int r = ten_store_apply(place->store, &op, result, 1, CALL_MS);
    if (r == TENURE_OK)
        return true;
    assert_int_equal(r, TENURE_E_INVALID);
    assert_true((op.target && ten_id_check_target(op.target, &error) < 0) ||
                (op.holder && ten_id_check_holder(op.holder, &error) < 0));
    return false;
}

static int find_name(const ten_row *row, void *userdata) {
    bool *listed = userdata;
    for (size_t i = 0; i < HOSTILE; i++)
        if (strcmp(row->target.id, hostile_names[i]) == 0)
            listed[i] = true;
    return 0;
}

CASE(hostile_targets_are_kept_apart_and_returned_intact) {
    const struct place *place = *state;
    bool taken[HOSTILE] = {false};
    uint64_t tokens[HOSTILE] = {0};
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .ttl_ms = LONG_MS};
    ten_result result;
    char holders[HOSTILE][16];
    for (size_t i = 0; i < HOSTILE; i++) {
        if (hostile_names[i][0] == '\0')
            continue;
        snprintf(holders[i], sizeof holders[i], "h%zu", i);
        op.target = hostile_names[i];
        op.holder = holders[i];
        taken[i] = accepted(place, op, &result);
        if (taken[i])
            expect_outcome(result, TEN_OK);
        tokens[i] = result.token;
    }
    for (size_t i = 0; i < HOSTILE; i++) {
        if (!taken[i])
            continue;
        result = read_lease(place, hostile_names[i]);
        expect_holder(result, holders[i]);
        assert_int_equal(result.token, tokens[i]);
    }
    bool listed[HOSTILE] = {false};
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_LEASED, .limit = 1000};
    assert_int_equal(place->store->ops->list(place->store, &query, find_name, listed, CALL_MS), TENURE_OK);
    assert_memory_equal(listed, taken, sizeof listed);
    /* Giving back one gives back no other. */
    expect_outcome(release(place, "a", NULL, tokens[0]), TEN_OK);
    for (size_t i = 1; i < HOSTILE; i++)
        if (taken[i])
            expect_holder(read_lease(place, hostile_names[i]), holders[i]);
}

CASE(hostile_holders_are_kept_apart_and_returned_intact) {
    const struct place *place = *state;
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .ttl_ms = LONG_MS};
    for (size_t i = 0; i < HOSTILE; i++) {
        ten_result result;
        op.holder = hostile_names[i];
        if (!accepted(place, op, &result))
            continue;
        expect_outcome(result, TEN_OK);
        uint64_t token = result.token;
        for (size_t j = 0; j < HOSTILE; j++) {
            ten_op other = op;
            other.holder = hostile_names[j];
            if (j == i || !accepted(place, other, &result))
                continue;
            expect_outcome(result, TEN_HELD);
            expect_holder(result, hostile_names[i]);
        }
        expect_outcome(renew(place, "t", hostile_names[i], token, LONG_MS), TEN_OK);
        expect_outcome(release(place, "t", hostile_names[i], token), TEN_OK);
    }
}

struct instance_list {
    const char *names[HOSTILE];
    size_t count;
    size_t right;
};

static int check_instance(const ten_instance *instance, void *userdata) {
    struct instance_list *list = userdata;
    for (size_t i = 0; i < list->count; i++)
        list->right += strcmp(instance->instance, list->names[i]) == 0 && instance->metadata &&
                       strcmp(instance->metadata, list->names[i]) == 0;
    return 0;
}

CASE(hostile_instances_metadata_and_actors_come_back_intact) {
    const struct place *place = *state;
    struct instance_list list = {.count = 0};
    uint64_t cursor = cursor_now(place->store, place->ns);
    ten_result result;
    for (size_t i = 0; i < HOSTILE; i++) {
        ten_op op = {.kind = TEN_OP_ANNOUNCE,
                     .namespace_name = place->ns,
                     .holder = hostile_names[i],
                     .ttl_ms = LONG_MS,
                     .weight = 1,
                     .metadata = hostile_names[i]};
        if (accepted(place, op, &result))
            list.names[list.count++] = hostile_names[i];
    }
    assert_int_equal(place->store->ops->list_instances(place->store, place->ns, check_instance, &list, CALL_MS),
                     TENURE_OK);
    assert_int_equal(list.right, list.count);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, list.count);
    for (size_t i = 0; i < seen.count; i++)
        assert_string_equal(seen.at[i].change.instance, list.names[i]);
    must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "'; DROP TABLE change; --"), TEN_OK);
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_string_equal(seen.at[seen.count - 1].change.actor, "'; DROP TABLE change; --");
}

CASE(namespaces_that_look_alike_are_kept_apart) {
    static const char *const endings[] = {"", ".", "-", "_", "a", "A", ".a", "_a", "-lease", ".lease.t"};
    const struct place *place = *state;
    struct place places[TEN_COUNT(endings)];
    for (size_t i = 0; i < TEN_COUNT(endings); i++) {
        places[i] = *place;
        snprintf(places[i].ns, sizeof places[i].ns, "%.48s%s", place->ns, endings[i]);
        expect_outcome(acquire(&places[i], "t", endings[i][0] ? endings[i] : "none", LONG_MS), TEN_OK);
    }
    for (size_t i = 0; i < TEN_COUNT(endings); i++)
        expect_holder(read_lease(&places[i], "t"), endings[i][0] ? endings[i] : "none");
}

CASE(the_longest_names_work_and_longer_ones_are_refused) {
    const struct place *place = *state;
    char longest[TENURE_TARGET_MAX + 1];
    char longer[TENURE_TARGET_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    uint64_t token = must_acquire(place, longest, longest, LONG_MS);
    expect_holder(acquire(place, longest, "b", LONG_MS), longest);
    expect_outcome(renew(place, longest, longest, token, LONG_MS), TEN_OK);
    ten_op ops[] = {
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = longer, .holder = "a", .ttl_ms = LONG_MS},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = longer, .ttl_ms = LONG_MS},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = longest, .target = "t", .holder = "a", .ttl_ms = LONG_MS},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "", .ttl_ms = LONG_MS},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .ttl_ms = LONG_MS},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS},
        {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = longer, .ttl_ms = LONG_MS},
    };
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ten_result result;
        assert_int_equal(ten_store_apply(place->store, &ops[i], &result, 1, CALL_MS), TENURE_E_INVALID);
        expect_outcome(result, TEN_ERROR);
    }
    expect_holder(read_lease(place, "t"), NULL);
}

/* Fault 31. */
CASE(a_ttl_out_of_range_is_refused_and_changes_nothing) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    const uint64_t wrong[] = {1, place->store->capabilities.ttl_min_ms - 1, TENURE_TTL_MAX_MS + 1, UINT64_MAX, 0};
    static const enum ten_op_kind kinds[] = {TEN_OP_ACQUIRE, TEN_OP_RENEW, TEN_OP_ANNOUNCE};
    for (size_t i = 0; i < TEN_COUNT(wrong); i++) {
        for (size_t k = 0; k < TEN_COUNT(kinds); k++) {
            if (wrong[i] == 0 && kinds[k] == TEN_OP_RENEW)
                continue;
            ten_op op = {.kind = kinds[k],
                         .namespace_name = place->ns,
                         .target = kinds[k] == TEN_OP_ANNOUNCE ? NULL : "t",
                         .holder = "a",
                         .token = kinds[k] == TEN_OP_RENEW ? token : 0,
                         .ttl_ms = wrong[i],
                         .weight = 1};
            ten_result result;
            assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_E_TTL);
            expect_outcome(result, TEN_ERROR);
        }
    }
    ten_result result = read_lease(place, "t");
    expect_holder(result, "a");
    assert_in_range(result.ttl_ms, LONG_MS, LONG_MS + 1000);
}

CASE(the_longest_ttl_works) {
    const struct place *place = *state;
    ten_result result = acquire(place, "t", "a", TENURE_TTL_MAX_MS);
    expect_outcome(result, TEN_OK);
    assert_in_range(result.remaining_ms, TENURE_TTL_MAX_MS - 5000, TENURE_TTL_MAX_MS);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
    expect_outcome(release(place, "t", "a", result.token), TEN_OK);
}
