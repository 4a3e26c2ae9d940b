/*
 * A script of operations and a ledger of what was acknowledged. See ledger.h.
 */
#include "conformance/sqlite/ledger.h"

#include <stdio.h>

static const char *const targets[LEDGER_TARGETS] = {"kept", "handed", "forced"};

static ten_op lease_op(enum ten_op_kind kind, const char *target, const char *holder, uint64_t token) {
    bool has_ttl = kind == TEN_OP_ACQUIRE || kind == TEN_OP_RENEW;
    return (ten_op){.kind = kind,
                    .namespace_name = "poll",
                    .target = target,
                    .holder = holder,
                    .token = token,
                    .ttl_ms = has_ttl ? LONG_MS : 0};
}

static int call(ten_store *store, ten_op op, ten_result *result) {
    int r = ten_store_apply(store, &op, result, 1, CALL_MS);
    if (r < 0) {
        expect_outcome(*result, TEN_ERROR);
        assert_int_equal(result->error, r);
        assert_true(store->error.message[0] != '\0');
    }
    return r;
}

static int keep_first(int first, int r) {
    return first < 0 ? first : r;
}

/* ---- leases -------------------------------------------------------------------------------------------- */

static int take(struct ledger *ledger, ten_store *store, size_t i, const char *holder) {
    ten_result result;
    int r = call(store, lease_op(TEN_OP_ACQUIRE, targets[i], holder, 0), &result);
    ledger->unsure[i] |= r < 0;
    if (r < 0 || result.outcome != TEN_OK)
        return r;
    /* The same token again only for a lease that this holder had already, be it by an acquire whose answer failed. */
    assert_true(result.token > ledger->highest[i] || result.token == ledger->token[i]);
    ledger->highest[i] = ten_max_u64(ledger->highest[i], result.token);
    ledger->token[i] = result.token;
    ledger->unsure[i] = false;
    return r;
}

static int keep(struct ledger *ledger, ten_store *store, size_t i, const char *holder, uint64_t ttl_ms) {
    if (ledger->token[i] == 0)
        return TENURE_OK;
    ten_op op = lease_op(TEN_OP_RENEW, targets[i], holder, ledger->token[i]);
    op.ttl_ms = ttl_ms;
    ten_result result;
    int r = call(store, op, &result);
    if (r == TENURE_OK && !ledger->unsure[i])
        expect_outcome(result, TEN_OK);
    return r;
}

static int give_back(struct ledger *ledger, ten_store *store, size_t i, const char *holder, unsigned flags) {
    if (ledger->token[i] == 0)
        return TENURE_OK;
    ten_op op = lease_op(TEN_OP_RELEASE, targets[i], flags ? NULL : holder, ledger->token[i]);
    op.flags = flags;
    ten_result result;
    int r = call(store, op, &result);
    if (r < 0) {
        ledger->unsure[i] = true;
        return r;
    }
    if (!ledger->unsure[i])
        expect_outcome(result, TEN_OK);
    ledger->token[i] = 0;
    ledger->unsure[i] = false;
    return r;
}

static int run_leases(struct ledger *ledger, ten_store *store, const char *holder) {
    ten_result result;
    int first = take(ledger, store, 0, "keeper");
    first = keep_first(first, take(ledger, store, 1, holder));
    first = keep_first(first, take(ledger, store, 2, holder));
    first = keep_first(first, keep(ledger, store, 0, "keeper", LONG_MS));
    first = keep_first(first, keep(ledger, store, 0, "keeper", ledger->rounds % 2 ? 2 * LONG_MS : LONG_MS));
    first = keep_first(first, keep(ledger, store, 1, NULL, 0));
    first = keep_first(first, give_back(ledger, store, 1, holder, 0));
    first = keep_first(first, give_back(ledger, store, 2, holder, TEN_OP_FORCE_NOW));
    /* Never believed: somebody else has it. */
    int r = call(store, lease_op(TEN_OP_ACQUIRE, "guarded", holder, 0), &result);
    if (r == TENURE_OK)
        expect_outcome(result, TEN_HELD);
    first = keep_first(first, r);
    r = call(store, lease_op(TEN_OP_READ, "guarded", NULL, 0), &result);
    if (r == TENURE_OK)
        expect_holder(result, "guard");
    return keep_first(first, r);
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

static int find_guarded(const ten_row *row, void *userdata) {
    if (strcmp(row->target.id, "guarded") == 0)
        *(bool *)userdata = row->holder && strcmp(row->holder, "guard") == 0;
    return 0;
}

static int ignore_instance(const ten_instance *instance, void *userdata) {
    (void)userdata;
    assert_non_null(instance->instance);
    return 0;
}

static int ignore_change(const ten_change *change, void *userdata) {
    (void)userdata;
    assert_true(change->namespace_name && change->target && change->instance && change->actor);
    return 0;
}

static int run_rest(struct ledger *ledger, ten_store *store, const char *holder) {
    ten_target_edit edits[] = {
        {.action = TEN_TARGET_PUT, .target = {.id = "edited", .url = "http://x", .spec = "{}"}},
        {.action = TEN_TARGET_PAUSE, .target = {.id = "edited"}},
        {.action = TEN_TARGET_REMOVE, .target = {.id = ledger->rounds % 2 ? "edited" : "nothing"}},
    };
    int first = store->ops->edit_targets(store, "poll", edits, TEN_COUNT(edits), CALL_MS);
    ten_op beat = {.kind = TEN_OP_ANNOUNCE,
                   .namespace_name = "poll",
                   .holder = holder,
                   .ttl_ms = LONG_MS,
                   .weight = 1,
                   .metadata = "{\"plan\":1}"};
    ten_op ask = {.kind = TEN_OP_ASK, .namespace_name = "poll", .holder = holder, .ask = TEN_ASK_DRAIN};
    ten_op leave = {.kind = TEN_OP_LEAVE, .namespace_name = "poll", .holder = holder};
    ten_result result;
    first = keep_first(first, call(store, beat, &result));
    first = keep_first(first, call(store, ask, &result));
    first = keep_first(first, call(store, beat, &result));
    bool guarded = false;
    ten_query query = {.namespace_name = "poll", .filter = TENURE_LEASED, .limit = 100};
    int r = store->ops->list(store, &query, find_guarded, &guarded, CALL_MS);
    assert_true(r < 0 || guarded);
    first = keep_first(first, r);
    first = keep_first(first, store->ops->list_instances(store, "poll", ignore_instance, NULL, CALL_MS));
    uint64_t cursor = UINT64_MAX;
    r = store->ops->changes(store, "poll", &cursor, 10, ignore_change, NULL, CALL_MS);
    if (r == TENURE_OK) {
        cursor = ten_sub_saturating(cursor, 5);
        r = store->ops->changes(store, "poll", &cursor, 10, ignore_change, NULL, CALL_MS);
    }
    first = keep_first(first, r);
    first = keep_first(first, call(store, leave, &result));
    return keep_first(first, store->ops->ping(store, CALL_MS));
}

int ledger_run(struct ledger *ledger, ten_store *store) {
    char holder[32];
    snprintf(holder, sizeof holder, "h%u", ledger->rounds++);
    int first = run_leases(ledger, store, holder);
    return keep_first(first, run_rest(ledger, store, holder));
}

void ledger_start(struct ledger *ledger, ten_store *store) {
    *ledger = (struct ledger){0};
    expect_outcome(apply_one(store, lease_op(TEN_OP_ACQUIRE, "guarded", "guard", 0)), TEN_OK);
}

void ledger_check(struct ledger *ledger, ten_store *store) {
    for (size_t i = 0; i < LEDGER_TARGETS; i++) {
        ten_result result = apply_one(store, lease_op(TEN_OP_READ, targets[i], NULL, 0));
        assert_true(result.token >= ledger->highest[i]);
        if (!ledger->unsure[i]) {
            assert_int_equal(result.holder != NULL, ledger->token[i] != 0);
            if (ledger->token[i])
                assert_int_equal(result.token, ledger->token[i]);
        }
        /* What failed and yet took effect is nobody's: it is taken away, so that the next round starts clean. */
        if (ledger->unsure[i] && result.holder) {
            ten_op away = lease_op(TEN_OP_RELEASE, targets[i], NULL, 0);
            away.flags = TEN_OP_FORCE_NOW;
            expect_outcome(apply_one(store, away), TEN_OK);
        }
        if (ledger->unsure[i])
            ledger->token[i] = 0;
        ledger->unsure[i] = false;
    }
    ten_result result = apply_one(store, lease_op(TEN_OP_READ, "guarded", NULL, 0));
    expect_holder(result, "guard");
    assert_int_equal(result.token, 1);
}
